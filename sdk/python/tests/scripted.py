"""A model that is a script: a server that answers as those of models do, by the task and by how often it has answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def code(text: str) -> str:
    return f"```python\n{text}\n```"


SALES = [
    code(
        "total = sum(int(line) for line in open('sales.csv'))\nopen('total.txt', 'w').write(str(total))\nprint(total)"
    ),
    "FINAL: The sales are 4217 in all.",
]

# What a task has in it, and the replies to it.
SCRIPT = {
    "And half of it": [code("print(total / 2)"), "FINAL: Half of it is 2108.5."],
    "sales in all": SALES,
    "six times seven": [code("print(6 * 7)"), "FINAL: It is 42."],
    "Wait": [code("import time\nprint('waits', flush=True)\ntime.sleep(60)"), "FINAL: It was interrupted."],
}


def reply_to(messages: list[dict[str, object]]) -> str:
    for task, replies in SCRIPT.items():
        asked = next((at for at, message in enumerate(messages) if task in str(message["content"])), None)
        if asked is not None:
            # Those before it are of the examples that a model is shown.
            said = sum(message["role"] == "assistant" for message in messages[asked:])
            return replies[min(said, len(replies) - 1)]
    return "FINAL: It is not known."


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = reply_to(asked["messages"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta, finish in (({"role": "assistant", "content": reply}, None), ({}, "stop")):
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
            chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def model() -> Iterator[str]:
    """The address of one that answers until the end of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
