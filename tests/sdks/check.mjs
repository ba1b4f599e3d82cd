// The OpenAI and Anthropic SDKs for Node against a gateway. Prints one line per check; exits with 1 if one failed.
import { createRequire } from "node:module";

const [address, alias, modules] = process.argv.slice(2);
const require = createRequire(`${modules}/package.json`);
const OpenAI = require("openai").default ?? require("openai");
const Anthropic = require("@anthropic-ai/sdk").default ?? require("@anthropic-ai/sdk");

let failed = 0;
function check(name, got, expect) {
  const [seen, wanted] = [JSON.stringify(got), JSON.stringify(expect)];
  if (seen === wanted) console.log(`ok node ${name}`);
  else {
    failed = 1;
    console.log(`FAILED node ${name}: got ${seen}, expected ${wanted}`);
  }
}

const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const chat = new OpenAI({ baseURL: `http://${address}/v1`, apiKey: "none", maxRetries: 0 });
const messages = new Anthropic({ baseURL: `http://${address}`, apiKey: "none", maxRetries: 0 });
const says = [{ role: "user", content: "say hello" }];

const parts = {
  async openai_chat() {
    const answer = await chat.chat.completions.create({ model: alias, messages: says });
    check("openai chat", answer.choices[0].message.content, "hello");
  },
  async openai_stream() {
    let text = "";
    for await (const chunk of await chat.chat.completions.create({ model: alias, messages: says, stream: true })) {
      text += chunk.choices[0]?.delta?.content ?? "";
    }
    check("openai stream", text, "hello");
  },
  async openai_tools() {
    const tools = [{ type: "function", function: { name: "weather", parameters: schema } }];
    const history = [{ role: "user", content: "use weather" }];
    const first = await chat.chat.completions.create({ model: alias, messages: history, tools });
    const call = first.choices[0].message.tool_calls[0];
    check("openai call", [call.function.name, JSON.parse(call.function.arguments)], ["weather", { city: "Oslo" }]);
    history.push(first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "rain" });
    const second = await chat.chat.completions.create({ model: alias, messages: history, tools });
    check("openai after the call", second.choices[0].message.content, "it is rain");
  },
  async anthropic_messages() {
    const answer = await messages.messages.create({ model: alias, max_tokens: 50, messages: says });
    check("anthropic messages", answer.content[0].text, "hello");
  },
  async anthropic_stream() {
    const stream = messages.messages.stream({ model: alias, max_tokens: 50, messages: says });
    check("anthropic stream", await stream.finalText(), "hello");
  },
  async anthropic_tools() {
    const tools = [{ name: "weather", input_schema: schema }];
    const stream = messages.messages.stream({
      model: alias, max_tokens: 50, tools, messages: [{ role: "user", content: "use weather" }],
    });
    const call = (await stream.finalMessage()).content.find((block) => block.type === "tool_use");
    check("anthropic call", [call.name, call.input], ["weather", { city: "Oslo" }]);
  },
};
for (const [name, part] of Object.entries(parts)) {
  try {
    await part();
  } catch (error) {
    failed = 1;
    console.log(`FAILED node ${name}: ${error}`);
  }
}
process.exit(failed);
