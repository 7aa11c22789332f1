"""When what happened: the runs of a session as lanes, its calls as stretches of time on them.

Everything with a time begins with its kind, its start and its end, as instants; for a moment both are the same. There
may be thousands, and named tuples are the quickest to make.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from checkpoints import clock
from checkpoints.enums import DECIDING, NOT_RUN_CALL, UNDECIDED_CALL, ActorKind, CallStatus, DecisionKind, Phase
from checkpoints.models import Checkpoint, Decision, Run, ToolCall
from checkpoints.queries import keyset, occasions
from checkpoints.queries.instants import Instant, instant, moment
from checkpoints.queries.keyset import stored_text
from checkpoints.queries.occasions import Occasions, Takeover
from checkpoints.queries.origins import RunFacts, facts

#: The newest so many of each are drawn.
LANES = 8
CALLS = 120
MARKS = 160
#: Decisions about a call that has not run.
_ALLOWING = frozenset({DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.RESPOND})
#: Status of a call that came back → the kind of its stretch.
_PLAIN: Final[dict[str, str]] = {
    status.value: "failed" if status == CallStatus.FAILED else "ran"
    for status in CallStatus
    if status not in NOT_RUN_CALL
}
_CALL = itemgetter(4)
#: Those that move a call; after an edit it goes on waiting.
MOVING = DECIDING - {DecisionKind.EDIT}


class Stretch(NamedTuple):
    """A call while its tool ran (`kind` is ran, failed, running or lost), or a wait for a person (`kind` is wait).

    `start` and `end` are those of the tool; a lost call ends when its loss was noticed, a wait when it was decided.
    """

    kind: str
    start: int
    end: int
    tool: str
    call_pk: int


class Mark(NamedTuple):
    """A version (so its `kind`). `length` counts its messages. One that no run wrote is told of with the run before."""

    kind: str
    start: int
    end: int
    version: int
    phase: str = Phase.TURN
    length: int = 0
    by_run: bool = True


@dataclass(slots=True)
class Lane:
    """One run from `start` up to its end or its last sign of life; `takeover` where its session was taken from it."""

    run: RunFacts
    start: int
    end: int
    takeover: Takeover | None = None
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


class Logged(NamedTuple):
    """What a timeline tells of a call. `run` is the key of its run as the database writes it: `key_of` that run."""

    pk: int
    run: str
    tool: str
    status: str
    issued: int
    interrupted: int | None
    settled: int | None


class Decided(NamedTuple):
    """A decision that moved its call."""

    call_pk: int
    call_id: str
    kind: str
    actor_kind: str
    at: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """`earlier` says that there were runs, calls or versions before the ones that are drawn."""

    lanes: tuple[Lane, ...]
    earlier: bool


def read(session_pk: int, remembered: Occasions | None = None) -> Timeline:
    """The newest runs of a session and what they did; five queries at most, one more without what is `remembered`."""
    remembered = occasions.read(session_pk) if remembered is None else remembered
    runs = list(_runs(session_pk))
    lanes = {key_of(run): lane_of(run, remembered) for run in runs[:LANES][::-1]}
    pks = [run.pk for run in runs[:LANES]]
    calls = list(_calls(session_pk, pks))
    marks = list(_saved(session_pk, pks))
    for run, version, at in reversed(marks[:MARKS]):
        lanes[run].marks.append(Mark("version", at, at, version))
    decided = by_call(Decided(*row) for row in _decided([pk for pk, *_ in calls])) if calls else {}
    place(reversed(calls[:CALLS]), decided, lanes, remembered)
    return Timeline(tuple(lanes.values()), len(runs) > LANES or len(calls) > CALLS or len(marks) > MARKS)


def _runs(session: int) -> QuerySet[Run]:
    return keyed(Run.objects.filter(session=session)).order_by("-number")[: LANES + 1]


def _calls(session: int, runs: list[UUID]) -> QuerySet[ToolCall, tuple[Any, ...]]:
    # By step first, as an index has them: by key alone, all calls of the session would be read to find the newest.
    return newest(ToolCall.objects.filter(session=session, run__in=runs)).order_by("-step", "-pk")[: CALLS + 1]


def _saved(session: int, runs: list[UUID]) -> QuerySet[Checkpoint, tuple[str, int, int]]:
    saved = Checkpoint.objects.filter(session=session, run__in=runs).order_by("-version")
    return saved.values_list(stored_text("run"), "version", Instant("created_at"))[: MARKS + 1]


def _decided(calls: list[int]) -> QuerySet[Decision, tuple[Any, ...]]:
    moved = Decision.objects.filter(tool_call__in=calls, final=True, kind__in=sorted(MOVING)).order_by("pk")
    return moved.values_list("tool_call", "tool_call__call_id", "kind", "actor_kind", Instant("created_at"))


def newest(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall, tuple[Any, ...]]:
    """What `Logged` has of these calls, the newest first."""
    times = (Instant(name) for name in ("issued_at", "interrupted_at", "settled_at"))
    return calls.order_by(keyset.newest()).values_list("pk", stored_text("run"), "tool", "status", *times)


def keyed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """With what `key_of` needs."""
    return runs.annotate(key=stored_text("pk"))


def key_of(run: Run) -> str:
    """The key of a run as text: thousands of calls name their run, which takes several times as long as UUIDs."""
    return str(run.key)  # type: ignore[attr-defined]


def place(
    calls: Iterable[tuple[Any, ...]],
    decided: Mapping[int, list[Decided]],
    lanes: Mapping[str, Lane],
    remembered: Occasions,
) -> None:
    """Put each call, as `newest` reads it, on the lanes of the runs that it concerns, by the key of the run.

    Their marks stand already.
    """
    plain: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in calls:
        pk, run, _, status, _, interrupted, settled = row
        if status in _PLAIN and interrupted is None and settled is not None and pk not in decided:
            plain[run].append(row)
        else:
            for lane, stretch in _stretches(Logged(*row), decided.get(pk, []), lanes, remembered):
                lane.stretches.append(stretch)
    for run, rows in plain.items():
        lanes[run].stretches += _ran(rows)
    for lane in lanes.values():
        lane.stretches.sort(key=_CALL)
        lane.end = max([lane.end, *(mark.end for mark in lane.marks if mark.by_run), *_ends(lane)])


def _ran(rows: Iterable[tuple[Any, ...]]) -> Iterator[Stretch]:
    """Calls that came back by themselves, as nearly all do."""
    return (Stretch(_PLAIN[status], issued, settled, tool, pk) for pk, _, tool, status, issued, _, settled in rows)


def _ends(lane: Lane) -> list[int]:
    """When tools of the run came back: signs of life that the heartbeat may not have told yet."""
    return [stretch.end for stretch in lane.stretches if stretch.kind in {"ran", "failed"}]


def lane_of(run: Run, remembered: Occasions) -> Lane:
    end = instant(run.ended_at or run.heartbeat_at)
    return Lane(facts(run), instant(run.started_at), end, remembered.takeovers.get(run.number))


def by_call(decisions: Iterable[Decided]) -> dict[int, list[Decided]]:
    found: defaultdict[int, list[Decided]] = defaultdict(list)
    for made in decisions:
        found[made.call_pk].append(made)
    return dict(found)


def _stretches(
    call: Logged, made: list[Decided], lanes: Mapping[str, Lane], remembered: Occasions
) -> Iterator[tuple[Lane, Stretch]]:
    lane = lanes[call.run]
    allowed = next((one for one in made if one.kind in _ALLOWING), None)
    if call.status in NOT_RUN_CALL or (allowed is not None and allowed.kind == DecisionKind.RESPOND):
        yield lane, _wait(call, call.issued, allowed)
        return
    asked = None if allowed is None else remembered.question(allowed.call_id, moment(allowed.at))
    asking = next((lane for lane in lanes.values() if asked is not None and lane.run.number == asked.run_number), None)
    if asked is not None and asking is not None:
        yield asking, _wait(call, instant(asked.at), allowed)
    yield lane, _tool(call, lane)
    settled = next((one for one in made if one.kind not in _ALLOWING), None)
    if call.interrupted is not None and (settled is None or settled.actor_kind != ActorKind.HOOK):
        yield _waiting(lanes.values(), lane), _wait(call, call.interrupted, settled)


def _tool(call: Logged, lane: Lane) -> Stretch:
    if call.interrupted is not None:
        return Stretch("lost", call.issued, call.interrupted, call.tool, call.pk)
    if call.settled is not None:
        return Stretch(_PLAIN.get(call.status, "ran"), call.issued, call.settled, call.tool, call.pk)
    return Stretch("running", call.issued, max(call.issued, lane.end), call.tool, call.pk)


def _waiting(lanes: Iterable[Lane], lost: Lane) -> Lane:
    """A wait is drawn on the lane of the run that came after the lost one: it is what waits."""
    return next((lane for lane in lanes if lane.run.number == lost.run.number + 1), lost)


def _wait(call: Logged, since: int, made: Decided | None) -> Stretch:
    until = call.settled if made is None else made.at
    if made is None and call.status in UNDECIDED_CALL:
        until = instant(clock.now())
    return Stretch("wait", since, max(since, until or since), call.tool, call.pk)
