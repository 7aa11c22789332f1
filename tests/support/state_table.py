"""Generator of docs/state-machine.md from the code: `python -m tests.support.state_table` writes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "state-machine.md"

INTRODUCTION = """\
# The life of a tool call

This page lists every status of a tool call and every transition between them. It is generated from the code:
`python -m tests.support.state_table` writes it, and a test fails if it is out of date.

Each transition in the table below is one conditional `UPDATE` or `INSERT`, which names the status that it starts
from; nothing else changes the status of a call. Transitions by agents and by the library itself also require the
fence of the owning run. Decisions also require the revision and the arguments that the person has seen. A transition
that comes too late changes nothing, and its caller gets an error that says who was first. A late result is stored
beside the call as evidence.
"""

STATUSES = """\
## Statuses

- *holds key*: a call in this status holds its idempotency key. The database allows one such call for each key.
- *undecided*: a call in this status holds the session until somebody has decided.
- *on resume*: what a resume does with a call that the transcript does not answer yet. If a person has
  decided that a call did not happen, the agent gets that as an error and the call is not repeated by itself.
"""

TRANSITIONS = """\
## Transitions

If several people have to decide, the call changes its status with the last vote.
"""

FORKS = """\
## Forks

A fork gets copies of its origin's calls, so that it repeats no effect. Calls in other statuses are not copied.
"""


def build_page() -> str:
    """Return the whole page."""
    return "\n".join(
        [
            INTRODUCTION,
            build_diagram(),
            STATUSES,
            build_status_table(),
            TRANSITIONS,
            build_transition_table(),
            FORKS,
            build_fork_table(),
        ]
    )


def list_transitions() -> list[tuple[str, str, str, str]]:
    """List every transition: from (empty for a new call), to, actor, and cause."""
    from checkpoints.call_transitions_by_agent_or_system import TRANSITIONS
    from checkpoints.decisions.decide import RULES
    from checkpoints.enums import WITHDRAWABLE_KINDS

    automatic = [
        (transition.before or "", transition.after, transition.actor, transition.cause) for transition in TRANSITIONS
    ]
    decisions = [
        (rule.before, rule.after, _describe_actor(kind, rule.by_one), str(kind.label)) for kind, rule in RULES.items()
    ]
    withdrawals = [
        (RULES[kind].after, RULES[kind].before, "one person", f"Decision withdrawn, until a run has used it ({kind})")
        for kind in RULES
        if kind in WITHDRAWABLE_KINDS
    ]
    return [*automatic, *decisions, *withdrawals]


def _describe_actor(kind: str, by_one: bool) -> str:
    if kind.startswith("probe"):
        return "a verify hook"
    return "one person" if by_one else "the people the tool asks for"


def build_diagram() -> str:
    edges = dict.fromkeys((before, after) for before, after, _, _ in list_transitions() if before != after)
    ends = {after for _, after in edges} - {before for before, _ in edges}
    lines = [f"    {before or '[*]'} --> {after}" for before, after in edges]
    lines += [f"    {status} --> [*]" for status in sorted(ends)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```\n"])


def build_status_table() -> str:
    from checkpoints.enums import LIVE_CALL_STATUSES, UNDECIDED_CALL_STATUSES, CallStatus

    rows = [
        (
            f"`{status}`",
            str(status.label),
            _format_yes_or_empty(status in LIVE_CALL_STATUSES),
            _format_yes_or_empty(status in UNDECIDED_CALL_STATUSES),
            _describe_effect_of_resume(status),
        )
        for status in CallStatus
    ]
    return _format_table(("status", "label", "holds key", "undecided", "on resume"), rows)


def _describe_effect_of_resume(status: str) -> str:
    from checkpoints.call_transitions_by_agent_or_system import DISCARD, LOSE
    from checkpoints.enums import UNDECIDED_CALL_STATUSES
    from checkpoints.resume.resume_plan import ANSWERED_STATUSES, TO_RUN_STATUSES

    if status in ANSWERED_STATUSES:
        return "its result goes to the agent"
    if status in TO_RUN_STATUSES:
        return "the agent may make it"
    if status in UNDECIDED_CALL_STATUSES:
        return "asks for a decision"
    if status == LOSE.before:
        return f"becomes {LOSE.after} and asks for a decision, or {DISCARD.after} if it only reads"
    return "ignored"


def build_transition_table() -> str:
    rows = [
        (f"`{before}`" if before else "—", f"`{after}`", actor, cause)
        for before, after, actor, cause in list_transitions()
    ]
    return _format_table(("from", "to", "by", "how"), rows)


def build_fork_table() -> str:
    from checkpoints.sessions.fork import CARRIED_STATUSES

    return _format_table(
        ("in the origin", "in the fork"), [(f"`{origin}`", f"`{fork}`") for origin, fork in CARRIED_STATUSES.items()]
    )


def _format_yes_or_empty(condition: bool) -> str:
    return "yes" if condition else ""


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")

    import django

    django.setup()
    PAGE.write_text(build_page())
