"""`python -m examples.peers_over_http desk`: run one process of one agent; `… ask 17 Bergen`: ask them a question."""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections.abc import Sequence

from checkpoints import SyncCheckpointer
from examples.peers_over_http.agent import Agent
from examples.peers_over_http.http_transport import PORTS, HttpTransport, Message
from examples.peers_over_http.skills import SKILLS


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse_options(arguments)
    ports = dict(zip(PORTS, options.ports, strict=True))
    try:
        if options.who == "ask":
            wire = HttpTransport("customer", ports, options.key)
            print(ask_desk_until_answered(wire, {"deliver": options.order, "to": options.city}, uuid.uuid4().hex))
            return 0
        with SyncCheckpointer.open(options.database, migrate=True) as checkpointer:
            Agent(checkpointer, HttpTransport(options.who, ports, options.key), SKILLS[options.who]).run()
    except KeyboardInterrupt:
        pass
    return 130


def ask_desk_until_answered(wire: HttpTransport, request: Message, call_id: str) -> Message:
    """Send a request to the desk and wait for its answer, across restarts of the desk."""
    is_accepted = False
    while True:
        try:
            if not is_accepted:
                wire.send_message("desk", "/request", {"call_id": call_id, "request": request})
                is_accepted = True
            state = wire.send_message("desk", "/ask", {"call_id": call_id})
            if state["finished"]:
                result: Message = state["result"]
                return result
        except OSError:  # the desk is not running at the moment
            pass
        time.sleep(0.1)


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.peers_over_http", description=__doc__)
    parser.add_argument("who", choices=[*SKILLS, "ask"])
    parser.add_argument("order", nargs="?", type=int, default=17)
    parser.add_argument("city", nargs="?", default="Bergen")
    parser.add_argument(
        "--database",
        default=os.environ.get("HARNESS_DATABASE_URL", "peers.sqlite3"),
        help="path or URL (default: $HARNESS_DATABASE_URL, else peers.sqlite3)",
    )
    parser.add_argument("--ports", nargs=3, type=int, default=list(PORTS.values()), metavar=tuple(PORTS))
    parser.add_argument("--key", default=os.environ.get("PEERS_KEY", "only for trying it out"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
