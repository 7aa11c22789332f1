"""Agent that pays an invoice after an approval by people.

It knows its database and nothing of the site, as the scripts that users write. It waits for the decision, and continues
after a restart. With `--die` it is killed in the middle of the payment, once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import SessionNotFound
from tests.support.processes import append_line

CALL = "call_1"


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    options = _parse_options(arguments)
    with SyncCheckpointer.open(options.database) as checkpointer:
        print(pay(checkpointer, options), flush=True)
    return 0


def pay(checkpointer: SyncCheckpointer, options: argparse.Namespace) -> Any:
    """Pay the invoice and finish the session; return its result."""
    session, tools = options.session, _build_tools(options)
    args: dict[str, Any] = {
        "invoice": options.invoice,
        "amount": "12300.00",
        "currency": "EUR",
        "payee": "Northwind GmbH",
    }
    if options.with_memo:
        args |= {"due": "2026-12-01", "remind_at": "2026-11-30T08:00"}
        args |= {"memo": "\n".join(f"Line {number} of the memo." for number in range(60)), "copies": ["ana", "ben"]}
    if options.with_lines:
        lines = [("LMP-40", "Desk lamp", 12), ("CHR-09", "Office chair", 4), ("CBL-2M", "Network cable", 30)]
        args["lines"] = [{"sku": sku, "description": text, "quantity": count} for sku, text, count in lines]
        args["address"] = {"street": "Hafenstraße 12", "city": "Hamburg"}
    if options.with_order:
        prices = [("LED-E14-4W", 300, "4.50"), ("BOX-40", 20, "23.95")]
        items = [{"sku": sku, "quantity": count, "unit_price": price} for sku, count, price in prices]
        args["order"] = {"items": items, "total_amount": "1829.00"}
    transcript = _build_transcript(options.invoice, args)
    try:
        point = checkpointer.resume(session, tools, wait=True)
    except SessionNotFound:
        checkpointer.start_session(session, transcript[0]["blocks"][0]["text"], agent="accounts")
        tools.bind(checkpointer, session)
        checkpointer.save_checkpoint(session, transcript, None, 0.012)
        answer = tools.dispatch("pay_invoice", args, CALL, approval="wait")
    else:
        if point.finished:
            return point.result
        answer = point.replayable.get(CALL) or tools.dispatch("pay_invoice", args, CALL, approval="wait")
    result_block = {"kind": "tool_result", "call_id": CALL, "content": answer.content, "is_error": answer.is_error}
    end = "I could not pay it." if answer.is_error else "The invoice is dealt with."
    transcript += [_build_message("tool", result_block), _build_message("assistant", _build_text_block(end))]
    checkpointer.save_checkpoint(session, transcript, None, 0.021)
    checkpointer.finish_session(session, "completed", {"told": answer.content})
    return answer.content


def _build_tools(options: argparse.Namespace) -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool(
        requires_approval=True,
        approvals=options.approvals,
        decide_within=options.decide_within,
        sentence="Pay invoice {invoice}: {amount} {currency} to {payee}",
    )
    def pay_invoice(invoice: int, amount: str, currency: str, payee: str, **_others: Any) -> str:
        append_line(str(options.ledger), f"{invoice} {amount} {payee}")
        crash_marker = options.ledger.with_suffix(".crashed")
        if options.die and not crash_marker.exists():
            crash_marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"Paid {amount} {currency} to {payee}."

    return registry


def _build_transcript(invoice: int, args: dict[str, Any]) -> list[dict[str, Any]]:
    call = {"kind": "tool_call", "id": CALL, "name": "pay_invoice", "args": args}
    return [
        _build_message("user", _build_text_block(f"Please pay invoice {invoice} of Northwind GmbH, it is due today.")),
        _build_message("assistant", _build_text_block("I will pay it; that takes an approval."), call),
    ]


def _build_message(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "blocks": [*blocks]}


def _build_text_block(text: str) -> dict[str, Any]:
    return {"kind": "text", "text": text}


def _parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True, help="path or URL")
    parser.add_argument("--session", required=True)
    parser.add_argument("--invoice", type=int, default=8841)
    parser.add_argument("--ledger", type=Path, required=True, help="gets a line for each payment")
    parser.add_argument("--approvals", type=int, default=1, help="how many people have to agree")
    parser.add_argument("--decide-within", type=float, help="seconds; afterwards an admin has to decide")
    parser.add_argument(
        "--with-memo", action="store_true", help="pay with a long memo, a list of people who get it, and dates"
    )
    parser.add_argument("--with-lines", action="store_true", help="pay for a list of objects, to an address")
    parser.add_argument("--with-order", action="store_true", help="pay for an order whose lines add up to its total")
    parser.add_argument("--die", action="store_true", help="be killed in the middle of the payment, once")
    return parser.parse_args(arguments)
