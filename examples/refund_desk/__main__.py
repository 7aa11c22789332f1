"""`python -m examples.refund_desk`: run one process of the agent. Started again, it continues the session."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
from examples.refund_desk.agent import RefundDesk
from examples.refund_desk.crash import CrashOnce
from examples.refund_desk.scripted_model import ScriptedModel
from examples.refund_desk.shop import Shop
from examples.refund_desk.tools import build_refund_tool_registry


def main(arguments: Sequence[str] | None = None) -> int:
    # On SIGTERM, release the session at once instead of leaving it to be detected as lost.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    options = _parse_options(arguments)
    options.state.mkdir(parents=True, exist_ok=True)
    tools = build_refund_tool_registry(Shop(options.state), CrashOnce(options.crash_once, options.state))
    try:
        with SyncCheckpointer.open(options.database) as checkpointer:
            desk = RefundDesk(checkpointer, options.session, tools, ScriptedModel(options.pace), options.order)
            print(desk.run(options.budget), flush=True)
    except CheckpointsError as error:
        print(f"The refund desk stops: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.refund_desk", description=__doc__)
    parser.add_argument(
        "--database",
        default=os.environ.get("HARNESS_DATABASE_URL", "refund_desk.sqlite3"),
        help="path or URL (default: $HARNESS_DATABASE_URL, else refund_desk.sqlite3)",
    )
    parser.add_argument("--session", default="order-17", help="any text; the same one again goes on with that session")
    parser.add_argument("--order", type=int, default=17, help="the order the customer writes about")
    parser.add_argument("--state", type=Path, default=Path("refund_desk"), help="folder for the ledger and the outbox")
    parser.add_argument("--budget", type=_parse_money, default=Decimal("0.10"), help="US dollars the model may cost")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds the model takes to answer")
    parser.add_argument(
        "--crash-once",
        action="append",
        default=[],
        choices=["refund_card", "send_email"],
        help="die inside this tool, once: after its effect, before anybody is told",
    )
    return parser.parse_args(arguments)


def _parse_money(amount: str) -> Decimal:
    try:
        return Decimal(amount)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{amount!r} is not an amount of money") from None


if __name__ == "__main__":
    sys.exit(main())
