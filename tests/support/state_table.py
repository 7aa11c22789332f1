"""docs/state-machine.md, made from the code: `python -m tests.support.state_table` writes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "state-machine.md"

INTRODUCTION = """\
# The life of a tool call

This page is made from the code: `python -m tests.support.state_table` writes it, and a test fails where it is out of
date. Nothing else moves a call: each line of the table below is one conditional `UPDATE` or `INSERT`, which names the
status it starts from. What its agent and the machine do is also bound to the fence of the owning run; what people
decide, to the revision and the arguments they have seen. Whatever comes too late for that changes nothing and is
refused with an error that says who was first; a late result is kept beside the call as evidence.
"""

STATUSES = """\
## Statuses

`key` says whether a call in this status holds its idempotency key: the database lets one call of a key do so. `person`
says whether it holds the session until somebody has decided. The last column is what a resume does with a call that
the transcript does not answer yet; where a person has said that it did not happen, the agent is told so instead of
making it again.
"""

TRANSITIONS = """\
## Transitions

A decision that several people have to make moves the call with the voice of the last of them.
"""

FORKS = """\
## Forks

A fork gets copies of the calls of its origin, so that it repeats no effect. Whatever is not named here stays behind.
"""


def page() -> str:
    """The whole page as it has to be."""
    return "\n".join([INTRODUCTION, diagram(), STATUSES, statuses(), TRANSITIONS, transitions(), FORKS, forks()])


def moves() -> list[tuple[str, str, str, str]]:
    """Every transition: from (empty where there was no call), to, who moves it, and how."""
    from checkpoints.resuming.decisions import RULES
    from checkpoints.saving.transitions import TRANSITIONS

    machine = [(each.before or "", each.after, each.actor, each.cause) for each in TRANSITIONS]
    decided = [(rule.before, rule.after, _who(kind, rule.by_one), kind.label) for kind, rule in RULES.items()]
    return [*machine, *decided]


def _who(kind: str, by_one: bool) -> str:
    if kind.startswith("probe"):
        return "a verify hook"
    return "one person" if by_one else "the people the tool asks for"


def diagram() -> str:
    edges = dict.fromkeys((before, after) for before, after, _, _ in moves() if before != after)
    ends = {after for _, after in edges} - {before for before, _ in edges}
    lines = [f"    {before or '[*]'} --> {after}" for before, after in edges]
    lines += [f"    {status} --> [*]" for status in sorted(ends)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```\n"])


def statuses() -> str:
    from checkpoints.enums import LIVE_CALL, UNDECIDED_CALL, CallStatus

    rows = [
        (f"`{status}`", status.label, _yes(status in LIVE_CALL), _yes(status in UNDECIDED_CALL), _resumed(status))
        for status in CallStatus
    ]
    return _table(("status", "in words", "key", "person", "a resume"), rows)


def _resumed(status: str) -> str:
    from checkpoints.enums import UNDECIDED_CALL
    from checkpoints.resuming.outlook import ANSWERED, TO_RUN
    from checkpoints.saving.transitions import DISCARD, LOSE

    if status in ANSWERED:
        return "gives its result to the agent"
    if status in TO_RUN:
        return "lets the agent make it"
    if status in UNDECIDED_CALL:
        return "asks"
    if status == LOSE.before:
        return f"makes it {LOSE.after} and asks, or {DISCARD.after} if it only reads"
    return "passes over it"


def transitions() -> str:
    rows = [(f"`{before}`" if before else "—", f"`{after}`", who, how) for before, after, who, how in moves()]
    return _table(("from", "to", "by", "how"), rows)


def forks() -> str:
    from checkpoints.saving.forking import CARRIED

    return _table(("in the origin", "in the fork"), [(f"`{origin}`", f"`{fork}`") for origin, fork in CARRIED.items()])


def _yes(true: bool) -> str:
    return "yes" if true else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")

    import django

    django.setup()
    PAGE.write_text(page())
