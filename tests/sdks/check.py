"""The OpenAI and Anthropic SDKs against a gateway: every dialect of the client with every dialect of the upstream.

Run by the suite beside it, which starts the gateway. Prints one line per check; exits with 1 if one failed.
"""

import json
import sys

import anthropic
import openai
from checks import check, fail, finish

ADDRESS, ALIAS = sys.argv[1], sys.argv[2]
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

chat = openai.OpenAI(base_url=f"http://{ADDRESS}/v1", api_key="none", max_retries=0)
messages = anthropic.Anthropic(base_url=f"http://{ADDRESS}", api_key="none", max_retries=0)


def openai_chat():
    answer = chat.chat.completions.create(model=ALIAS, messages=[{"role": "user", "content": "say hello"}])
    check("openai chat", answer.choices[0].message.content, "hello")
    check("openai usage", answer.usage.completion_tokens > 0, True)


def openai_stream():
    stream = chat.chat.completions.create(
        model=ALIAS, messages=[{"role": "user", "content": "say hello"}], stream=True
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    check("openai stream", text, "hello")
    check("openai stream has no usage", [chunk.usage for chunk in chunks if chunk.usage], [])
    stream = chat.chat.completions.create(
        model=ALIAS,
        messages=[{"role": "user", "content": "say hello"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    usages = [chunk.usage for chunk in stream if chunk.usage]
    check("openai stream with usage", len(usages) == 1 and usages[0].completion_tokens > 0, True)


def openai_tools():
    tools = [{"type": "function", "function": {"name": "weather", "description": "", "parameters": TOOL}}]
    history = [{"role": "user", "content": "use weather"}]
    first = chat.chat.completions.create(model=ALIAS, messages=history, tools=tools)
    call = first.choices[0].message.tool_calls[0]
    check("openai call", (call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Oslo"}))
    history.append(first.choices[0].message.model_dump(exclude_none=True))
    history.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
    second = chat.chat.completions.create(model=ALIAS, messages=history, tools=tools)
    check("openai after the call", second.choices[0].message.content, "it is rain")
    with chat.chat.completions.stream(model=ALIAS, messages=history[:1], tools=tools) as stream:
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0]
    check("openai streamed call", (call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Oslo"}))


def openai_structured():
    schema = {"name": "n", "strict": True, "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    answer = chat.chat.completions.create(
        model=ALIAS,
        messages=[{"role": "user", "content": "say {\"a\": 1}"}],
        response_format={"type": "json_schema", "json_schema": schema},
    )
    check("openai structured output", json.loads(answer.choices[0].message.content), {"a": 1})


def responses_create():
    answer = chat.responses.create(model=ALIAS, input="say hello")
    check("responses", (answer.output_text, answer.status), ("hello", "completed"))
    check("responses usage", answer.usage.output_tokens > 0, True)
    more = chat.responses.create(model=ALIAS, input="say more", previous_response_id=answer.id)
    check("responses continued", (more.output_text, more.previous_response_id in (answer.id, None)), ("more", True))
    check("responses read", chat.responses.retrieve(more.id).output_text, "more")
    listed = [item.content[0].text for item in chat.responses.input_items.list(more.id)]
    check("responses input items", listed, ["say more"])
    chat.responses.delete(more.id)
    try:
        chat.responses.retrieve(more.id)
        check("responses deleted", "an answer", "NotFoundError")
    except openai.NotFoundError:
        check("responses deleted", True, True)


def responses_stream():
    with chat.responses.stream(model=ALIAS, input="say hello") as stream:
        events = list(stream)
        final = stream.get_final_response()
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    check("responses stream", (text, final.output_text), ("hello", "hello"))


def responses_tools():
    tools = [{"type": "function", "name": "weather", "description": "", "parameters": TOOL}]
    first = chat.responses.create(model=ALIAS, input="use weather", tools=tools)
    call = [item for item in first.output if item.type == "function_call"][0]
    check("responses call", (call.name, json.loads(call.arguments)), ("weather", {"city": "Oslo"}))
    result = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    second = chat.responses.create(model=ALIAS, input=result, tools=tools, previous_response_id=first.id)
    check("responses after the call", second.output_text, "it is rain")
    items = [{"role": "user", "content": "use weather"}, *[item.model_dump(exclude_none=True) for item in first.output], *result]
    third = chat.responses.create(model=ALIAS, input=items, tools=tools, store=False)
    check("responses without state", third.output_text, "it is rain")
    with chat.responses.stream(model=ALIAS, input="use weather", tools=tools) as stream:
        final = stream.get_final_response()
    call = [item for item in final.output if item.type == "function_call"][0]
    check("responses streamed call", (call.name, json.loads(call.arguments)), ("weather", {"city": "Oslo"}))


def responses_structured():
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    answer = chat.responses.create(model=ALIAS, input='say {"a": 1}', text={"format": form})
    check("responses structured output", json.loads(answer.output_text), {"a": 1})


def openai_errors():
    try:
        chat.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "x"}])
        check("openai unknown model", "an answer", "NotFoundError")
    except openai.NotFoundError as error:
        check("openai unknown model", "no model `nobody`" in error.message, True)
    check("openai models", [model.id for model in chat.models.list()], [ALIAS])


def anthropic_messages():
    answer = messages.messages.create(
        model=ALIAS, max_tokens=50, messages=[{"role": "user", "content": "say hello"}]
    )
    check("anthropic messages", answer.content[0].text, "hello")
    check("anthropic stop", answer.stop_reason, "end_turn")


def anthropic_stream():
    with messages.messages.stream(
        model=ALIAS, max_tokens=50, messages=[{"role": "user", "content": "say hello"}]
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check("anthropic stream", (text, final.content[0].text, final.stop_reason), ("hello", "hello", "end_turn"))


def anthropic_tools():
    tools = [{"name": "weather", "description": "", "input_schema": TOOL}]
    history = [{"role": "user", "content": "use weather"}]
    first = messages.messages.create(model=ALIAS, max_tokens=50, messages=history, tools=tools)
    call = [block for block in first.content if block.type == "tool_use"][0]
    check("anthropic call", (call.name, call.input, first.stop_reason), ("weather", {"city": "Oslo"}, "tool_use"))
    history.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    history.append({"role": "user", "content": [result]})
    second = messages.messages.create(model=ALIAS, max_tokens=50, messages=history, tools=tools)
    check("anthropic after the call", second.content[0].text, "it is rain")
    with messages.messages.stream(model=ALIAS, max_tokens=50, messages=history[:1], tools=tools) as stream:
        final = stream.get_final_message()
    call = [block for block in final.content if block.type == "tool_use"][0]
    check("anthropic streamed call", (call.name, call.input), ("weather", {"city": "Oslo"}))


def anthropic_count():
    counted = messages.messages.count_tokens(model=ALIAS, messages=[{"role": "user", "content": "say hello"}])
    check("anthropic count", counted.input_tokens > 0, True)


def anthropic_errors():
    try:
        messages.messages.create(model="nobody", max_tokens=5, messages=[{"role": "user", "content": "x"}])
        check("anthropic unknown model", "an answer", "NotFoundError")
    except anthropic.NotFoundError as error:
        check("anthropic unknown model", "no model `nobody`" in str(error), True)
    check("anthropic models", [model.id for model in messages.models.list()], [ALIAS])


for part in [
    openai_chat,
    openai_stream,
    openai_tools,
    openai_structured,
    responses_create,
    responses_stream,
    responses_tools,
    responses_structured,
    openai_errors,
    anthropic_messages,
    anthropic_stream,
    anthropic_tools,
    anthropic_count,
    anthropic_errors,
]:
    try:
        part()
    except Exception as error:  # A check that cannot run has failed; the others are of interest, too.
        fail(f"{part.__name__}: {type(error).__name__}: {error}")
finish()
