// The benchmarked server, written with npm's @modelcontextprotocol/server (2.x), both eras: by
// itself on stdio, or with `http PORT`.
import { McpServer, createMcpHandler } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { getRequestListener } from "@hono/node-server";
import { createServer } from "node:http";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });

function bench() {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  server.registerTool("add", { inputSchema: z.object({ a: z.number().int(), b: z.number().int() }) },
    async ({ a, b }) => text(String(a + b)));
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) },
    async ({ text: value }) => text(value));
  server.registerTool("blob", { inputSchema: z.object({ size: z.number().int() }) },
    async ({ size }) => text("x".repeat(size)));
  server.registerTool("touch", { inputSchema: z.object({ uri: z.string() }) },
    async ({ uri }) => { handler.notify.resourceUpdated(uri); return text(uri); });
  server.registerTool("flood", { inputSchema: z.object({ pieces: z.number(), size: z.number() }) },
    async ({ pieces, size }, ctx) => {
      const { progressToken } = ctx.mcpReq._meta;
      const message = "x".repeat(size);
      for (let progress = 1; progress <= pieces; progress++) {
        const params = { progressToken, progress, message };
        await ctx.mcpReq.notify({ method: "notifications/progress", params });
      }
      return text("done");
    });
  server.registerResource("r", "bench://changing", {},
    async (uri) => ({ contents: [{ uri: uri.href, text: "" }] }));
  server.server.registerCapabilities({ resources: { subscribe: true } });
  return server;
}

const [kind, port] = process.argv.slice(2);
const handler = createMcpHandler(bench, { maxSubscriptions: 2000 });
if (kind === undefined) serveStdio(bench);
else createServer(getRequestListener(handler.fetch)).listen(port, "127.0.0.1");
