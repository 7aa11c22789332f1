"""A list of sessions as CSV."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from checkpoints.queries.sessions import SessionRow
from checkpoints.queries.unreadable import UnreadableRecord
from harness_site import wording
from harness_site.accounts import call_secrets
from harness_site.rendering import csv
from harness_site.rendering.masking import hiding_values

HEAD: Final = (
    "session",
    "title",
    "agent",
    "status",
    "calls_undecided",
    "version",
    "messages",
    "cost_usd",
    "tokens",
    "started",
    "updated",
    "ended",
    "host",
)

#: Sessions whose secret values are looked for at once.
_SEVERAL: Final = 100


def lines(rows: Iterable[SessionRow | UnreadableRecord]) -> Iterator[str]:
    """One line for each session, after the head and before the line that says that these are all."""
    yield csv.line(HEAD)
    remaining = iter(rows)
    while several := list(islice(remaining, _SEVERAL)):
        secrets = call_secrets.of_sessions([row.pk for row in several])
        for row in several:
            with hiding_values(secrets.get(row.pk, ())):
                yield csv.line(csv.unreadable(row, HEAD) if isinstance(row, UnreadableRecord) else _cells(row))
    yield csv.line([csv.COMPLETE])


def _cells(row: SessionRow) -> tuple[str, ...]:
    return (
        row.session_id,
        row.title,
        row.agent,
        row.standing.value,
        str(row.undecided),
        str(row.version),
        str(row.messages),
        str(row.cost),
        str(row.tokens),
        wording.iso(row.created_at),
        wording.iso(row.updated_at),
        wording.iso(row.ended_at) if row.ended_at else "",
        row.owner.host if row.owner else "",
    )
