"""Comparison of two versions of one session, or of two sessions such as a fork and its origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from checkpoints.formats.parse_message_parts import ResultPart
from checkpoints.models import Session
from harness_site.core import word_diff
from harness_site.core.masked_formatting import parse_json_or_text
from harness_site.core.word_diff import StepBudget
from harness_site.sessions import plan_steps_and_changes
from harness_site.sessions.compare import common_prefix, json_diff
from harness_site.sessions.compare.json_diff import Differences
from harness_site.sessions.compare.message_alignment import (
    Added,
    ComparedMessage,
    Fold,
    FurtherMessages,
    Line,
    Removed,
    Same,
    align_messages,
    align_messages_of_two_sessions,
    list_displayed_ranges,
    merge_adjacent_folds,
    shorten_long_runs_of_changed_messages,
)
from harness_site.sessions.compare.message_part_differences import EditedField, compare_fields
from harness_site.sessions.plan_steps_and_changes import Plan, StepChange, StepChangeKind
from harness_site.sessions.selectors import calls_between_versions, transcript_message_queries, version_lookup
from harness_site.sessions.selectors.calls_between_versions import FirstCallsAndCount
from harness_site.sessions.selectors.transcript_message_queries import StoredMessage
from harness_site.sessions.selectors.version_lookup import Version
from harness_site.sessions.tool_views import load_newest_todo_list

#: Maximum number of messages compared after the common prefix of each version; the page tells if there are more.
COMPARED = 2000
COMPARED_SIZE = 32_000_000
#: Number of unchanged messages displayed when a fold is expanded.
EXPANDED_MESSAGES = 50
#: Number of messages before the first difference in which the calls of its results are looked for.
_MESSAGES_WITH_CALLS = 8
#: Maximum steps of comparing the fields of two plans.
_PLAN_STEPS = 4_000_000

_Messages = Sequence[ComparedMessage]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between the versions `a` and `b`.

    The first `shared` messages are the same and were not read; `preceding` are the last of them if the first difference
    is a result, whose call is among them. `rest_a` and `rest_b` count the messages after the last compared one. `calls`
    were logged at the versions after the older one, up to the newer one. For two sessions, `calls_a` and `calls` are
    the calls that the first and the second one issued since they diverged, and `headlines` are the differences of their
    titles, agents, labels and metadata. With `has_todo_list`, the plan of a version is the todo list that its agent
    kept with a tool, as it had saved none.
    """

    a: Version
    b: Version
    shared: int
    lines: tuple[Line, ...]
    rest_a: int
    rest_b: int
    plan: tuple[StepChange, ...]
    plan_rest: tuple[EditedField, ...]
    payload: Differences
    calls: FirstCallsAndCount
    calls_a: FirstCallsAndCount = field(default_factory=FirstCallsAndCount)
    headlines: Differences = field(default_factory=Differences)
    preceding: tuple[ComparedMessage, ...] = ()
    has_todo_list: bool = False

    @property
    def added_count(self) -> int:
        return _count_lines_of_kind_with_omitted(self.lines, "added")

    @property
    def removed_count(self) -> int:
        return _count_lines_of_kind_with_omitted(self.lines, "removed")

    @property
    def edited_count(self) -> int:
        return sum(line.kind == "edited" for line in self.lines)

    @property
    def moved_count(self) -> int:
        return _count_lines_of_kind_with_omitted(self.lines, "moved")

    @property
    def unchanged_count(self) -> int:
        return sum(line.count for line in self.lines if isinstance(line, Fold)) + _count_lines_of_kind_with_omitted(
            self.lines, "same"
        )

    @property
    def folded_count(self) -> int:
        return sum(line.count for line in self.lines if isinstance(line, Fold))

    @property
    def is_plan_changed(self) -> bool:
        return any(change.change is not StepChangeKind.SAME for change in self.plan) or bool(self.plan_rest)


def _count_lines_of_kind_with_omitted(lines: Sequence[Line], kind: str) -> int:
    omitted = sum(line.count for line in lines if isinstance(line, FurtherMessages) and line.what == kind)
    return omitted + sum(line.kind == kind for line in lines)


def compare_two_versions(
    session_pk: int, a: int, b: int, *, other: int | None = None, opened: Sequence[int] = ()
) -> Comparison | None:
    """Compare version `a` of a session with version `b` of it, or of the session `other`.

    Returns None if one of the versions does not exist. From each position of `opened` on, unchanged messages are loaded
    and displayed.
    """
    other = session_pk if other is None else other
    versions = version_lookup.load_two_versions_with_payloads((session_pk, a), (other, b))
    if versions is None:
        return None
    (old, old_payload), (new, new_payload) = versions
    pks_without_plan = {pk for pk, version in ((session_pk, old), (other, new)) if version.plan is None}
    tools = {pk: load_newest_todo_list.list_tools_with_todo_lists(pk) for pk in pks_without_plan}
    old, has_todo_list_a = _add_todo_list_if_no_plan(session_pk, old, tools.get(session_pk, []))
    new, has_todo_list_b = _add_todo_list_if_no_plan(other, new, tools.get(other, []))
    prefix = common_prefix.find_common_prefix(old, new)
    shared = prefix.count
    align = (
        align_messages
        if session_pk == other
        else partial(align_messages_of_two_sessions, share_ids=prefix.has_shared_rows)
    )
    lines, rest_a, rest_b = _compare_messages_after_prefix(old, new, shared, align)
    shown_lines = tuple(
        _open_requested_folds(
            shorten_long_runs_of_changed_messages(
                merge_adjacent_folds([*_build_fold_of_shared_messages(shared), *lines])
            ),
            new,
            opened,
        )
    )
    calls_a, calls_b = _load_calls_on_both_sides((session_pk, old), (other, new), shared)
    return Comparison(
        a=old,
        b=new,
        shared=shared,
        lines=shown_lines,
        rest_a=rest_a,
        rest_b=rest_b,
        plan=plan_steps_and_changes.compare_plan_steps(old.plan, new.plan),
        plan_rest=_compare_other_plan_fields(old.plan, new.plan),
        payload=json_diff.compare_json_texts(old_payload, new_payload),
        calls=calls_b,
        calls_a=calls_a,
        headlines=_compare_session_attributes(session_pk, other),
        preceding=_load_messages_before_first_result(new, shared, shown_lines),
        has_todo_list=has_todo_list_a or has_todo_list_b,
    )


def _add_todo_list_if_no_plan(session_pk: int, version: Version, tools: Sequence[str]) -> tuple[Version, bool]:
    """Return a version with the todo list of its agent in place of a plan that it lacks, and whether there is one.

    `tools` are those of the session that keep todo lists.
    """
    kept = None
    if version.plan is None:
        kept = load_newest_todo_list.load_newest_todo_list(session_pk, tools, upto=version.number_and_save_time)
    return (version, False) if kept is None else (replace(version, plan=kept.plan), True)


def _compare_other_plan_fields(old: Plan | None, new: Plan | None) -> tuple[EditedField, ...]:
    """Return the fields of two plans that differ, except their steps; too many are one text, without a name."""
    texts = plan_steps_and_changes.format_other_plan_fields(old), plan_steps_and_changes.format_other_plan_fields(new)
    if texts[0] == texts[1]:
        return ()
    fields = compare_fields(old.rest if old else {}, new.rest if new else {}, StepBudget(_PLAN_STEPS))
    differing = tuple(field for field in fields if field.has_differences)
    return differing or (EditedField("", word_diff.compute_word_diff(*texts)),)


def _compare_session_attributes(first_pk: int, second_pk: int) -> Differences:
    """Compare title, agent, labels and metadata of two sessions."""
    if first_pk == second_pk:
        return Differences()
    sessions = Session.objects.filter(pk__in=(first_pk, second_pk))
    headlines = {
        pk: _build_session_attributes_dict(*columns)
        for pk, *columns in sessions.values_list("pk", "title", "agent", "labels", "metadata")
    }
    return json_diff.compare_json_values(headlines.get(first_pk, {}), headlines.get(second_pk, {}))


def _build_session_attributes_dict(title: str, agent: str, labels: str, metadata: str) -> dict[str, Any]:
    return {
        "title": title,
        "agent": agent,
        "labels": parse_json_or_text(labels),
        "metadata": parse_json_or_text(metadata),
    }


def _load_calls_on_both_sides(
    first_side: tuple[int, Version], second_side: tuple[int, Version], shared: int
) -> tuple[FirstCallsAndCount, FirstCallsAndCount]:
    """Load the calls of each session since they diverged; for one session, those between the versions, as the
    second."""
    (first_pk, old), (second_pk, new) = first_side, second_side
    if first_pk == second_pk:
        start, end = sorted((old.number_and_save_time, new.number_and_save_time))
        return FirstCallsAndCount(), calls_between_versions.load_first_calls_logged_between_versions_and_count(
            first_pk, start, end
        )
    first_since = version_lookup.find_last_version_within_shared_messages(first_pk, old, shared)
    second_since = version_lookup.find_last_version_within_shared_messages(second_pk, new, shared)
    first, second = (
        calls_between_versions.load_first_calls_issued_between_versions_and_count(
            pk, since, version.number_and_save_time
        )
        for pk, since, version in ((first_pk, first_since, old), (second_pk, second_since, new))
    )
    if not shared:
        return first, second
    return (
        calls_between_versions.add_copies_in_fork(first, first_pk, second.first),
        calls_between_versions.add_copies_in_fork(second, second_pk, first.first),
    )


def _build_fold_of_shared_messages(shared: int) -> list[Line]:
    return [Fold(shared, 0)] if shared else []


def _compare_messages_after_prefix(
    old: Version, new: Version, shared: int, align: Callable[[_Messages, _Messages], Iterable[Line]]
) -> tuple[Iterable[Line], int, int]:
    """Compare the messages after the common prefix; return the lines and the number of messages not compared.

    If the messages are too large together, none is compared.
    """
    if shared in {old.length, new.length}:
        return [*_iterate_one_sided_lines(old, shared, Removed), *_iterate_one_sided_lines(new, shared, Added)], 0, 0
    before, after = _load_messages_unless_too_large(old, shared), _load_messages_unless_too_large(new, shared)
    if before is None or after is None:
        before = after = []
    return align(before, after), old.length - shared - len(before), new.length - shared - len(after)


def _iterate_one_sided_lines(version: Version, first: int, kind: type[Added | Removed]) -> Iterator[Line]:
    """Yield the messages by which one version is longer.

    There may be any number, so only the beginning and the end of a long stretch are loaded.
    """
    at = first
    for begin, end in list_displayed_ranges(first, version.length):
        for message in transcript_message_queries.load_and_verify_newest_messages_within_size(
            version.segment_id, begin, end, size=COMPARED_SIZE
        ):
            line = kind(_convert_to_compared_message(message))
            if message.position > at:
                yield FurtherMessages(line.kind, message.position - at, at)
            yield line
            at = message.position + 1


def _load_messages_unless_too_large(version: Version, first: int) -> list[ComparedMessage] | None:
    upto = min(version.length, first + COMPARED)
    stored = transcript_message_queries.load_and_verify_newest_messages_within_size(
        version.segment_id, first, upto, size=COMPARED_SIZE
    )
    return [_convert_to_compared_message(message) for message in stored] if len(stored) == upto - first else None


def _convert_to_compared_message(message: StoredMessage) -> ComparedMessage:
    return ComparedMessage(message.position, message.message_id, message.role, message.created_at, message.body)


def _load_messages_before_first_result(new: Version, shared: int, lines: Sequence[Line]) -> tuple[ComparedMessage, ...]:
    """Load the last shared messages if the first difference is a result; without them, its tool would not be known."""
    for line in lines:
        if isinstance(line, Added | Removed) and any(isinstance(part, ResultPart) for part in line.message.parts):
            break
        if not isinstance(line, Fold | Same):
            return ()
    else:
        return ()
    stored = transcript_message_queries.load_and_verify_newest_messages_within_size(
        new.segment_id, max(0, shared - _MESSAGES_WITH_CALLS), shared
    )
    return tuple(_convert_to_compared_message(message) for message in stored)


def _open_requested_folds(lines: Iterable[Line], new: Version, positions: Sequence[int]) -> Iterator[Line]:
    for line in lines:
        if isinstance(line, Fold):
            yield from _open_fold_at_positions(line, new, sorted(positions))
        else:
            yield line


def _open_fold_at_positions(fold: Fold, new: Version, positions: Sequence[int]) -> Iterator[Line]:
    """Yield a fold with the messages from each of `positions` expanded; the others stay folded."""
    at, end = fold.position, fold.position + fold.count
    for position in positions:
        if not at - EXPANDED_MESSAGES < position < end or position < fold.position:
            continue
        for message in transcript_message_queries.load_and_verify_newest_messages_within_size(
            new.segment_id, max(at, position), min(position + EXPANDED_MESSAGES, end)
        ):
            if message.position > at:
                yield Fold(message.position - at, at)
            yield Same(_convert_to_compared_message(message))
            at = message.position + 1
    if at < end:
        yield Fold(end - at, at)
