"""`examples/python-wrap` with the SDKs of OpenAI and Anthropic and with LiteLLM: what reaches the gateway, and what the caller notices.

Run by the suite beside it: `wrap.py OPENAI ANTHROPIC GATEWAY` with the addresses of two endpoints and of a gateway, which is asked last; before,
a stub of `POST /ingest` takes its place.
"""

import asyncio
import gc
import http.server
import json
import pathlib
import sys
import threading

import anthropic
import openai
from checks import check, finish

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/python-wrap"))
import clawhost_wrap
from clawhost_wrap import wrap

OPENAI, ANTHROPIC, GATEWAY = sys.argv[1:4]
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HELLO = [{"role": "user", "content": "say hello"}]
records = []


class Ingest(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        records.append((self.path, self.headers.get("authorization"), body))
        data = json.dumps({"episode_id": "ep-1", "playbook_version": 0, "learning_status": "idle"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


gateway = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ingest)
threading.Thread(target=gateway.serve_forever, daemon=True).start()
ADDRESS = f"http://127.0.0.1:{gateway.server_port}"

# The senders of all wrapped clients, so that the checks can wait for them.
senders = []
made = clawhost_wrap.Sender.__init__


def noted(self, *args, **kwargs):
    made(self, *args, **kwargs)
    senders.append(self)


clawhost_wrap.Sender.__init__ = noted


def recorded():
    """The messages and the metadata of the records since the last call."""
    for sender in senders:
        if not sender.flush(20):
            raise TimeoutError("records are still waiting")
    found = [(body["messages"], body["metadata"]) for _, _, body in records]
    records.clear()
    return found


def said(name, texts, model="up"):
    """One record, whose messages have these roles and contents."""
    found = recorded()
    check(f"{name}: one record", len(found), 1)
    if found:
        messages, metadata = found[0]
        check(f"{name}: messages", [(message["role"], message["content"]) for message in messages], texts)
        counts = metadata["usage"]
        check(f"{name}: model and usage", (metadata["model"], counts["prompt_tokens"] > 0, counts["completion_tokens"] > 0), (model, True, True))
    return found[0][0] if found else []


def check_calls(name, messages):
    call = next((message for message in messages if message.get("tool_calls")), {}).get("tool_calls", [{}])[0]
    function = call.get("function", {})
    check(f"{name}: call", (call.get("id"), function.get("name"), json.loads(function.get("arguments", "null"))), ("call_1", "weather", {"city": "Oslo"}))
    result = next((message for message in messages if message["role"] == "tool"), {})
    check(f"{name}: result", (result.get("tool_call_id"), result.get("content")), ("call_1", "sunny"))


def make(kind, **more):
    base = {"base_url": OPENAI} if kind in (openai.OpenAI, openai.AsyncOpenAI) else {"base_url": ANTHROPIC}
    return wrap(kind(api_key="none", max_retries=0, **base), gateway=ADDRESS, **more)


CHAT = [("user", "say hello"), ("assistant", "hello")]


def openai_chat():
    client = make(openai.OpenAI)
    answer = client.chat.completions.create(model="m", messages=HELLO)
    check("openai answer", answer.choices[0].message.content, "hello")
    said("openai chat", CHAT)
    stream = client.chat.completions.create(model="m", messages=HELLO, stream=True, stream_options={"include_usage": True})
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    check("openai streamed answer", text, "hello")
    said("openai stream", CHAT)
    client.with_options(timeout=20).chat.completions.create(model="m", messages=HELLO)
    said("openai with options", CHAT)
    check("openai raw", client.chat.completions.with_raw_response.create(model="m", messages=HELLO).status_code, 200)
    recorded()


def openai_tools():
    client = make(openai.OpenAI)
    tools = [{"type": "function", "function": {"name": "weather", "description": "", "parameters": TOOL}}]
    history = [{"role": "user", "content": "use weather"}]
    first = client.chat.completions.create(model="m", messages=history, tools=tools)
    history.append(first.choices[0].message)
    history.append({"role": "tool", "tool_call_id": "call_1", "content": "sunny"})
    client.chat.completions.create(model="m", messages=history, tools=tools)
    # What the caller adds later is no part of the record.
    history.append({"role": "user", "content": "later"})
    found = recorded()
    check("openai tools: records", [len(messages) for messages, _ in found], [2, 4])
    check_calls("openai tools", found[-1][0])
    check("openai tools: one conversation", found[0][1]["conversation_id"], found[1][1]["conversation_id"])
    stream = client.chat.completions.create(model="m", messages=history[:1], tools=tools, stream=True)
    for _ in stream:
        pass
    calls = recorded()[0][0][-1]["tool_calls"]
    check("openai streamed call", json.loads(calls[0]["function"]["arguments"]), {"city": "Oslo"})


def conversations_are_told_apart():
    client = make(openai.OpenAI)
    for _ in range(2):
        client.chat.completions.create(model="m", messages=HELLO)
    first = [metadata["conversation_id"] for _, metadata in recorded()]
    check("equal conversations are two", len(set(first)), 2)
    history = HELLO + [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "say more"}]
    for _ in range(2):
        client.chat.completions.create(model="m", messages=history)
    check("each of them is continued", [metadata["conversation_id"] for _, metadata in recorded()], first)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "say other"}])
    check("another one is another", recorded()[0][1]["conversation_id"] in first, False)


def openai_responses():
    client = make(openai.OpenAI)
    first = client.responses.create(model="m", input="say hello", instructions="be brief")
    check("responses answer", first.output_text, "hello")
    said("responses", [("system", "be brief")] + CHAT, model="stub")
    client.responses.create(model="m", input="say more", previous_response_id=first.id)
    said("responses continued", CHAT + [("user", "say more"), ("assistant", "more")], model="stub")
    for _ in client.responses.create(model="m", input="say hello", stream=True):
        pass
    said("responses stream", CHAT, model="stub")


def anthropic_messages():
    client = make(anthropic.Anthropic)
    answer = client.messages.create(model="m", max_tokens=50, system="be brief", messages=HELLO)
    check("anthropic answer", answer.content[0].text, "hello")
    said("anthropic", [("system", "be brief")] + CHAT)
    for _ in client.messages.create(model="m", max_tokens=50, messages=HELLO, stream=True):
        pass
    said("anthropic stream", CHAT)
    with client.messages.stream(model="m", max_tokens=50, messages=HELLO) as stream:
        check("anthropic streamed answer", "".join(stream.text_stream), "hello")
    said("anthropic stream manager", CHAT)


def anthropic_tools():
    client = make(anthropic.Anthropic)
    tools = [{"name": "weather", "description": "", "input_schema": TOOL}]
    history = [{"role": "user", "content": "use weather"}]
    first = client.messages.create(model="m", max_tokens=50, messages=history, tools=tools)
    history.append({"role": "assistant", "content": first.content})
    history.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}]})
    client.messages.create(model="m", max_tokens=50, messages=history, tools=tools)
    check_calls("anthropic tools", recorded()[-1][0])


async def asynchronous():
    client = make(openai.AsyncOpenAI)
    await client.chat.completions.create(model="m", messages=HELLO)
    said("async openai", CHAT)
    async for _ in await client.chat.completions.create(model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}):
        pass
    said("async openai stream", CHAT)
    client = make(anthropic.AsyncAnthropic)
    await client.messages.create(model="m", max_tokens=50, messages=HELLO)
    said("async anthropic", CHAT)
    async with client.messages.stream(model="m", max_tokens=50, messages=HELLO) as stream:
        async for _ in stream:
            pass
    said("async anthropic stream", CHAT)


def what_the_caller_notices():
    client = make(openai.OpenAI, key="ch-secret", conversation_id="job-7")
    client.chat.completions.create(model="m", messages=HELLO)
    senders[-1].flush(20)
    path, key, body = records.pop()
    check("path and key", (path, key, body["metadata"]["conversation_id"]), ("/ingest", "Bearer ch-secret", "job-7"))
    stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
    next(stream)
    stream.close()
    del stream
    gc.collect()
    check("a stream that is left is not recorded", recorded(), [])
    down = wrap(openai.OpenAI(api_key="none", base_url=OPENAI, max_retries=0), gateway="http://127.0.0.1:1")
    check("a gateway that is down", down.chat.completions.create(model="m", messages=HELLO).choices[0].message.content, "hello")
    check("is waited for in the background", senders[-1].flush(20), True)
    check("and counted", (senders[-1].sent, senders[-1].missed), (0, 1))
    broken = wrap(openai.OpenAI(api_key="none", base_url="http://127.0.0.1:1/v1", max_retries=0), gateway=ADDRESS)
    try:
        broken.chat.completions.create(model="m", messages=HELLO)
        check("an error of the provider", "none", "an error")
    except openai.APIConnectionError:
        check("an error of the provider is the caller's, and not recorded", recorded(), [])
    try:
        wrap(object())
        check("no client", "none", "an error")
    except TypeError:
        check("what is no client is refused", True, True)


def litellm_callback():
    import litellm

    logger = clawhost_wrap.ClawhostLogger(gateway=ADDRESS)
    litellm.callbacks = [logger]
    asked = {"model": "openai/m", "api_base": OPENAI, "api_key": "none", "messages": HELLO}
    litellm.completion(**asked)
    for _ in litellm.completion(**asked, stream=True, stream_options={"include_usage": True}):
        pass

    async def later():
        await litellm.acompletion(**asked)
        # LiteLLM calls back from a task of its own.
        while sum(sender.sent for sender in senders if sender is logger.sender) < 3:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(later(), 30))
    found = [[(message["role"], message["content"]) for message in messages] for messages, _ in recorded()]
    check("litellm", found, [CHAT] * 3)


def through_a_gateway():
    client = wrap(openai.OpenAI(api_key="none", base_url=OPENAI, max_retries=0), gateway=GATEWAY)
    tools = [{"type": "function", "function": {"name": "weather", "description": "", "parameters": TOOL}}]
    history = [{"role": "user", "content": "use weather"}]
    history.append(client.chat.completions.create(model="m", messages=history, tools=tools).choices[0].message)
    history.append({"role": "tool", "tool_call_id": "call_1", "content": "sunny"})
    client.chat.completions.create(model="m", messages=history, tools=tools)
    sender = senders[-1]
    check("a gateway", (sender.flush(20), sender.sent, sender.missed), (True, 2, 0))


openai_chat()
openai_tools()
conversations_are_told_apart()
openai_responses()
anthropic_messages()
anthropic_tools()
asyncio.run(asynchronous())
what_the_caller_notices()
litellm_callback()
through_a_gateway()
finish()
