"""World outside of the agent: a ledger and an outbox, as append-only files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

POLICY = """\
Refunds

- A damaged article is refunded in full within 30 days of delivery; the customer need not send it back.
- The money goes to the card that was charged, never to another one.
- Up to 100.00 EUR the desk decides by itself.
- Every refund, made or not, is explained to the customer by mail.
"""


@dataclass(frozen=True)
class Shop:
    """Shop with its books in `folder`: `ledger.jsonl` for money, `outbox.jsonl` for mail."""

    folder: Path

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def outbox_path(self) -> Path:
        return self.folder / "outbox.jsonl"

    def build_sample_order(self, number: int) -> dict[str, Any]:
        return {
            "order": number,
            "article": "Desk lamp, brass",
            "delivered": "5 days ago",
            "customer": f"customer-{number}@example.org",
        }

    def build_sample_payment(self, number: int) -> dict[str, Any]:
        return {"order": number, "amount": "40.00", "currency": "EUR", "card": "•••• 4242", "status": "captured"}

    def refund_payment(self, order: int, amount: Decimal, currency: str) -> str:
        """Refund the payment, and return the reference of the booking."""
        reference = f"rf-{order}-{len(read_json_lines(self.ledger_path)) + 1}"
        entry = {"refund": reference, "order": order, "amount": str(amount), "currency": currency, "card": "4242"}
        append_timestamped_json_line(self.ledger_path, entry)
        return reference

    def send_mail(self, mail: dict[str, Any]) -> None:
        append_timestamped_json_line(self.outbox_path, mail)

    def has_sent_mail(self, mail: dict[str, Any]) -> bool:
        return any(mail.items() <= sent.items() for sent in read_json_lines(self.outbox_path))


def append_timestamped_json_line(path: Path, entry: dict[str, Any]) -> None:
    """Append one JSON line; it is durable when this returns."""
    line = json.dumps({**entry, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}, ensure_ascii=False)
    _write_and_fsync(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, line.encode() + b"\n")
    # The name of a new file is durable once its folder is synced.
    _write_and_fsync(path.parent, os.O_RDONLY)


def _write_and_fsync(path: Path, flags: int, content: bytes = b"") -> None:
    descriptor = os.open(path, flags, 0o600)
    try:
        if content:
            os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
