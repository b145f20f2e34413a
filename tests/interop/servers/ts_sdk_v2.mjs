// The common server, written with npm's @modelcontextprotocol/server (2.x), both eras.
import {
  McpServer, ResourceTemplate, WebStandardStreamableHTTPServerTransport, acceptedContent,
  completable, createMcpHandler, inputRequired, inputResponse, isLegacyRequest,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { getRequestListener } from "@hono/node-server";
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

function progress(ctx, params) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  return ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, ...params } });
}

const make = ({ era }) => {
  const server = new McpServer(
    { name: "kit", version: "1.0", title: "Kit" },
    {
      instructions: "For tests.",
      capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true } },
    },
  );
  const tool = (name, shape, run, more = {}) =>
    server.registerTool(name, { inputSchema: z.object(shape), ...more }, run);

  tool("add", { a: z.number().int(), b: z.number().int() },
    async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } }),
    { title: "Add", outputSchema: z.object({ result: z.number() }) });
  tool("echo", { text: z.string() }, async (args) => text(args.text));
  tool("big", { size: z.number().int() }, async ({ size }) => text("x".repeat(size)));
  const stepping = { count: z.number().int(), pause: z.number().default(0) };
  tool("steps", stepping, async ({ count, pause }, ctx) => {
    for (let number = 1; number <= count; number++) {
      await progress(ctx, { progress: number, total: count, message: `step ${number}` });
      await sleep(pause * 1000);
    }
    return text(`${count} steps`);
  });
  tool("wait", {}, async (_args, ctx) => {
    const aborted = new Promise((_, reject) => {
      ctx.mcpReq.signal.addEventListener("abort", () => { stopped++; reject(new Error("aborted")); });
    });
    await progress(ctx, { progress: 1 });
    await aborted;
  });
  tool("cancelled", {}, async () => text(String(stopped)));
  // The library fulfils these rounds by requests of its own where the client is of 2025-11-25.
  tool("greet", {}, async (_args, ctx) => {
    const who = z.object({ name: z.string() });
    const answer = acceptedContent(ctx.mcpReq.inputResponses, "who", who);
    if (answer) return text(`Hello, ${answer.name}!`);
    const given = inputResponse(ctx.mcpReq.inputResponses, "who");
    if (given.kind !== "missing") return text(given.action);
    const question = inputRequired.elicit({ message: "What is your name?", requestedSchema: who });
    return inputRequired({ inputRequests: { who: question } });
  });
  tool("think", { question: z.string() }, async ({ question }, ctx) => {
    const answer = ctx.mcpReq.inputResponses?.model;
    if (answer) return text(answer.content.text);
    const messages = [{ role: "user", content: { type: "text", text: question } }];
    const model = inputRequired.createMessage({ messages, maxTokens: 50 });
    return inputRequired({ inputRequests: { model } });
  });
  tool("roots", {}, async (_args, ctx) => {
    const answer = ctx.mcpReq.inputResponses?.roots;
    if (answer) return text(answer.roots.map((root) => root.uri).join(" "));
    return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
  });
  tool("fail", { reason: z.string() }, async ({ reason }) => { throw new Error(reason); });
  tool("log", { level: z.string(), text: z.string() }, async (args, ctx) => {
    await ctx.mcpReq.log(args.level, args.text, "kit");
    return text(args.level);
  });
  tool("touch", { uri: z.string() }, async ({ uri }) => {
    if (http && era === "modern") http.notify.resourceUpdated(uri);
    else await server.server.sendResourceUpdated({ uri });
    return text(uri);
  });
  tool("grow", { name: z.string() }, async ({ name }) => {
    if (http) grown.push(name);
    tool(name, {}, async () => text(name));
    if (http && era === "modern") http.notify.toolsChanged();
    return text(name);
  });
  for (const name of grown) tool(name, {}, async () => text(name));
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
    argsSchema: z.object({
      code: z.string(),
      language: completable(z.string().default("python"), (value, context) =>
        starting(LANGUAGES, value, context)),
    }),
  }, ({ code, language }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Review this ${language}: ${code}` } }],
  }));
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  return server;
};

// Over HTTP, modern requests each have a server of their own, and legacy clients one for a session.
const http = process.env.PORT && createMcpHandler(make, { legacy: "reject" });
const stateless = createMcpHandler(make);
const grown = [];
const sessions = new Map();

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

async function answer(request) {
  if (request.url.endsWith("/stateless")) return stateless.fetch(request);
  if (!(await isLegacyRequest(request))) return http.fetch(request);
  const id = request.headers.get("mcp-session-id");
  let transport = sessions.get(id);
  if (id && !transport) return new Response(null, { status: 404 });
  if (!transport) {
    transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (made) => { sessions.set(made, transport); },
      eventStore: new Events(),
      retryInterval: 100,
    });
    await make({ era: "legacy" }).connect(transport);
  }
  return transport.handleRequest(request);
}

if (http) createServer(getRequestListener(answer)).listen(process.env.PORT, "127.0.0.1");
else serveStdio(make);
