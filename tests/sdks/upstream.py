"""A model endpoint of one dialect, by the standard library alone: it does what the last message says.

`say TEXT` is answered with TEXT, `use weather` with a tool call, a result of a call with `it is RESULT`. Streams event by event.
"""

import http.server
import json
import sys
import threading

DIALECT = sys.argv[1]


def last_message(body):
    message = body["messages"][-1]
    content = message["content"]
    if isinstance(content, str):
        return message["role"], content
    for block in content:
        if block["type"] == "tool_result":
            inner = block["content"]
            return "tool", inner if isinstance(inner, str) else "".join(part["text"] for part in inner)
    return message["role"], "".join(block.get("text", "") for block in content)


def decide(body):
    """Text and calls of the answer."""
    role, text = last_message(body)
    if role == "tool":
        return f"it is {text}", []
    if text == "use weather":
        return "", [("call_1", "weather", {"city": "Oslo"})]
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
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice], "usage": usage}


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


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text, calls = decide(body)
        if not body.get("stream"):
            whole = openai_body(text, calls) if DIALECT == "openai" else anthropic_body(text, calls)
            data = json.dumps(whole).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        usage = (body.get("stream_options") or {}).get("include_usage")
        events = openai_events(text, calls, usage) if DIALECT == "openai" else anthropic_events(text, calls)
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
