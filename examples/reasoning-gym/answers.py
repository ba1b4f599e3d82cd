"""The answers with which compare.py tries a scorer, and a server that gives them."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# From the right answer to the answer that is given.
Kind = Callable[[str], str]


def changed(answer: str) -> str:
    """Nearly right: the last letter or digit is another one."""
    for place in range(len(answer) - 1, -1, -1):
        if answer[place].isdigit():
            return f"{answer[:place]}{(int(answer[place]) + 1) % 10}{answer[place + 1:]}"
        if answer[place].isalpha():
            return f"{answer[:place]}{'b' if answer[place] in 'aA' else 'a'}{answer[place + 1:]}"
    return answer + "1"


KINDS: dict[str, Kind] = {
    "right": lambda answer: answer,
    "changed": changed,
    "wrong": lambda answer: "no idea",
    "empty": lambda answer: "",
    "spaces": lambda answer: f"  {answer} \n",
    "case": lambda answer: answer.swapcase(),
    "text": lambda answer: f"The answer is {answer}.",
    "half": lambda answer: answer[: len(answer) // 2],
    "list": lambda answer: "[1, 2]",
    "number": lambda answer: "-7.50",
}


class Server:
    """Speaks the protocol of OpenAI's chat completions, as far as clawhost needs it. It answers a question once with each kind."""

    def __init__(self) -> None:
        self.right: dict[str, str] = {}
        self.asked: dict[str, int] = defaultdict(int)
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(server.completion(request)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def expect(self, right: dict[str, str]) -> None:
        """Sets the right answers, by question."""
        self.right = right
        self.asked.clear()

    def completion(self, request: dict) -> dict:
        question = text_of(request["messages"][-1]["content"])
        with self.lock:
            turn = self.asked[question]
            self.asked[question] += 1
        kind = list(KINDS.values())[turn % len(KINDS)]
        # An unknown question is found later, where the tasks are compared.
        answer = kind(self.right.get(question, ""))
        return {
            "id": "answer",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def text_of(content: str | list[dict]) -> str:
    """A message's content: a text, or parts."""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)
