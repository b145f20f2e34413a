// A client of npm's @modelcontextprotocol/client (2.x) that uses all that a server has.
//     node ts_sdk_v2.mjs MODE URL          or  node ts_sdk_v2.mjs MODE COMMAND ARGUMENTS...
import {
  Client, SSEClientTransport, StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, ...server] = process.argv.slice(2);
const client = new Client(
  { name: "everything", version: "1.0" },
  {
    capabilities: {
      elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true },
    },
    versionNegotiation: { mode },
  },
);

export const sample = (schema) => {
  if ("const" in schema) return schema.const;
  if (schema.enum) return schema.enum[0];
  const kind = schema.type ?? "object";
  if (kind === "object") {
    const wanted = schema.required ?? [];
    const properties = Object.entries(schema.properties ?? {});
    return Object.fromEntries(
      properties.filter(([name]) => wanted.includes(name)).map(([name, s]) => [name, sample(s)]),
    );
  }
  const text = schema.format === "email" ? "a@example.org" : "example";
  return { integer: schema.minimum ?? 0, number: 0.5, boolean: true, array: [] }[kind] ?? text;
};

const survive = async (doing) => {
  try {
    return await doing();
  } catch (error) {
    console.error(`${error.name}: ${error.message}`);
    return undefined;
  }
};

client.setRequestHandler("elicitation/create", async ({ params }) =>
  params.mode === "url"
    ? { action: "decline" }
    : { action: "accept", content: sample(params.requestedSchema) });
client.setRequestHandler("sampling/createMessage", async () => ({
  role: "assistant", content: { type: "text", text: "word" }, model: "test",
}));
client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///project" }] }));

const options = { timeout: 4000, onprogress: () => {} };
// A whole list; from its beginning again if a cursor is refused.
const all = async (list, field) => {
  let items = [];
  for (let round = 0; round < 2; round += 1) {
    items = [];
    let page = await survive(() => list({}));
    while (page) {
      items.push(...page[field]);
      if (page.nextCursor === undefined) return items;
      const cursor = page.nextCursor;
      page = await survive(() => list({ cursor }));
    }
    if (!items.length) break;
  }
  return items;
};

const [first, ...rest] = server;
let transport;
if (first.includes("://")) {
  const Transport = first.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
  transport = new Transport(new URL(first));
} else {
  transport = new StdioClientTransport({ command: first, args: rest });
}
await client.connect(transport);
const offered = client.getServerCapabilities() ?? {};
if (offered.tools) {
  for (const tool of await all((p) => client.listTools(p, options), "tools")) {
    const params = { name: tool.name, arguments: sample(tool.inputSchema) };
    await survive(() => client.callTool(params, options));
  }
}
if (offered.resources) {
  for (const { uri } of await all((p) => client.listResources(p, options), "resources")) {
    await survive(() => client.readResource({ uri }, options));
  }
  const templates = await all((p) => client.listResourceTemplates(p, options), "resourceTemplates");
  for (const { uriTemplate } of templates) {
    const params = {
      ref: { type: "ref/resource", uri: uriTemplate }, argument: { name: "name", value: "w" },
    };
    if (offered.completions) await survive(() => client.complete(params, options));
  }
}
if (offered.prompts) {
  for (const prompt of await all((p) => client.listPrompts(p, options), "prompts")) {
    const names = (prompt.arguments ?? []).map(({ name }) => name);
    const args = Object.fromEntries(names.map((name) => [name, "word"]));
    await survive(() => client.getPrompt({ name: prompt.name, arguments: args }, options));
    const params = {
      ref: { type: "ref/prompt", name: prompt.name }, argument: { name: names[0], value: "w" },
    };
    if (offered.completions && names.length) await survive(() => client.complete(params, options));
  }
}
if (client.getProtocolEra() === "legacy") {
  await survive(() => client.ping(options));
} else {
  const subscription = await survive(() => client.listen({ toolsListChanged: true }));
  await new Promise((resolve) => setTimeout(resolve, 200));
  if (subscription) await survive(() => subscription.close());
}
await transport.terminateSession?.();
await client.close();
