// The benchmarked server, written with npm's @modelcontextprotocol/server (2.x), both eras.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });

serveStdio(() => {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  server.registerTool("add", { inputSchema: z.object({ a: z.number().int(), b: z.number().int() }) },
    async ({ a, b }) => text(String(a + b)));
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) },
    async ({ text: value }) => text(value));
  server.registerTool("blob", { inputSchema: z.object({ size: z.number().int() }) },
    async ({ size }) => text("x".repeat(size)));
  return server;
});
