// The common server, written with npm's @modelcontextprotocol/sdk (1.x), up to 2025-11-25.
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { completable } from "@modelcontextprotocol/sdk/server/completable.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  SubscribeRequestSchema, UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

const LANGUAGES = ["python", "perl", "rust"];
const NOTES = { today: "write more tests", tomorrow: "run them" };
const text = (value) => ({ content: [{ type: "text", text: value }] });
const starting = (known, value, context) => {
  const values = known.filter((one) => one.startsWith(value ?? ""));
  return context?.arguments?.code === "reversed" ? values.reverse() : values;
};
let stopped = 0;

function progress(extra, params) {
  const progressToken = extra._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  return extra.sendNotification({
    method: "notifications/progress", params: { progressToken, ...params },
  });
}

function make() {
  const server = new McpServer(
    { name: "kit", version: "1.0", title: "Kit" },
    { instructions: "For tests.", capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  const tool = (name, inputSchema, run, more = {}) =>
    server.registerTool(name, { inputSchema, ...more }, run);

  tool("add", { a: z.number().int(), b: z.number().int() },
    async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } }),
    { title: "Add", outputSchema: { result: z.number() } });
  tool("echo", { text: z.string() }, async (args) => text(args.text));
  tool("big", { size: z.number().int() }, async ({ size }) => text("x".repeat(size)));
  const stepping = { count: z.number().int(), pause: z.number().default(0) };
  tool("steps", stepping, async ({ count, pause }, extra) => {
    for (let number = 1; number <= count; number++) {
      await progress(extra, { progress: number, total: count, message: `step ${number}` });
      await sleep(pause * 1000);
    }
    return text(`${count} steps`);
  });
  tool("wait", {}, async (_args, extra) => {
    const aborted = new Promise((_, reject) => {
      extra.signal.addEventListener("abort", () => { stopped++; reject(new Error("aborted")); });
    });
    await progress(extra, { progress: 1 });
    await aborted;
  });
  tool("cancelled", {}, async () => text(String(stopped)));
  tool("greet", {}, async () => {
    const requestedSchema = {
      type: "object", properties: { name: { type: "string" } }, required: ["name"],
    };
    const answer = await server.server.elicitInput({ message: "What is your name?", requestedSchema });
    return text(answer.action === "accept" ? `Hello, ${answer.content.name}!` : answer.action);
  });
  tool("think", { question: z.string() }, async ({ question }) => {
    const messages = [{ role: "user", content: { type: "text", text: question } }];
    const answer = await server.server.createMessage({ messages, maxTokens: 50 });
    return text(answer.content.text);
  });
  tool("roots", {}, async () =>
    text((await server.server.listRoots()).roots.map((root) => root.uri).join(" ")));
  tool("fail", { reason: z.string() }, async ({ reason }) => { throw new Error(reason); });
  tool("log", { level: z.string(), text: z.string() }, async (args, extra) => {
    const message = { level: args.level, data: args.text, logger: "kit" };
    await server.sendLoggingMessage(message, extra.sessionId);
    return text(args.level);
  });
  tool("touch", { uri: z.string() }, async ({ uri }) => {
    await server.server.sendResourceUpdated({ uri });
    return text(uri);
  });
  tool("grow", { name: z.string() }, async ({ name }) => {
    tool(name, {}, async () => text(name));
    return text(name);
  });
  tool("die", {}, async () => process.exit(3));

  server.registerResource("today", "memo://today", { title: "Today", mimeType: "text/plain" },
    async (uri) => ({ contents: [{ uri: uri.href, text: NOTES.today, mimeType: "text/plain" }] }));
  const complete = { name: (value, context) => starting(Object.keys(NOTES), value, context) };
  server.registerResource("memo", new ResourceTemplate("memo://{name}", { list: undefined, complete }),
    { title: "A memo" },
    async (uri, { name }) =>
      ({ contents: [{ uri: uri.href, text: NOTES[name] ?? `nothing about ${name}` }] }));
  server.registerPrompt("review", {
    title: "Review",
    argsSchema: {
      code: z.string(),
      language: completable(z.string().optional(), (value, context) =>
        starting(LANGUAGES, value, context)),
    },
  }, ({ code, language = "python" }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Review this ${language}: ${code}` } }],
  }));
  server.server.setRequestHandler(SubscribeRequestSchema, async () => ({}));
  server.server.setRequestHandler(UnsubscribeRequestSchema, async () => ({}));
  return server;
}

// Over HTTP each client has a server of its own, and comes back to it by the id of its session.
class Events {
  stored = [];
  async storeEvent(stream, message) { return String(this.stored.push({ stream, message })); }
  async replayEventsAfter(last, { send }) {
    const { stream } = this.stored[Number(last) - 1];
    for (const [index, event] of this.stored.entries()) {
      const isNext = index >= Number(last) && event.stream === stream;
      if (isNext && Object.keys(event.message).length) await send(String(index + 1), event.message);
    }
    return stream;
  }
}

const sessions = new Map();
const routes = {
  "/mcp": async (req, res) => {
    const id = req.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (id && !transport) return res.writeHead(404).end();
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (made) => sessions.set(made, transport),
        eventStore: new Events(),
        retryInterval: 100,
      });
      await make().connect(transport);
    }
    return transport.handleRequest(req, res);
  },
  "/sse": async (req, res) => {
    if (req.method !== "GET") return res.writeHead(405).end();
    const transport = new SSEServerTransport("/messages", res);
    sessions.set(transport.sessionId, transport);
    return make().connect(transport);
  },
  "/messages": async (req, res, url) =>
    sessions.get(url.searchParams.get("sessionId")).handlePostMessage(req, res),
};

if (process.env.PORT) {
  createServer((req, res) => {
    const url = new URL(req.url, "http://localhost");
    return routes[url.pathname](req, res, url);
  }).listen(process.env.PORT, "127.0.0.1");
} else {
  await make().connect(new StdioServerTransport());
}
