// The benchmarked server, written with npm's @modelcontextprotocol/sdk (1.x): by itself on stdio,
// or with `stateless PORT`.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { createServer } from "node:http";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });

function bench() {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  server.registerTool("add", { inputSchema: { a: z.number().int(), b: z.number().int() } },
    async ({ a, b }) => text(String(a + b)));
  server.registerTool("echo", { inputSchema: { text: z.string() } },
    async ({ text: value }) => text(value));
  server.registerTool("blob", { inputSchema: { size: z.number().int() } },
    async ({ size }) => text("x".repeat(size)));
  return server;
}

const [kind, port] = process.argv.slice(2);
if (kind === undefined) {
  await bench().connect(new StdioServerTransport());
} else {
  // Without sessions each request needs a server of its own, as its documentation says.
  createServer(async (req, res) => {
    const server = bench();
    const options = { sessionIdGenerator: undefined, enableJsonResponse: true };
    const transport = new StreamableHTTPServerTransport(options);
    res.on("close", () => { transport.close(); server.close(); });
    await server.connect(transport);
    await transport.handleRequest(req, res);
  }).listen(port, "127.0.0.1");
}
