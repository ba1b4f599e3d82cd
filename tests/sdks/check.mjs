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
  async responses() {
    const first = await chat.responses.create({ model: alias, input: "say hello" });
    check("responses", first.output_text, "hello");
    const more = await chat.responses.create({ model: alias, input: "say more", previous_response_id: first.id });
    check("responses continued", more.output_text, "more");
    check("responses read", (await chat.responses.retrieve(more.id)).output[more.output.length - 1].content[0].text, "more");
  },
  async responses_stream() {
    const stream = chat.responses.stream({ model: alias, input: "say hello" });
    let text = "";
    for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
    check("responses stream", text, "hello");
    check("responses final", (await stream.finalResponse()).output_text, "hello");
  },
  async responses_tools() {
    const tools = [{ type: "function", name: "weather", description: "", parameters: schema, strict: false }];
    const first = await chat.responses.create({ model: alias, input: "use weather", tools });
    const call = first.output.find((item) => item.type === "function_call");
    check("responses call", JSON.parse(call.arguments), { city: "Oslo" });
    const input = [{ type: "function_call_output", call_id: call.call_id, output: "rain" }];
    const second = await chat.responses.create({ model: alias, input, tools, previous_response_id: first.id });
    check("responses after the call", second.output_text, "it is rain");
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
