// The benchmarked server, written with npm's @modelcontextprotocol/sdk (1.x).
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });
const server = new McpServer({ name: "bench", version: "1.0.0" });
server.registerTool("add", { inputSchema: { a: z.number().int(), b: z.number().int() } },
  async ({ a, b }) => text(String(a + b)));
server.registerTool("echo", { inputSchema: { text: z.string() } },
  async ({ text: value }) => text(value));
server.registerTool("blob", { inputSchema: { size: z.number().int() } },
  async ({ size }) => text("x".repeat(size)));
await server.connect(new StdioServerTransport());
