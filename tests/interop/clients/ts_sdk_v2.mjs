// A client of npm's @modelcontextprotocol/client (2.x) that does steps.
import {
  Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const plan = JSON.parse(process.argv[2]);
const { Stepper, report } = await import(plan.library);

const client = new Client(
  { name: "steps", version: "1.0" },
  {
    capabilities: {
      elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true },
    },
    versionNegotiation: { mode: plan.mode },
  },
);

async function watch(uris, tools, cause) {
  if (client.getProtocolEra() === "legacy") {
    for (const uri of uris) await client.subscribeResource({ uri });
    const outcome = await cause();
    for (const uri of uris) await client.unsubscribeResource({ uri });
    return outcome;
  }
  const subscription = await client.listen({ toolsListChanged: tools, resourceSubscriptions: uris });
  const outcome = await cause();
  await subscription.close();
  return { ...outcome, granted: subscription.honoredFilter, ended: await subscription.closed };
}

function transportOf({ command, url }) {
  if (command) return new StdioClientTransport({ command: command[0], args: command.slice(1) });
  const Transport = url.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(url));
}

class StepperV2 extends Stepper {
  callTool(params, options) {
    // This library leaves it to its user to ask for log messages in the modern era.
    if (plan.log_level && client.getProtocolEra() === "modern") {
      params = { ...params, _meta: { [LOG_LEVEL_META_KEY]: plan.log_level } };
    }
    return client.callTool(params, options);
  }
}

const stepper = new StepperV2(client, watch);
for (const [method, answer] of Object.entries(stepper.answers)) {
  client.setRequestHandler(method, async (request) => answer(request.params));
}
for (const [method, take] of Object.entries(stepper.notified)) {
  client.setNotificationHandler(method, async (notification) => take(notification.params));
}
await client.connect(transportOf(plan));
await report(stepper, plan, { version: client.getNegotiatedProtocolVersion() });
