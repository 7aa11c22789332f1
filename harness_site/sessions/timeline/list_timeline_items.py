"""Items of a timeline with their descriptions, for both the drawing and the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext, ngettext
from django.utils.translation import gettext_lazy as _

from checkpoints.models.tool_calls_and_results import INTERRUPT_TOOL
from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.call_sentences import mask_and_format_tool_name
from harness_site.core.epoch_microseconds import convert_to_datetime
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.sessions.timeline.selectors.lane_turns import Turn
from harness_site.sessions.timeline.selectors.run_lanes import Lane, Stretch, VersionMark
from harness_site.sessions.timeline.selectors.timeframe_contents import (
    Event,
    Occurrence,
    PeerWait,
    RunCourse,
    StoredResult,
    Timeframe,
)
from harness_site.sessions.timeline.selectors.turn_contents import TurnContents

#: Kind → label, most severe first.
_KINDS: Final[dict[str, str | Promise]] = {
    "lost": _("Outcome unknown"),
    "failed": _("Failed"),
    "wait": _("Waits for a person"),
    "running": _("Running"),
    "peer": _("Waits for another agent"),
    "unanswered": _("No result"),
    "ran": _("Tool call"),
    "replay": _("Stored result"),
    "model": _("Model answer"),
    "tools": _("Tool results"),
    "agents": _("Subagent results"),
    "turn": _("Turn"),
    "crash": _("Run lost"),
    "takeover": _("Taken over"),
    "pause": _("Paused"),
    "taken": _("Continued"),
    "decision": _("Decision"),
    "vote": _("Vote"),
    "verified": _("Tool’s own check"),
    "version": _("Version"),
}
#: Kinds that are outcomes of a call.
CALL_OUTCOMES: Final = frozenset({"lost", "failed", "running", "unanswered", "ran"})
#: Kinds that lead to a logged call, about which its row says what it does.
CALL_KINDS: Final = CALL_OUTCOMES | {"replay"}
#: Kind of turn → name of one with the version that was saved at its end.
_TURNS: Final[dict[str, str | Promise]] = {
    "model": _("Model answer of version %(version)s"),
    "tools": _("Tool results of version %(version)s"),
    "agents": _("Subagent results of version %(version)s"),
    "turn": _("Turn of version %(version)s"),
}
_MOMENTS: Final[dict[str, str | Promise]] = {
    "crash": _("the run was lost"),
    "takeover": _("the session was taken over"),
    "pause": _("paused for other agents"),
    "taken": _("the task was continued"),
}
_ANSWERS: Final[dict[str, str | Promise]] = {
    "waiting": _("not answered yet"),
    "answered": _("answered"),
    "expired": _("no answer in time"),
    "cancelled": _("cancelled"),
}
_OUTCOMES: Final[dict[str, str | Promise]] = {
    "ran": _("completed"),
    "failed": _("failed"),
    "running": _("running"),
    "lost": _("outcome unknown"),
    "unanswered": _("no result"),
    "wait": _("waited for a person"),
    "waits": _("waiting for a person"),
}
_SENTENCES: Final[dict[str, str | Promise]] = {
    "saved": _("saved %(time)s"),
    "version": _("Version %(version)s"),
    "appended": _("saved outside of a run"),
    "asked": _("Asked %(agent)s"),
    "waited": _("Wait for a decision about %(tool)s"),
    "verified": "%(tool)s",
    "decision": _("%(person)s decided about %(tool)s"),
    "vote": _("%(person)s decided about %(tool)s"),
    "run": _("Run %(number)s"),
    "exit": _("exit %(code)d"),
    "unknown_after": _("outcome unknown after %(duration)s"),
    "calls": _("%(number)s calls"),
    "group": _("%(count)s entries (%(counts)s)"),
    "prompted": _("message of a person"),
    "forked": _("beginning of the fork"),
    "answer": _("Model answer"),
    "answer_of": _("Model answer (%(models)s)"),
    "answers": _("%(number)s model answers"),
    "answers_of": _("%(number)s model answers (%(models)s)"),
    "unnamed": _("a tool"),
    "given_again": _("stored result given again"),
    "failed_tools": _("%(tools)s failed"),
    "version_saved": _("version %(version)s saved %(time)s"),
    "in_version": _("%(outcome)s, version %(version)s saved %(time)s"),
}
#: Largest number of tools or models that the name of a turn has.
_MAX_NAMES: Final = 4
#: Largest number of characters of one of these names.
_MAX_NAME_LENGTH: Final = 60
#: Common leading fields of all occurrences.
START, END = itemgetter(1), itemgetter(2)


@dataclass(frozen=True, slots=True)
class TimelineItem:
    """An occurrence with its description: `what` names it, `told` describes the outcome.

    At most one of the link targets below is set; a group of calls has none. `position` is that of the last message of
    `version`. `run` is None if no run caused it. `seconds` is its duration, without the time in which a turn waited.
    """

    kind: str
    start: datetime
    seconds: float
    run: int | None
    what: str
    told: str
    call_pk: int | None = None
    version: int | None = None
    position: int | None = None
    peers: bool = False
    is_group: bool = False
    #: Shape of the chip, where it depends on more than the kind.
    shape: str = ""
    #: Whether a transcript gives one time for its start and its end.
    has_one_time: bool = False
    #: Shorter names for a bar without room for `what`, the longest first.
    short_names: tuple[str, ...] = ()

    @property
    def end(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    @property
    def is_moment(self) -> bool:
        return not self.seconds and self.kind in {*_MOMENTS, "decision", "vote", "verified", "version"}

    @property
    def has_known_duration(self) -> bool:
        """Return whether it is known how long it took: not for a moment, for a stored result that was given, nor for a
        call without a result or with an unknown outcome, which may have ended before its run.

        A running call has taken the time until the last sign of its process; that of a transcript has none after it.
        """
        if self.is_moment or self.has_one_time or self.kind in {"unanswered", "replay", "lost"}:
            return False
        return self.seconds > 0 or self.kind in {"ran", "failed"} or self.kind not in CALL_OUTCOMES

    @property
    def title(self) -> str:
        if self.is_moment or not self.has_known_duration:
            return f"{self.what}: {self.told}" if self.told else self.what
        return f"{self.what}: {self.told}, {formatting.format_duration(self.seconds)}"


@dataclass(frozen=True, slots=True)
class RunItems:
    """Occurrences of one run by row of its lane, each in order of time.

    There may be thousands; only displayed ones are converted to a `TimelineItem`. `listed_versions` are those that end
    no turn: in the table, a turn or a stored result that was given represents its version. Turns in which only tools
    ran whose calls are not logged are among the calls.
    """

    run: int
    turns: Sequence[Turn]
    calls: Sequence[Stretch | PeerWait | StoredResult | Turn]
    signs: Sequence[Event]
    versions: Sequence[VersionMark]
    listed_versions: Sequence[VersionMark]

    @property
    def rows(self) -> tuple[Sequence[Occurrence], ...]:
        return self.turns, self.calls, self.signs, self.versions

    @property
    def listed_rows(self) -> tuple[Sequence[Occurrence], ...]:
        return self.turns, self.calls, self.signs, self.listed_versions


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """Labels and sentences about items in one language. `kinds` has the most severe kind first."""

    kinds: Mapping[str, str]
    turns: Mapping[str, str]
    moments: Mapping[str, str]
    answers: Mapping[str, str]
    outcomes: Mapping[str, str]
    sentences: Mapping[str, str]


def get_item_texts_in_current_language() -> ItemTexts:
    """Return the texts in the current language. Each is translated once, as a page has hundreds of items."""
    return _translate_item_texts(get_language())


@cache
def _translate_item_texts(_language: str | None) -> ItemTexts:
    """Translate the texts into the current language, which is the key of the cache."""
    tables = (_KINDS, _TURNS, _MOMENTS, _ANSWERS, _OUTCOMES, _SENTENCES)
    return ItemTexts(*({key: str(text) for key, text in table.items()} for table in tables))


def list_items_by_run(frame: Timeframe) -> tuple[RunItems, ...]:
    """List the occurrences of each run, in the order of the runs.

    Where a lane has what happened outside of runs, it also has the turns that happened before the run that saved them
    started.
    """
    items = [_build_run_items(run_course) for run_course in frame.courses]
    lanes = [run_course.lane for run_course in frame.courses]
    outside = next((index for index, lane in enumerate(lanes) if lane.run.is_outside_of_runs), None)
    if outside is None:
        return tuple(items)
    for index, lane in enumerate(lanes):
        if index != outside and not lane.run.stands_for_fork:
            items[index], items[outside] = _move_what_ended_before(lane.start, items[index], items[outside])
    return tuple(items)


def _move_what_ended_before(start: int, of_run: RunItems, outside: RunItems) -> tuple[RunItems, RunItems]:
    """Move the turns and versions that ended before `start` from the items of a run to those outside of runs."""
    turns = [turn for turn in of_run.turns if turn.end < start]
    versions = [mark for mark in of_run.versions if mark.end < start]
    if not turns and not versions:
        return of_run, outside
    listed_versions = [mark for mark in of_run.listed_versions if mark.end < start]
    return (
        replace(
            of_run,
            turns=[turn for turn in of_run.turns if turn.end >= start],
            versions=[mark for mark in of_run.versions if mark.end >= start],
            listed_versions=[mark for mark in of_run.listed_versions if mark.end >= start],
        ),
        replace(
            outside,
            turns=sorted([*outside.turns, *turns], key=START),
            versions=sorted([*outside.versions, *versions], key=START),
            listed_versions=sorted([*outside.listed_versions, *listed_versions], key=START),
        ),
    )


def _build_run_items(run_course: RunCourse) -> RunItems:
    lane = run_course.lane
    turn_versions = {turn.version for turn in run_course.turns}
    turn_versions.update(stored_result.version for stored_result in run_course.stored_results)
    marks = sorted(lane.marks, key=START)
    return RunItems(
        run=lane.run.number,
        turns=sorted((turn for turn in run_course.turns if turn.kind not in CALL_OUTCOMES), key=START),
        calls=sorted(
            [
                *lane.stretches,
                *run_course.asked,
                *run_course.stored_results,
                *(turn for turn in run_course.turns if turn.kind in CALL_OUTCOMES),
            ],
            key=START,
        ),
        signs=sorted(run_course.events, key=START),
        versions=marks,
        listed_versions=[mark for mark in marks if mark.version not in turn_versions or not mark.by_run],
    )


def count_occurrences_by_kind(entries: Iterable[Occurrence]) -> Counter[str]:
    """Count occurrences by kind; a group of calls counts as its calls."""
    counts: Counter[str] = Counter()
    for entry in entries:
        counts[entry.kind] += entry.number if isinstance(entry, Stretch) else 1
    return counts


def count_listed_items(runs: Iterable[RunItems]) -> int:
    return sum(len(row) for run_items in runs for row in run_items.listed_rows)


def list_first_items_in_time_order(runs: Iterable[RunItems], number: int) -> list[tuple[int, Occurrence]]:
    """List the first `number` occurrences in order of time, each with the number of its run."""
    items = [(run_items.run, entry) for run_items in runs for row in run_items.listed_rows for entry in row]
    return sorted(items, key=lambda item: (item[1].start, item[1].end))[:number]


def build_timeline_item(entry: Occurrence, run: int, texts: ItemTexts) -> TimelineItem:
    """Convert an occurrence to an item."""
    start = convert_to_datetime(entry.start)
    seconds = max(0, entry.end - entry.start) / 1_000_000
    match entry:
        case Stretch(number=number) if number > 1:
            name = texts.sentences["calls"] % {"number": formatting.format_number(number)}
            outcome, has_one_time = texts.outcomes[entry.kind], entry.has_one_time
            return TimelineItem(
                entry.kind, start, seconds, run, name, outcome, is_group=True, has_one_time=has_one_time
            )
        case Stretch():
            is_wait, sentence = entry.kind == "wait", texts.sentences["waited"]
            name = (
                _put_masked_tool_in_sentence(sentence, entry.tool) if is_wait else mask_and_format_tool_name(entry.tool)
            )
            return TimelineItem(
                entry.kind,
                start,
                seconds,
                run,
                name,
                _format_outcome_of_call(entry, seconds, texts),
                call_pk=entry.call_pk,
                has_one_time=entry.has_one_time,
            )
        case Turn():
            if entry.contents is not None and any(
                (entry.contents.answers, entry.contents.tools, entry.contents.given_again)
            ):
                return _build_item_of_turn_with_contents(entry, entry.contents, start, run, texts)
            name = texts.turns[entry.kind] % {"version": entry.version}
            last = _get_last_message_position_or_none(entry.length)
            worked = entry.worked_microseconds / 1_000_000
            saved = texts.sentences["saved"] % {"time": _format_save_time(entry.saved_at, start)}
            return TimelineItem(entry.kind, start, worked, run, name, saved, version=entry.version, position=last)
        case VersionMark():
            name = texts.sentences["version"] % {"version": entry.version}
            last = _get_last_message_position_or_none(entry.length)
            phase = (
                status_and_decision_labels.format_phase(entry.phase) if entry.by_run else texts.sentences["appended"]
            )
            phase = texts.sentences["prompted"] if entry.by_run and entry.is_prompt else phase
            phase = texts.sentences["forked"] if entry.is_fork else phase
            by = run if entry.by_run else None
            return TimelineItem("version", start, seconds, by, name, phase, version=entry.version, position=last)
        case StoredResult():
            outcome = texts.sentences["in_version"] % {
                "outcome": texts.sentences["given_again"],
                "version": entry.version,
                "time": _format_save_time(entry.end, start),
            }
            name = mask_and_format_tool_name(entry.tool)
            return TimelineItem("replay", start, seconds, run, name, outcome, call_pk=entry.call_pk)
        case PeerWait():
            outcome = texts.answers.get(entry.status, entry.status)
            name = texts.sentences["asked"] % {"agent": mask_and_reveal_hidden(entry.peer)}
            return TimelineItem("peer", start, seconds, run, name, outcome, peers=True)
        case Event():
            return _build_event_item(entry, start, run, texts)


def _format_outcome_of_call(stretch: Stretch, seconds: float, texts: ItemTexts) -> str:
    if stretch.exit_code is not None:
        return texts.sentences["exit"] % {"code": stretch.exit_code}
    if stretch.kind == "lost":
        return texts.sentences["unknown_after"] % {"duration": formatting.format_duration(seconds)}
    return texts.outcomes["waits" if stretch.goes_on else stretch.kind]


def _build_item_of_turn_with_contents(
    turn: Turn, contents: TurnContents, start: datetime, run: int, texts: ItemTexts
) -> TimelineItem:
    """Convert a turn to an item that is named by the models that answered in it and the tools that ran."""
    answers, models = _format_answers_of_models(contents, texts)
    names = [logged.tool for logged in contents.given_again] if contents.has_only_stored_results else contents.tools
    tools = format_names_with_counts(names, texts)
    failed = format_names_with_counts(contents.failed, texts)
    # The outcomes of logged calls are at the calls themselves.
    outcome = texts.outcomes[turn.kind] if turn.kind in CALL_OUTCOMES else ""
    if contents.has_only_stored_results:
        outcome = texts.sentences["given_again"]
    if failed and (turn.kind not in CALL_OUTCOMES or len(set(contents.tools)) > 1):
        outcome = texts.sentences["failed_tools"] % {"tools": failed}
    return TimelineItem(
        turn.kind,
        start,
        turn.worked_microseconds / 1_000_000,
        run,
        ", ".join(filter(None, (answers, tools))),
        texts.sentences["in_version" if outcome else "version_saved"]
        % {"outcome": outcome, "version": turn.version, "time": _format_save_time(turn.saved_at, start)},
        version=turn.version,
        position=_get_last_message_position_or_none(turn.length),
        short_names=tuple(filter(None, (", ".join(filter(None, (models, tools))), tools or models))),
    )


def _format_save_time(saved_at: int, start: datetime) -> str:
    """Format when a version was saved as the list of versions does, with the date unless it is that of the start."""
    return formatting.format_time_with_date_unless_today(convert_to_datetime(saved_at), start, "milliseconds")


def _format_answers_of_models(contents: TurnContents, texts: ItemTexts) -> tuple[str, str]:
    """Return a name for the answers of a turn, and the names of the models alone; both may be empty."""
    models = format_names_with_counts(contents.models, texts)
    if not contents.answers:
        return "", ""
    key = f"{'answer' if contents.answers == 1 else 'answers'}{'_of' if models else ''}"
    return texts.sentences[key] % {"number": formatting.format_number(contents.answers), "models": models}, models


def format_names_with_counts(names: Sequence[str], texts: ItemTexts) -> str:
    """Format the first names of tools or models, masked, each with how often it occurs."""
    if len(names) == 1 and names[0]:
        return _shorten_name(mask_and_format_tool_name(names[0]))
    if not names:
        return ""
    counts = Counter(names)
    formatted = [
        (_shorten_name(mask_and_format_tool_name(name)) if name else texts.sentences["unnamed"])
        + (f" ×{formatting.format_number(count)}" if count > 1 else "")
        for name, count in list(counts.items())[:_MAX_NAMES]
    ]
    return ", ".join([*formatted, "…"] if len(counts) > _MAX_NAMES else formatted)


def _shorten_name(masked_name: str) -> str:
    """Return the beginning of a name that is too long for a line."""
    return f"{masked_name[: _MAX_NAME_LENGTH - 1]}…" if len(masked_name) > _MAX_NAME_LENGTH else masked_name


def _build_event_item(event: Event, at: datetime, run: int, texts: ItemTexts) -> TimelineItem:
    if event.kind in {"decision", "vote", "verified"}:
        name = _put_masked_tool_in_sentence(
            texts.sentences[event.kind], event.tool, person=mask_and_reveal_hidden(event.actor)
        )
        shape, outcome = status_and_decision_labels.get_decision_shape_and_label(
            event.decision, about_question=event.tool == INTERRUPT_TOOL, about_changed_value=False
        )
        if event.kind == "vote":
            shape, outcome = (
                "wait",
                status_and_decision_labels.format_vote_label(event.decision, outcome, event.approvals),
            )
        return TimelineItem(event.kind, at, 0.0, run, name, outcome, call_pk=event.call_pk, shape=shape)
    name = texts.sentences["run"] % {"number": run}
    return TimelineItem(
        event.kind, at, 0.0, run, name, texts.moments[event.kind], peers=event.kind in {"pause", "taken"}
    )


def replace_unknown_outcome_by_decision(item: TimelineItem, decision: str, at: datetime) -> TimelineItem:
    """Return the item of a call whose outcome was unknown until the decision at this time."""
    shape, label = status_and_decision_labels.get_decision_shape_and_label(
        decision, about_question=False, about_changed_value=False
    )
    unknown_for = formatting.format_duration(max(0.0, (at - item.start).total_seconds()))
    outcome = gettext("unknown for %(duration)s, then: %(outcome)s") % {"duration": unknown_for, "outcome": label}
    return replace(item, told=outcome, shape=shape)


def _put_masked_tool_in_sentence(sentence: str, tool: str, **values: str) -> str:
    name = gettext("a question") if tool == INTERRUPT_TOOL else mask_and_format_tool_name(tool)
    return sentence % {"tool": name, **values}


def format_lane_name(lane: Lane) -> str:
    """Return the name of a lane: its run, the fork, what the fork has copied, or that its calls belong to no run."""
    if lane.copied_from is not None:
        return format_copied_lane_name(lane.copied_from)
    if lane.is_fork:
        return gettext("fork")
    if lane.run.is_outside_of_runs:
        return gettext("no run")
    return gettext("run %(number)s") % {"number": lane.run.number}


def format_title_of_lane_without_process_or_none(lane: Lane) -> str | None:
    """Return what a lane has that no process was the run of; None for a run."""
    if lane.copied_from is not None:
        return _format_copied_lane_title(lane, lane.copied_from)
    if lane.is_fork:
        return gettext("This is where the fork began.")
    return _format_title_of_lane_outside_of_runs(lane) if lane.run.is_outside_of_runs else None


def _format_title_of_lane_outside_of_runs(lane: Lane) -> str:
    calls = sum(stretch.number for stretch in lane.stretches if stretch.kind != "wait")
    sentence = ngettext(
        "%(count)s tool call was logged outside of a run.", "%(count)s tool calls were logged outside of a run.", calls
    )
    return sentence % {"count": calls}


def format_copied_lane_name(origin: str) -> str:
    """Return the name of what a fork has copied from the session with this id, which is empty if that is deleted."""
    if not origin:
        return gettext("copied from the original")
    return gettext("copied from %(session)s") % {"session": mask_and_reveal_hidden(origin)}


def _format_copied_lane_title(lane: Lane, copied_from: str) -> str:
    calls = sum(stretch.number for stretch in lane.stretches if stretch.kind != "wait")
    origin = mask_and_reveal_hidden(copied_from) if copied_from else gettext("the original")
    sentence = ngettext(
        "The fork has copied %(count)s tool call from %(session)s.",
        "The fork has copied %(count)s tool calls from %(session)s.",
        calls,
    )
    return sentence % {"count": calls, "session": origin}


def list_wait_label_candidates(duration: str) -> tuple[str, ...]:
    """List the possible labels of a bar of waiting, the longest first: where words have no room, the duration alone."""
    return gettext("waiting, %(duration)s") % {"duration": duration}, duration


def _get_last_message_position_or_none(length: int) -> int | None:
    return length - 1 if length else None
