// What the foreign clients that are written in JavaScript have in common.

class Timeout extends Error {}

const within = (seconds, promise) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Timeout(`not done within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

export class Stepper {
  asked = [];
  logs = [];
  changes = [];
  onChange = () => {};

  constructor(client, watch) {
    this.client = client;
    this.watch = watch;
  }

  // What the server asks and says

  answers = {
    "elicitation/create": (params) => {
      this.asked.push(params);
      return params.mode === "url"
        ? { action: "accept" }
        : { action: "accept", content: { name: "Ada" } };
    },
    "sampling/createMessage": (params) => {
      this.asked.push(params);
      const content = { type: "text", text: `${params.maxTokens} tokens` };
      return { role: "assistant", content, model: "test" };
    },
    "roots/list": () => {
      this.asked.push("roots");
      return { roots: [{ uri: "file:///project" }] };
    },
  };

  notified = {
    "notifications/message": (params) => this.logs.push(params),
    "notifications/resources/updated": (params) => this.change(params.uri),
    "notifications/tools/list_changed": () => this.change("notifications/tools/list_changed"),
  };

  change(text) {
    this.changes.push(text);
    this.onChange();
  }

  // Steps

  async run(steps) {
    const outcomes = [];
    for (const step of steps) outcomes.push(await this.step(step));
    return outcomes;
  }

  async step({ do: what, ...step }) {
    const progress = [];
    const onprogress = (p) => progress.push([p.progress, p.total ?? null, p.message ?? null]);
    let outcome;
    try {
      outcome = await within(20, this.steps[what](step, onprogress));
    } catch (error) {
      outcome = Number.isInteger(error.code)
        ? { error: { code: error.code, message: error.message, data: error.data } }
        : { raised: `${error.constructor.name}: ${error.message}` };
    }
    if (progress.length) outcome.progress = progress;
    return outcome;
  }

  async pages(list, field) {
    const items = [];
    let cursor;
    do {
      const page = await list(cursor === undefined ? undefined : { cursor });
      items.push(...page[field]);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return { result: items };
  }

  steps = {
    tools: () => this.pages((params) => this.client.listTools(params), "tools"),
    resources: () => this.pages((params) => this.client.listResources(params), "resources"),
    templates: () =>
      this.pages((params) => this.client.listResourceTemplates(params), "resourceTemplates"),
    prompts: () => this.pages((params) => this.client.listPrompts(params), "prompts"),
    call: async ({ name, arguments: args, timeout }, onprogress) => {
      const options = { onprogress };
      if (timeout !== undefined) options.timeout = timeout * 1000;
      return { result: await this.callTool({ name, arguments: args }, options) };
    },
    cancel: async ({ name, arguments: args }) => {
      const controller = new AbortController();
      const options = { signal: controller.signal, onprogress: () => controller.abort("enough") };
      try {
        await this.callTool({ name, arguments: args }, options);
        return { result: "not cancelled" };
      } catch (error) {
        if (!controller.signal.aborted) throw error;
        return { result: "cancelled" };
      }
    },
    read: async ({ uri }) => ({ result: await this.client.readResource({ uri }) }),
    prompt: async ({ name, arguments: args }) =>
      ({ result: await this.client.getPrompt({ name, arguments: args }) }),
    complete: async ({ ref, argument, context }) => {
      const params = { ref, argument };
      if (context) params.context = { arguments: context };
      return { result: await this.client.complete(params) };
    },
    ping: async () => ({ result: await this.client.ping() }),
    level: async ({ level }) => ({ result: await this.client.setLoggingLevel(level) }),
    roots_changed: async () => {
      await this.client.sendRootsListChanged();
      return { result: {} };
    },
    together: async ({ steps }) =>
      ({ steps: await Promise.all(steps.map((step) => this.step(step))) }),
    watch: async ({ uris, tools, steps, count }) => {
      this.changes.length = 0;
      return this.watch(uris, tools, async () => {
        const outcomes = await this.run(steps);
        await new Promise((resolve) => {
          this.onChange = () => { if (this.changes.length >= count) resolve(); };
          this.onChange();
        });
        return { steps: outcomes, events: [...this.changes].sort() };
      });
    },
  };

  callTool(params, options) {
    return this.client.callTool(params, options);
  }
}

export async function report(stepper, plan, about) {
  const outcomes = await stepper.run(plan.steps);
  const { client, asked, logs } = stepper;
  const closing = performance.now();
  const server = client.getServerVersion();
  const capabilities = client.getServerCapabilities();
  const instructions = client.getInstructions();
  await client.close();
  const close = (performance.now() - closing) / 1000;
  const whole = { ...about, server, capabilities, instructions, outcomes, asked, logs, close };
  await new Promise((resolve) => process.stdout.write(JSON.stringify(whole) + "\n", resolve));
}
