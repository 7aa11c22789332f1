"""Long session with all kinds of content, created by a few bulk inserts.

`python -m tests.support.long_session 1200 name` creates one and prints its key.

Of every ten messages two are a call and its result; the others cover everything an agent may write.
"""

import hashlib
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import django

from tests.support import forked_site

if TYPE_CHECKING:
    from checkpoints.models import Message, Run, Session

PIXEL: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
#: Number of messages between two versions, two pictures, two failed calls.
VERSION_EVERY, PICTURE_EVERY, FAILED_EVERY = 100, 50, 500

_SAYINGS: Final[tuple[Any, ...]] = (
    "The lamp of order {n} arrived **broken**; see `order-{n}` and <https://shop.example/{n}>.",
    "| item | price |\n|---|---:|\n| lamp {n} | 40.00 |\n| shade | 12.50 |",
    "```python\ndef refund(order: int = {n}) -> str:\n    return f'{{order}} is refunded'\n```",
    "```diff\n--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n-price = 40\n+price = {n}\n unchanged\n```",
    "שלום, ההזמנה {n} הגיעה שבורה. مرحبا، وصل الطلب مكسورًا.",
    "\x1b[31mFAILED\x1b[0m tests/test_{n}.py \x1b[32m12 passed\x1b[0m\a\x08",
    "# Heading {n}\n\n1. one\n   - two\n\n**never closed `nor\n\n<script>alert({n})</script> [x](javascript:alert(1))",
    "注文 {n} のランプが壊れて届きました。返金をお願いします。",
)


def iterate_message_bodies(count: int, *, huge_at: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the messages of a session; the result of the call before position `huge_at` has five megabytes."""
    for number in range(count):
        body: dict[str, Any] = {"id": f"m{number}", "role": "assistant" if number % 2 else "user"}
        if number == huge_at:
            blocks: Any = [{"kind": "text", "text": "line of a log\n" * 360_000 + "THE VERY END"}]
        elif number % PICTURE_EVERY == 7:
            blocks = [{"kind": "image", "url": PIXEL, "alt": f"picture {number}"}]
        elif number % 10 == 8:
            args = {"order": number, "amount": "40.00"}
            blocks = [{"kind": "tool_call", "id": f"call_{number}", "name": "refund_card", "args": args}]
            body["role"] = "assistant"
        elif number % 10 == 9:
            failed = number % FAILED_EVERY == FAILED_EVERY - 1
            content = f'{{"refunded":"40.00","order":{number - 1}}}'
            blocks = [
                {"kind": "tool_result", "call_id": f"call_{number - 1}", "content": content, "is_error": failed},
            ]
            body["role"] = "tool"
        elif number % 97 == 0:
            blocks = [{"kind": "hologram", "depth": number, "layers": [{"colour": "red"}, None, 1.5]}]
        else:
            blocks = [{"kind": "text", "text": _SAYINGS[number % len(_SAYINGS)].format(n=number)}]
        yield {**body, "blocks": blocks}


def make_long_session(
    count: int = 10_000, *, session_id: str = "long", huge_at: int | None = None, logged: bool = True
) -> int:
    """Create a session with `count` messages, its versions, and its calls in the log; return its key."""
    from tests.support.factories import make_run, make_session

    session = make_session(session_id=session_id, title="Everything that may be said")
    run, message_bodies = make_run(session=session), list(iterate_message_bodies(count, huge_at=huge_at))
    messages = _create_messages(session, message_bodies)
    if logged:
        _create_logged_calls(run, message_bodies)
    _create_versions(run, messages)
    return int(session.pk)


def make_long_session_in_child(database: str, count: int, session_id: str) -> int:
    forked_site.use_database(database)
    return make_long_session(count, session_id=session_id)


def _create_messages(session: "Session", message_bodies: list[dict[str, Any]]) -> list["Message"]:
    from checkpoints.formats import to_canonical_json
    from checkpoints.models import Message

    return Message.objects.bulk_create(
        [
            Message(
                session=session,
                segment=session.head_segment,
                position=number,
                message_id=body["id"],
                role=body["role"],
                created_at=_get_moment(number),
                body=to_canonical_json(body),
                chain=hashlib.blake2b(f"{session.pk}/{number}".encode(), digest_size=32).digest(),
            )
            for number, body in enumerate(message_bodies)
        ],
        batch_size=500,
    )


def _create_logged_calls(run: "Run", message_bodies: list[dict[str, Any]]) -> None:
    """Create the calls that the messages name, with their results."""
    from checkpoints.enums import CallStatus
    from checkpoints.formats import to_canonical_json
    from checkpoints.models import ToolCall

    ToolCall.objects.bulk_create(
        [
            ToolCall(
                workspace=run.session.workspace,
                session=run.session,
                run=run,
                step=number // VERSION_EVERY,
                call_id=f"call_{number}",
                tool="refund_card",
                args=to_canonical_json(message_bodies[number]["blocks"][0]["args"]),
                args_digest="",
                idempotency_key=f"key-{number}",
                side_effects="mutate",
                status=CallStatus.FAILED if number % FAILED_EVERY == FAILED_EVERY - 2 else CallStatus.COMPLETED,
                result=to_canonical_json(f'{{"refunded":"40.00","order":{number}}}'),
                issued_at=_get_moment(number),
                settled_at=_get_moment(number + 0.4),
            )
            for number in range(8, len(message_bodies), 10)
        ],
        batch_size=500,
    )


def _create_versions(run: "Run", messages: list["Message"]) -> None:
    """Create the versions: one for every `VERSION_EVERY` messages, and the last."""
    from checkpoints.models import Checkpoint

    session, count = run.session, len(messages)
    ends = [*range(VERSION_EVERY, count, VERSION_EVERY), count]
    Checkpoint.objects.bulk_create(
        Checkpoint(
            session=session,
            version=version,
            run=run,
            segment=session.head_segment,
            length=length,
            chain=messages[length - 1].chain,
            budget_spent_usd=str(version / 1000),
            schema_version=1,
            created_at=messages[length - 1].created_at,
        )
        for version, length in enumerate(ends, 1)
    )
    session.latest_version, session.message_count, session.head_chain = len(ends), count, messages[-1].chain
    session.save(update_fields=["latest_version", "message_count", "head_chain"])


def _get_moment(second: float) -> datetime:
    from tests.support.factories import THEN

    return THEN + timedelta(seconds=second)


if __name__ == "__main__":
    django.setup()
    count, name = (int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else (10_000, "long")
    print(make_long_session(count, session_id=name, huge_at=7_500))
