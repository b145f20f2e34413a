// The common server, written with npm's @modelcontextprotocol/server (2.x), both eras.
import {
  McpServer, ResourceTemplate, acceptedContent, completable, createMcpHandler, inputRequired,
  inputResponse,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createServer } from "node:http";
import { Readable } from "node:stream";
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

const kit = () => {
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
  tool("steps", { count: z.number().int() }, async ({ count }, ctx) => {
    for (let number = 1; number <= count; number++) {
      await progress(ctx, { progress: number, total: count, message: `step ${number}` });
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
    if (http) http.notify.resourceUpdated(uri);
    else await server.server.sendResourceUpdated({ uri });
    return text(uri);
  });
  tool("grow", { name: z.string() }, async ({ name }) => {
    grown.push(name);
    tool(name, {}, async () => text(name));
    http?.notify.toolsChanged();
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

// Over HTTP each request has a server of its own.
const http = process.env.PORT && createMcpHandler(kit);
const grown = [];

async function serve(req, res) {
  const gone = new AbortController();
  res.on("close", () => gone.abort());
  const request = new Request(`http://${req.headers.host}${req.url}`, {
    method: req.method,
    headers: req.headers,
    body: req.method === "POST" ? Readable.toWeb(req) : undefined,
    duplex: "half",
    signal: gone.signal,
  });
  const answer = await http.fetch(request);
  res.writeHead(answer.status, Object.fromEntries(answer.headers));
  res.flushHeaders();
  for await (const piece of answer.body ?? []) res.write(piece);
  res.end();
}

if (http) createServer(serve).listen(process.env.PORT, "127.0.0.1");
else serveStdio(kit);
