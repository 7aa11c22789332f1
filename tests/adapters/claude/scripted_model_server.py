"""Model on the loopback interface: Anthropic's API of messages, with the answers of a script."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]
#: Function that gets the messages of a request and returns the blocks of the answer.
Script = Callable[[list[dict[str, Any]]], list[Block]]


@contextmanager
def serve_scripted_model(script: Script, *, first_number: int = 1) -> Iterator[str]:
    """Serve a model for a `with` block, which numbers its calls from `first_number` on. Yields its address."""
    numbers = itertools.count(first_number)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_HEAD(self) -> None:
            self._send("application/json", b"")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            blocks = [
                {**block, "id": f"toolu_{next(numbers):06}"} if block["type"] == "tool_use" else block
                for block in script(request["messages"])
            ]
            events = _iterate_events(f"msg_{next(numbers):06}", request["model"], blocks)
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send("text/event-stream", text.encode())

        def _send(self, content_type: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _iterate_events(message_id: str, model: str, blocks: list[Block]) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 100, "output_tokens": 10}
    message = {"id": message_id, "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            start: Block = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}
