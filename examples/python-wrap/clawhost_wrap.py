"""Records what a program says to its models in a clawhost gateway, while the program calls its providers directly.

    from clawhost_wrap import wrap
    client = wrap(client)

`wrap` takes a client of the `openai` or the `anthropic` package. Every answered request is sent to `POST /ingest` of the gateway by a thread in
the background. A call is neither delayed nor failed by it: what cannot be sent is counted and logged (logger `clawhost_wrap`).

    import litellm
    from clawhost_wrap import ClawhostLogger
    litellm.callbacks = [ClawhostLogger()]

The gateway is `CLAWHOST_GATEWAY` [http://127.0.0.1:8700], its key `CLAWHOST_KEY`. This file needs nothing but the standard library.
"""

import atexit
import collections
import functools
import hashlib
import inspect
import json
import logging
import os
import queue
import threading
import time
import urllib.request
import uuid

__all__ = ["Sender", "wrap"]

log = logging.getLogger("clawhost_wrap")

# Records that wait to be sent. Beyond it records are dropped, so that a gateway that is down costs no memory.
WAITING = 1000
# Seconds for one record, and for all that wait when the program ends.
SEND_SECONDS = 5
EXIT_SECONDS = 2
# Conversations that are remembered by their last answer, and responses that requests continue by an id.
REMEMBERED = 10_000
RESPONSES = 1000


class Sender:
    """Sends records to a gateway from a thread of its own.

    `address` is the gateway's, without a path; `key` a client's key; `conversation_id` names the conversation of all records. Without it
    a conversation that begins like a recorded one continues it.
    """

    def __init__(self, address=None, key=None, conversation_id=None):
        self.address = (address or os.environ.get("CLAWHOST_GATEWAY") or "http://127.0.0.1:8700").rstrip("/")
        self.key = key or os.environ.get("CLAWHOST_KEY")
        self.conversation_id = conversation_id
        self.sent = 0
        self.missed = 0
        self._waiting = queue.Queue(WAITING)
        self._conversations = _Conversations()
        self._started = threading.Lock()
        self._thread = None

    def put(self, make):
        """Takes a function that makes the record: a pair of messages and metadata, or `None`. It is called in the background."""
        try:
            self._start()
            self._waiting.put_nowait(make)
        except Exception as error:  # a full queue, or a program that is ending
            self._miss(error)

    def flush(self, seconds=EXIT_SECONDS):
        """Waits until all records were sent, up to a time. Returns whether they were."""
        end = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)
        return not self._waiting.unfinished_tasks

    def _start(self):
        with self._started:
            # A fork has no threads of its parent.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="clawhost_wrap", daemon=True)
                self._thread.start()
                atexit.register(self.flush)

    def _run(self):
        while True:
            make = self._waiting.get()
            try:
                record = make()
                if record is not None:
                    self._send(*record)
                    self.sent += 1
            except Exception as error:
                self._miss(error)
            finally:
                self._waiting.task_done()

    def _send(self, messages, metadata):
        metadata = dict(metadata, conversation_id=self.conversation_id or self._conversations.find(messages))
        body = json.dumps({"messages": messages, "metadata": metadata}).encode()
        headers = {"content-type": "application/json"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(f"{self.address}/ingest", body, headers)
        with _opener.open(request, timeout=SEND_SECONDS) as answer:
            answer.read()

    def _miss(self, error):
        self.missed += 1
        level = logging.WARNING if self.missed == 1 else logging.DEBUG
        log.log(level, "a conversation was not recorded at %s: %r", self.address, error)


class _Conversations:
    """Names conversations: a request continues the one whose answer its history ends with. Only the thread of the sender uses it."""

    def __init__(self):
        self._known = collections.OrderedDict()

    def find(self, messages):
        *history, _ = messages
        name = self._earlier(history) or f"wrapped-{uuid.uuid4().hex}"
        self._known.setdefault(_digest(messages), []).append(name)
        self._known.move_to_end(_digest(messages))
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return name

    def _earlier(self, history):
        while history:
            if history[-1]["role"] == "assistant":
                names = self._known.get(_digest(history))
                if names:
                    # Of equal conversations at the same time each is continued once.
                    return names.pop(0) if len(names) > 1 else names[0]
            history = history[:-1]
        return None


def _digest(messages):
    """Of what a conversation says. Clients write the same history in several ways."""
    said = hashlib.sha256()
    for message in messages:
        if message["role"] == "system":
            continue
        calls = [call.get("function", {}) for call in message.get("tool_calls", [])]
        calls = [(call.get("name"), _arguments(call.get("arguments"))) for call in calls]
        said.update(json.dumps([message["role"], _text(message["content"]).strip(), calls]).encode())
    return said.digest()


def _arguments(text):
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except ValueError:
        return text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the key to another host."""

    def redirect_request(self, *_):
        return None


# No proxy of the environment: the gateway is this program's own.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def wrap(client, gateway=None, key=None, conversation_id=None):
    """Records the answers of a client of `openai` or `anthropic`, and returns the client.

    A client that is neither is an error; whatever happens later is not.
    """
    return _wrap(client, Sender(gateway, key, conversation_id))


def _wrap(client, sender):
    found = [(path, shape) for path, shape in _SHAPES if _resource(client, path) is not None]
    if not found:
        raise TypeError("wrap takes a client of the packages openai or anthropic")
    for path, shape in found:
        resource = _resource(client, path)
        shape = shape()
        for name in ("create", "parse"):
            if hasattr(resource, name):
                _replace(resource, name, _watched(getattr(resource, name), shape, sender))
        if isinstance(shape, _Messages) and hasattr(resource, "stream"):
            _replace(resource, "stream", _watched_manager(resource.stream, shape, sender))
    for name in ("copy", "with_options"):
        if hasattr(client, name):
            _replace(client, name, _wrapping(getattr(client, name), sender))
    return client


def _resource(client, path):
    for name in path.split("."):
        client = getattr(client, name, None)
    return client


def _replace(owner, name, function):
    if not hasattr(getattr(owner, name), "_clawhost"):
        function._clawhost = True
        setattr(owner, name, function)


def _wrapping(copy, sender):
    @functools.wraps(copy)
    def copied(*args, **kwargs):
        return _wrap(copy(*args, **kwargs), sender)

    return copied


def _watched(call, shape, sender):
    """A method of a resource that records its answers, whole or streamed."""

    def record(asked, answer):
        if hasattr(answer, "__anext__") or hasattr(answer, "__next__"):
            return _Stream(answer, lambda events: sender.put(lambda: shape.streamed(asked, events)))
        sender.put(lambda: shape.whole(asked, answer))
        return answer

    @functools.wraps(call)
    def watched(*args, **kwargs):
        asked = _snapshot(kwargs)
        answer = call(*args, **kwargs)
        if not inspect.isawaitable(answer):
            return record(asked, answer)

        async def waited():
            return record(asked, await answer)

        return waited()

    return watched


def _watched_manager(call, shape, sender):
    """`messages.stream` of Anthropic: a context manager whose stream keeps the message itself."""

    @functools.wraps(call)
    def watched(*args, **kwargs):
        asked = _snapshot(kwargs)
        return _Manager(call(*args, **kwargs), lambda message: sender.put(lambda: shape.whole(asked, message)))

    return watched


class _Stream:
    """A stream that notes its events. It behaves like the one inside of it."""

    def __init__(self, stream, ended):
        self._stream, self._ended, self._events = stream, ended, []

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def _note(self, event):
        self._events.append(event)
        return event

    def _end(self):
        ended, self._ended = self._ended, None
        if ended is not None and self._events:
            ended(self._events)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._note(next(self._stream))
        except StopIteration:
            self._end()
            raise

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return self._note(await self._stream.__anext__())
        except StopAsyncIteration:
            self._end()
            raise

    def __enter__(self):
        self._stream.__enter__()
        return self

    def __exit__(self, *error):
        self._end()
        return self._stream.__exit__(*error)

    async def __aenter__(self):
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error):
        self._end()
        return await self._stream.__aexit__(*error)


class _Manager:
    """A context manager of a stream, which tells the message when it ends."""

    def __init__(self, manager, ended):
        self._manager, self._ended, self._stream = manager, ended, None

    def _end(self):
        try:
            message = self._stream.current_message_snapshot
            if message.stop_reason is not None:
                self._ended(message)
        except Exception as error:  # nothing was streamed
            log.debug("a stream was not recorded: %r", error)

    def __enter__(self):
        self._stream = self._manager.__enter__()
        return self._stream

    def __exit__(self, *error):
        self._end()
        return self._manager.__exit__(*error)

    async def __aenter__(self):
        self._stream = await self._manager.__aenter__()
        return self._stream

    async def __aexit__(self, *error):
        self._end()
        return await self._manager.__aexit__(*error)


def _plain(value):
    """A value of the SDKs as JSON has it."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_none=True)
    return str(value)


def _snapshot(asked):
    """The request as it is now: its caller may go on writing to its lists."""
    names = ("messages", "system", "input", "instructions", "previous_response_id", "model")
    try:
        return json.dumps({name: asked[name] for name in names if name in asked}, default=_plain)
    except Exception as error:
        log.debug("a request was not recorded: %r", error)
        return None


def _object(value):
    """An answer as an object, or `None` if it is of another kind, as raw responses are."""
    if value is None or isinstance(value, dict):
        return value
    return _plain(value) if hasattr(value, "model_dump") else None


def _text(content):
    """The text of a content: a text, or parts."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in content or [] if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "".join(texts)


def _content(parts):
    """Parts as they are, or their text if they have nothing else."""
    if isinstance(parts, str):
        return parts
    parts = list(parts or [])
    if all(part.get("type") in ("text", "input_text", "output_text") for part in parts):
        return _text(parts)
    return parts


def _call(id, name, arguments):
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _usage(usage):
    """Counts of tokens under the names of the chat shape."""
    usage = usage or {}
    read = usage.get("prompt_tokens", usage.get("input_tokens"))
    made = usage.get("completion_tokens", usage.get("output_tokens"))
    counts = {"prompt_tokens": read, "completion_tokens": made}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _record(messages, answer, model, usage):
    metadata = {"model": model} if model else {}
    if _usage(usage):
        metadata["usage"] = _usage(usage)
    if model:
        answer = dict(answer, model=model)
    return messages + [answer], metadata


class _Chat:
    """`chat.completions`."""

    def whole(self, asked, answer):
        answer = _object(answer)
        if asked is None or not answer or not answer.get("choices"):
            return None
        choice = answer["choices"][0]
        said = choice.get("message") or {}
        message = {"role": "assistant", "content": said.get("content")}
        if said.get("tool_calls"):
            message["tool_calls"] = [
                _call(call.get("id"), call["function"]["name"], call["function"].get("arguments") or "")
                for call in said["tool_calls"]
                if call.get("function")
            ]
        if message["content"] is None:
            message["content"] = said.get("refusal") or ""
        logprobs = (choice.get("logprobs") or {}).get("content")
        if logprobs:
            message["logprobs"] = {"content": logprobs}
        return _record(_chat_messages(json.loads(asked)["messages"]), message, answer.get("model"), answer.get("usage"))

    def streamed(self, asked, events):
        text, calls, logprobs, model, usage, finished = [], {}, [], None, None, False
        for event in map(_object, events):
            model = model or event.get("model")
            usage = event.get("usage") or usage
            for choice in (event.get("choices") or [])[:1]:
                delta = choice.get("delta") or {}
                text.append(delta.get("content") or delta.get("refusal") or "")
                logprobs += (choice.get("logprobs") or {}).get("content") or []
                finished = finished or bool(choice.get("finish_reason"))
                for piece in delta.get("tool_calls") or []:
                    call = calls.setdefault(piece.get("index", 0), {"id": None, "name": "", "arguments": ""})
                    call["id"] = piece.get("id") or call["id"]
                    function = piece.get("function") or {}
                    call["name"] += function.get("name") or ""
                    call["arguments"] += function.get("arguments") or ""
        if not finished:
            return None
        calls = [{"id": call["id"], "function": call} for _, call in sorted(calls.items())]
        said = {"content": "".join(text), "tool_calls": calls}
        choice = {"message": said, "logprobs": {"content": logprobs}}
        return self.whole(asked, {"choices": [choice], "model": model, "usage": usage})


def _chat_messages(messages):
    """Messages with what a record keeps of them. The roles of instructions are one."""
    names = ("role", "content", "name", "tool_calls", "tool_call_id")
    kept = []
    for message in messages:
        message = {name: message[name] for name in names if message.get(name) is not None}
        message.setdefault("content", "")
        if message.get("role") == "developer":
            message["role"] = "system"
        kept.append(message)
    return kept


class _Messages:
    """`messages` of Anthropic."""

    def whole(self, asked, answer):
        answer = _object(answer)
        if asked is None or not answer or answer.get("type") != "message":
            return None
        asked = json.loads(asked)
        messages = [{"role": "system", "content": _text(asked["system"])}] if asked.get("system") else []
        for message in asked["messages"]:
            messages += _from_blocks(message["role"], message["content"])
        said = _from_blocks("assistant", answer.get("content") or [])
        said = said[-1] if said else {"role": "assistant", "content": ""}
        return _record(messages, said, answer.get("model"), answer.get("usage"))

    def streamed(self, asked, events):
        message, pieces, ended = None, {}, False
        for event in map(_object, events):
            kind = event.get("type")
            if kind == "message_start":
                message = dict(event["message"], content=[])
            elif kind == "content_block_start" and message is not None:
                message["content"].append(dict(event["content_block"]))
            elif kind == "content_block_delta" and message is not None:
                block, delta = message["content"][-1], event["delta"]
                if delta.get("type") == "text_delta":
                    block["text"] = block.get("text", "") + delta["text"]
                elif delta.get("type") == "input_json_delta":
                    at = len(message["content"]) - 1
                    pieces[at] = pieces.get(at, "") + delta["partial_json"]
            elif kind == "message_delta" and message is not None:
                message["usage"] = {**(message.get("usage") or {}), **(event.get("usage") or {})}
            elif kind == "message_stop":
                ended = True
        if message is None or not ended:
            return None
        for at, arguments in pieces.items():
            message["content"][at]["input"] = arguments
        return self.whole(asked, message)


def _from_blocks(role, content):
    """A message of blocks in the chat shape: results of tools are messages of their own, calls a field."""
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    messages, parts, calls = [], [], []
    for block in content:
        kind = block.get("type")
        if kind == "tool_result":
            result = {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": _text(block.get("content") or "")}
            messages.append(result)
        elif kind == "tool_use":
            calls.append(_call(block.get("id"), block.get("name"), block.get("input") or {}))
        elif kind not in ("thinking", "redacted_thinking"):
            parts.append(block)
    if parts or calls:
        message = {"role": role, "content": _content(parts)}
        if calls:
            message["tool_calls"] = calls
        messages.append(message)
    return messages


class _Responses:
    """`responses`. A conversation that is continued by an id is put together again."""

    def __init__(self):
        # Only the thread of the sender uses it.
        self._known = collections.OrderedDict()

    def whole(self, asked, answer):
        answer = _object(answer)
        if asked is None or not answer or answer.get("status") not in ("completed", "incomplete"):
            return None
        asked = json.loads(asked)
        history = list(self._known.get(asked.get("previous_response_id"), []))
        given = asked.get("input") or []
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        history += _from_items(given)
        said = _from_items(answer.get("output") or [])
        said = said[-1] if said else {"role": "assistant", "content": ""}
        self._known[answer.get("id")] = history + [said]
        while len(self._known) > RESPONSES:
            self._known.popitem(last=False)
        system = [{"role": "system", "content": asked["instructions"]}] if asked.get("instructions") else []
        return _record(system + history, said, answer.get("model"), answer.get("usage"))

    def streamed(self, asked, events):
        last = _object(events[-1]) or {}
        return self.whole(asked, last.get("response"))


def _from_items(items):
    """Items in the chat shape. What the model said between two other items is one message."""
    messages = []

    def said():
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": ""})
        return messages[-1]

    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "assistant":
            said()["content"] += _text(item.get("content"))
        elif kind == "message":
            role = "system" if item.get("role") in ("system", "developer") else "user"
            messages.append({"role": role, "content": _content(item.get("content"))})
        elif kind == "function_call":
            said().setdefault("tool_calls", []).append(_call(item.get("call_id"), item.get("name"), item.get("arguments") or ""))
        elif kind == "function_call_output":
            output = item.get("output") or ""
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": _text(output)})
    return messages


_SHAPES = [("chat.completions", _Chat), ("responses", _Responses), ("messages", _Messages)]


def _logger():
    """The callback for LiteLLM. Its package is imported only where it is used: that takes seconds."""
    from litellm.integrations.custom_logger import CustomLogger

    class ClawhostLogger(CustomLogger):
        """`litellm.callbacks = [ClawhostLogger()]` records every answer of LiteLLM."""

        def __init__(self, gateway=None, key=None, conversation_id=None):
            super().__init__()
            self.sender = Sender(gateway, key, conversation_id)

        def log_success_event(self, kwargs, response_obj, start_time, end_time):
            self._take(kwargs, response_obj)

        async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
            self._take(kwargs, response_obj)

        def _take(self, kwargs, answer):
            if kwargs.get("stream"):
                whole = kwargs.get("async_complete_streaming_response") or kwargs.get("complete_streaming_response")
                # It is called for pieces, too.
                if whole is None:
                    return
                answer = whole
            asked = _snapshot({"messages": kwargs.get("messages") or []})
            self.sender.put(lambda: _Chat().whole(asked, answer))

    return ClawhostLogger


def __getattr__(name):
    if name != "ClawhostLogger":
        raise AttributeError(name)
    globals()[name] = _logger()
    return globals()[name]
