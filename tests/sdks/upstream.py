"""A model endpoint of one dialect, by the standard library alone: it does what the last message says.

`say TEXT` is answered with TEXT, `use weather` with a tool call, `read the note FILE` with a call of the agent's own tool that reads files, a
result of a call with `it is RESULT`. Streams event by event. The dialect `openai` has no /responses, `responses` has.
"""

import http.server
import itertools
import json
import re
import sys
import threading

DIALECT = sys.argv[1]
NUMBERS = itertools.count(1)


def last_item(body):
    """Role and text of the last item of a request to /responses."""
    if isinstance(body["input"], str):
        return "user", body["input"]
    item = body["input"][-1]
    if item.get("type") == "function_call_output":
        return "tool", item["output"]
    content = item["content"]
    return item["role"], content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def last_message(body):
    if "input" in body:
        return last_item(body)
    said = [message for message in body["messages"] if message["role"] not in ("system", "developer")]
    while any(message["role"] == "assistant" for message in said):
        said.pop(0)
    # Agents add messages of their own behind a result.
    message = ([message for message in said if message["role"] == "tool"] or said)[-1]
    content = message["content"]
    if isinstance(content, str):
        return message["role"], content
    for block in content:
        if block["type"] == "tool_result":
            inner = block["content"]
            return "tool", inner if isinstance(inner, str) else "".join(part["text"] for part in inner)
    return message["role"], "".join(block.get("text", "") for block in content)


def last_turn(body):
    """All that was said since the model's last answer, as JSON: agents add messages of their own."""
    items = body["input"] if isinstance(body.get("input"), list) else body.get("messages", [])
    said = []
    for item in reversed(items):
        if item.get("role") == "assistant" or item.get("type") == "function_call":
            break
        said.insert(0, json.dumps(item))
    return " ".join(said)


def reading(body, file):
    """A call of a tool that reads a file: of codex, of Claude Code, of OpenClaw."""
    known = {"exec_command": {"cmd": f"cat {file}"}, "Read": {"file_path": file}, "read": {"path": file}}
    names = [tool.get("name") or tool.get("function", {}).get("name") for tool in body.get("tools", [])]
    name = next(name for name in known if name in names)
    return name, known[name]


def decide(body):
    """Text and calls of the answer."""
    role, text = last_message(body)
    note = re.search(r"read the note (\S+?)[\\\"\s]", last_turn(body) + " ")
    if note and role != "tool":
        return "", [("call_note", *reading(body, note.group(1)))]
    if role == "tool":
        return f"it is {text}", []
    if text == "use weather":
        return "", [("call_1", "weather", {"city": "Oslo"})]
    if text == "show system":
        system = [message["content"] for message in body.get("messages", []) if message["role"] == "system"]
        return (system or [body.get("system") or body.get("instructions") or "nothing"])[0], []
    return text.removeprefix("say "), []


def openai_body(text, calls):
    message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    id = f"chatcmpl-{next(NUMBERS)}"
    return {"id": id, "object": "chat.completion", "created": 1, "model": "up", "choices": [choice], "usage": usage}


def openai_events(text, calls, usage):
    def chunk(delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]}

    yield "", chunk({"role": "assistant", "content": ""})
    for letter in text:
        yield "", chunk({"content": letter})
    for index, (id, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        yield "", chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
        for letter in json.dumps(arguments):
            yield "", chunk({"tool_calls": [{"index": index, "function": {"arguments": letter}}]})
    yield "", chunk({}, "tool_calls" if calls else "stop")
    if usage:
        counts = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        yield "", {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [], "usage": counts}
    yield "", None


def anthropic_body(text, calls):
    content = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name, arguments in calls]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content,
        "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 3},
    }


def anthropic_events(text, calls):
    whole = anthropic_body(text, calls)
    begin = dict(whole, content=[], stop_reason=None, usage={"input_tokens": 5, "output_tokens": 1})
    yield "message_start", {"type": "message_start", "message": begin}
    for index, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        empty = {"type": "text", "text": ""} if is_text else dict(block, input={})
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for letter in block["text"] if is_text else json.dumps(block["input"]):
            delta = {"type": "text_delta", "text": letter} if is_text else {"type": "input_json_delta", "partial_json": letter}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    yield "message_stop", {"type": "message_stop"}


def responses_body(text, calls):
    output = [{"id": "rs_1", "type": "reasoning", "summary": []}]
    if text:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        output.append({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]})
    for id, name, arguments in calls:
        output.append(
            {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": id, "name": name, "arguments": json.dumps(arguments)}
        )
    global made
    made += 1
    return {
        "id": f"resp_{made}", "object": "response", "created_at": 1, "status": "completed", "model": "stub", "output": output,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
        "temperature": 1, "tool_choice": "auto", "tools": [], "top_p": 1,
        "usage": {
            "input_tokens": 10, "output_tokens": 2, "total_tokens": 12,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


made = 0


def responses_events(whole):
    """The events of a response."""
    begun = dict(whole, status="in_progress", output=[], usage=None)
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for at, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            part = item["content"][0]
            empty = dict(part, text="")
            events.append(("response.output_item.added", {"output_index": at, "item": dict(item, content=[], status="in_progress")}))
            events.append(("response.content_part.added", {**place, "content_index": 0, "part": empty}))
            for letter in part["text"]:
                events.append(("response.output_text.delta", {**place, "content_index": 0, "delta": letter, "logprobs": []}))
            events.append(("response.output_text.done", {**place, "content_index": 0, "text": part["text"], "logprobs": []}))
            events.append(("response.content_part.done", {**place, "content_index": 0, "part": part}))
        elif item["type"] == "function_call":
            events.append(("response.output_item.added", {"output_index": at, "item": dict(item, arguments="", status="in_progress")}))
            for letter in item["arguments"]:
                events.append(("response.function_call_arguments.delta", {**place, "delta": letter}))
            done = {"arguments": item["arguments"], "name": item["name"]}
            events.append(("response.function_call_arguments.done", {**place, **done}))
        else:
            events.append(("response.output_item.added", {"output_index": at, "item": item}))
        events.append(("response.output_item.done", {"output_index": at, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return [(name, {"type": name, "sequence_number": at, **data}) for at, (name, data) in enumerate(events)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_json(self, whole):
        data = json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/count_tokens"):
            self.send_json({"input_tokens": 9})
            return
        is_responses = self.path.endswith("/responses")
        if is_responses and DIALECT != "responses":
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        text, calls = decide(body)
        is_openai = DIALECT != "anthropic"
        if is_responses:
            whole = responses_body(text, calls)
        else:
            whole = openai_body(text, calls) if is_openai else anthropic_body(text, calls)
        if not body.get("stream"):
            self.send_json(whole)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        usage = (body.get("stream_options") or {}).get("include_usage")
        if is_responses:
            events = responses_events(whole)
        else:
            events = openai_events(text, calls, usage) if is_openai else anthropic_events(text, calls)
        for name, data in events:
            line = f"event: {name}\n" if name else ""
            event = f"{line}data: {'[DONE]' if data is None else json.dumps(data)}\n\n".encode()
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
# The test that started it holds its input open: it ends with the test.
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
