"""What a resume will do with the calls that were made and not yet answered: replay, run, or ask a person.

Where it is known what the model asked for, only that counts: the calls of the journaled answer, or those of the last
calling message that nothing in the transcript answers. Where it is not, because the answer was not journaled, the calls
made since the last version count. Anything else is found by its key when it is dispatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import QuerySet

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.exceptions import InvalidInput
from checkpoints.ids import is_storable
from checkpoints.models import Checkpoint, Decision, Session, ToolCall, WorkflowStep
from checkpoints.outcomes import ToolResult
from checkpoints.saving import calls
from checkpoints.saving.open_operations import Kind
from checkpoints.saving.store import OpenCall, Store
from checkpoints.serde import digests, messages
from checkpoints.serde.canonical import canonical
from checkpoints.serde.messages import Asked

#: A resume gives the result of such a call to the agent.
ANSWERED = frozenset({CallStatus.COMPLETED, CallStatus.REJECTED})
#: A resume lets the agent make such a call.
TO_RUN = frozenset({CallStatus.APPROVED, CallStatus.RERUN_APPROVED, CallStatus.FAILED})


@dataclass(frozen=True)
class Outlook:
    """Rows of the call log by what a resume does with them, and where each asked call was logged.

    `asked` are the calls, by id and kind, that the model is known to have asked for.
    """

    replay: list[ToolCall]
    run: list[ToolCall]
    open: dict[str, OpenCall]
    asked: frozenset[tuple[str, Kind]] = frozenset()


NOTHING = Outlook([], [], {})


@dataclass(frozen=True)
class Tail:
    """The end of a transcript from message `first` on, and the model's answer behind it, if one was journaled."""

    transcript: Sequence[Any]
    pending: dict[str, Any] | None = None
    first: int = 0

    @property
    def asked(self) -> list[Asked]:
        return messages.unanswered(self.transcript) if self.pending is None else messages.called(self.pending)

    def answers(self, call_id: str) -> list[int]:
        """Where in the transcript results of a call id stand."""
        return [at for at, said in enumerate(self.transcript, self.first) if call_id in messages.answered(said)]


def look(store: Store, session: Session, tail: Tail) -> Outlook:
    """What resuming `session` at `tail` does."""
    replay: list[ToolCall] = []
    run: list[ToolCall] = []
    asked_for = tail.asked
    logged = {asked.call_id: _logged(store, session, asked, tail) for asked in asked_for}
    found = {
        asked.call_id: OpenCall(call.step, call.tool, _digest(asked))
        for asked in asked_for
        if (call := logged[asked.call_id]) is not None
    }
    for call in logged.values() if asked_for else _since_the_last_version(store, session):
        if call is None:
            continue
        if call.status in ANSWERED or (call.status == CallStatus.FAILED and _told_by_a_person(store, call)):
            replay.append(call)
        elif call.status in TO_RUN:
            run.append(call)
    expected = frozenset((asked.call_id, (asked.tool, _digest(asked))) for asked in asked_for)
    return Outlook(replay, run, found, expected)


def _since_the_last_version(store: Store, session: Session) -> list[ToolCall]:
    """The newest attempt of each call made since then. Steps of workflows are not answers to a model."""
    made = _made(session.pk, session.latest_version).using(store.using)
    return list({call.call_id: call for call in made}.values())


def _made(session: int, step: int) -> QuerySet[ToolCall]:
    steps = WorkflowStep.objects.filter(session=session).values("call_id")
    made = ToolCall.objects.filter(session=session, step=step).exclude(call_id__in=steps)
    return made.select_related("run").order_by("attempt")


def _logged(store: Store, session: Session, asked: Asked, tail: Tail) -> ToolCall | None:
    """The newest logged attempt at exactly this call that nothing in the transcript answers."""
    if not (is_storable(asked.call_id) and is_storable(asked.tool)):
        return None
    digest = _digest(asked)
    same = [
        call
        for call in _attempts(session.pk, asked.call_id, asked.tool).using(store.using)
        if call.args_digest == digest or digest in calls.digests_of(store, call)
    ]
    return next((call for call in reversed(same) if not _answered(store, session, call, same, tail)), None)


def _attempts(session: int, call_id: str, tool: str) -> QuerySet[ToolCall]:
    logged = ToolCall.objects.filter(session=session, call_id=call_id, tool=tool)
    return logged.select_related("run").order_by("step", "attempt")


def _answered(store: Store, session: Session, call: ToolCall, same: Sequence[ToolCall], tail: Tail) -> bool:
    """Whether the transcript holds the result of this call: one that stands behind what was saved before the call.

    Calls that a fork inherited have no place in its versions; the first results answer the first of them.
    """
    results = tail.answers(call.call_id)
    if call.step < 0:
        steps = sorted({each.step for each in same})
        return steps.index(call.step) < len(results)
    versions = Checkpoint.objects.using(store.using).filter(session=session, version__gte=call.step)
    lengths = list(versions.order_by("version").values_list("length", flat=True)[:_VERSIONS])
    if any(later < earlier for earlier, later in pairwise(lengths)):
        return True  # compacted or edited since: it belongs to what was said before
    before = lengths[0] if lengths and call.step > 0 else 0
    return any(at >= before for at in results)


#: Versions since a call that are looked at; an unanswered call has few behind it.
_VERSIONS = 1000


def _digest(asked: Asked) -> str:
    try:
        return "" if asked.args is None else digests.text_digest(canonical(asked.args, "args"))
    except InvalidInput:
        return ""


def _told_by_a_person(store: Store, call: ToolCall) -> bool:
    """A failure that a person stated: the agent is told so, instead of the call being made again."""
    made = Decision.objects.using(store.using).filter(tool_call=call, kind=DecisionKind.MARK_FAILED, final=True)
    return made.exists()


def replayed(call: ToolCall) -> ToolResult:
    """The stored answer of a settled call."""
    calls.require_intact(call)
    failed = call.status != CallStatus.COMPLETED
    content = call.result_text
    if content is None:
        content = f"{call.tool} did not happen." if failed else ""
    return ToolResult(call.call_id, content, is_error=failed, replayed=True, attempt=call.attempt)
