// A client of npm's @modelcontextprotocol/sdk (1.x) that does steps.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as types from "@modelcontextprotocol/sdk/types.js";

const plan = JSON.parse(process.argv[2]);
const { Stepper, report } = await import(plan.library);

const client = new Client(
  { name: "steps", version: "1.0" },
  {
    capabilities: {
      elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true },
    },
  },
);

function transportOf({ command, url }) {
  if (command) return new StdioClientTransport({ command: command[0], args: command.slice(1) });
  const Transport = url.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(url));
}

class StepperV1 extends Stepper {
  callTool(params, options) {
    return this.client.callTool(params, undefined, options);
  }
}

const stepper = new StepperV1(client, async (uris, _tools, cause) => {
  for (const uri of uris) await client.subscribeResource({ uri });
  const outcome = await cause();
  for (const uri of uris) await client.unsubscribeResource({ uri });
  return outcome;
});
for (const [schema, method] of [
  [types.ElicitRequestSchema, "elicitation/create"],
  [types.CreateMessageRequestSchema, "sampling/createMessage"],
  [types.ListRootsRequestSchema, "roots/list"],
]) {
  client.setRequestHandler(schema, async (request) => stepper.answers[method](request.params));
}
for (const [schema, method] of [
  [types.LoggingMessageNotificationSchema, "notifications/message"],
  [types.ResourceUpdatedNotificationSchema, "notifications/resources/updated"],
  [types.ToolListChangedNotificationSchema, "notifications/tools/list_changed"],
]) {
  client.setNotificationHandler(schema, (notification) => stepper.notified[method](notification.params));
}
const transport = transportOf(plan);
let version;
const { setProtocolVersion } = transport;
transport.setProtocolVersion = (negotiated) => {
  version = negotiated;
  setProtocolVersion?.call(transport, negotiated);
};
await client.connect(transport);
await report(stepper, plan, { version });
