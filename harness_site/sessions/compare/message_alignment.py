"""Alignment of two transcripts: unchanged, removed, added, moved and edited messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby

from checkpoints.formats import parse_message_parts
from checkpoints.formats.digests import digest_text
from checkpoints.formats.parse_message_parts import CallPart, OtherPart, Part, ResultPart
from harness_site.core import word_diff
from harness_site.core.word_diff import DiffPiece, StepBudget

#: Number of neighbours among which the edited version of a message is searched.
_ALIGNMENT_WINDOW = 8
_ALIKE = 0.5
#: Maximum steps of all comparisons of texts in one alignment.
_TEXT_STEPS = 50_000_000
#: Maximum steps of the alignment.
_STEPS = 5_000_000
#: A longer stretch of added or removed messages is shortened to its first and last messages.
_STRETCH, _HEAD, _TAIL = 30, 25, 4


@dataclass(frozen=True)
class ComparedMessage:
    """A message of one of the two versions. Its text is parsed on access.

    `content_key` is equal for messages of two sessions that differ only in their ids, their times and the ids of their
    calls; empty if these count too.
    """

    position: int
    message_id: str
    role: str
    at: datetime
    body: str
    content_key: str = ""

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return parse_message_parts.parse_message_parts(self.body)

    @property
    def text(self) -> str:
        return parse_message_parts.parts_to_text(self.parts)

    @property
    def key(self) -> str:
        """Text that unchanged messages have in common."""
        return self.content_key or self.body


@dataclass(frozen=True, slots=True)
class Fold:
    """`count` messages common to both versions, from `position` of the second one."""

    count: int
    position: int
    kind: str = field(default="fold", init=False)


@dataclass(frozen=True, slots=True)
class Added:
    message: ComparedMessage
    kind: str = field(default="added", init=False)


@dataclass(frozen=True, slots=True)
class Removed:
    message: ComparedMessage
    kind: str = field(default="removed", init=False)


@dataclass(frozen=True, slots=True)
class Edited:
    old: ComparedMessage
    new: ComparedMessage
    pieces: tuple[DiffPiece, ...]
    kind: str = field(default="edited", init=False)


@dataclass(frozen=True, slots=True)
class MovedAway:
    """Old position of a moved message."""

    old: ComparedMessage
    new: ComparedMessage
    kind: str = field(default="left", init=False)


@dataclass(frozen=True, slots=True)
class Moved:
    """New position of a moved message; `pieces` are the changes in it, empty if there are none."""

    old: ComparedMessage
    new: ComparedMessage
    pieces: tuple[DiffPiece, ...]
    kind: str = field(default="moved", init=False)


@dataclass(frozen=True, slots=True)
class Same:
    """An unchanged message of an expanded fold."""

    message: ComparedMessage
    kind: str = field(default="same", init=False)


@dataclass(frozen=True, slots=True)
class FurtherMessages:
    """`count` omitted messages of a long stretch of added, removed or moved messages.

    `what` is their kind, `position` that of the first one in its version.
    """

    what: str
    count: int
    position: int
    kind: str = field(default="more", init=False)


Line = Fold | Same | Added | Removed | Edited | MovedAway | Moved | FurtherMessages


def align_messages(old: Sequence[ComparedMessage], new: Sequence[ComparedMessage]) -> Iterator[Line]:
    """Align messages in reading order. A message removed in one place and added in another has moved."""
    codes = _compute_opcodes([message.key for message in old], [message.key for message in new])
    removed = Counter(message.key for tag, i1, i2, _, _ in codes if tag != "equal" for message in old[i1:i2])
    added = Counter(message.key for tag, _, _, j1, j2 in codes if tag != "equal" for message in new[j1:j2])
    moved_keys = removed.keys() & added.keys()
    if any(message.content_key for message in new):
        # Without ids, messages that say the same repeatedly, such as empty results, cannot be told apart.
        moved_keys = {key for key in moved_keys if removed[key] == added[key] == 1}
    budget = StepBudget(_TEXT_STEPS)
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            lines.append(Fold(j2 - j1, new[j1].position))
        else:
            lines += _build_lines_with_edits(old[i1:i2], new[j1:j2], moved_keys, budget)
    return _mark_moved_messages(lines, moved_keys)


def align_messages_of_two_sessions(
    old: Sequence[ComparedMessage], new: Sequence[ComparedMessage], *, share_ids: bool
) -> Iterator[Line]:
    """Align the messages of two sessions by role and content.

    Ids count only if the sessions share them, as a fork and its origin do, and if both have the message.
    """
    common_ids = {message.message_id for message in old} & {message.message_id for message in new} if share_ids else ()
    return align_messages(
        *([_set_content_key_and_drop_unshared_id(message, common_ids) for message in side] for side in (old, new))
    )


def _set_content_key_and_drop_unshared_id(message: ComparedMessage, common_ids: Container[str]) -> ComparedMessage:
    parts = parse_message_parts.parse_message_parts(message.body)  # not kept: most are unchanged and never displayed
    content = repr((message.role, [_remove_ids_of_part(part, message.message_id) for part in parts]))
    message_id = message.message_id if message.message_id in common_ids else ""
    return replace(message, message_id=message_id, content_key=digest_text(content))


def _remove_ids_of_part(part: Part, message_id: str) -> Part:
    match part:
        case CallPart() | ResultPart():
            return replace(part, call_id="")
        case OtherPart(value=dict(value)) if value.get("id") == message_id:
            return OtherPart({name: field_value for name, field_value in value.items() if name != "id"})
        case _:
            return part


def _compute_opcodes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Return the opcodes that turn `old` into `new`.

    If repetitive transcripts exceed the maximum steps, the common beginning and end are kept and the rest is replaced.
    """
    try:
        return list(word_diff.BoundedMatcher(old, new, _STEPS).get_opcodes())
    except word_diff.TooManySteps:
        return list(_compute_common_ends_opcodes(old, new))


def _compute_common_ends_opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    shorter = min(len(old), len(new))
    begin = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    end = next((index for index in range(shorter - begin) if old[-1 - index] != new[-1 - index]), shorter - begin)
    if begin:
        yield "equal", 0, begin, 0, begin
    yield "replace", begin, len(old) - end, begin, len(new) - end
    if end:
        yield "equal", len(old) - end, len(old), len(new) - end, len(new)


def _build_lines_with_edits(
    old: Sequence[ComparedMessage],
    new: Sequence[ComparedMessage],
    moved_keys: Container[str],
    budget: StepBudget,
) -> Iterator[Line]:
    """Pair removed with added messages; `moved_keys` are the keys of moved messages, which are not paired."""
    start = next_known = 0
    old_ids = {message.message_id for message in old} - {""}
    for message in old:
        next_known = max(next_known, start)
        while next_known < len(new) and new[next_known].message_id not in old_ids:
            next_known += 1
        match = (
            None
            if message.key in moved_keys
            else _find_edited_index(message, new, range(start, next_known), moved_keys, budget)
        )
        if match is None:
            yield Removed(message)
            continue
        yield from map(Added, new[start:match])
        yield (
            Fold(1, new[match].position)
            if message.key == new[match].key
            else Edited(message, new[match], word_diff.compute_word_diff(message.text, new[match].text, budget))
        )
        start = match + 1
    yield from map(Added, new[start:])


def _find_edited_index(
    message: ComparedMessage,
    new: Sequence[ComparedMessage],
    unknown: range,
    moved_keys: Container[str],
    budget: StepBudget,
) -> int | None:
    """Return the index in `new` of the edited version of a message, None if there is none.

    It is among the next messages from the start of `unknown`, or, however many messages were added before it, the
    message at its end: the next one whose id is that of an old message.
    """
    start, next_known = unknown.start, unknown.stop
    neighbours = [
        index for index in range(start, min(start + _ALIGNMENT_WINDOW, len(new))) if new[index].key not in moved_keys
    ]
    neighbour = _find_edited_neighbour_index(message, [new[index] for index in neighbours], budget)
    if neighbour is not None:
        return neighbours[neighbour]
    if next_known < len(new) and message.message_id and new[next_known].message_id == message.message_id:
        return None if new[next_known].key in moved_keys else next_known
    return None


def _mark_moved_messages(lines: Sequence[Line], moved_keys: Container[str]) -> Iterator[Line]:
    """Replace removed and added messages with the same key of `moved_keys`, or the same id, by moved ones."""
    removed = [line.message for line in lines if isinstance(line, Removed)]
    added = [line.message for line in lines if isinstance(line, Added)]
    pairs = _pair_messages_by_key(removed, added, lambda message: message.key if message.key in moved_keys else "")
    old_positions, new_positions = {old.position for old, _ in pairs}, {new.position for _, new in pairs}
    pairs += _pair_messages_by_key(
        [message for message in removed if message.position not in old_positions],
        [message for message in added if message.position not in new_positions],
        lambda message: message.message_id,
    )
    new_by_old, old_by_new = {old.position: new for old, new in pairs}, {new.position: old for old, new in pairs}
    for line in lines:
        if isinstance(line, Removed) and line.message.position in new_by_old:
            yield MovedAway(line.message, new_by_old[line.message.position])
        elif isinstance(line, Added) and line.message.position in old_by_new:
            yield _build_moved_line(old_by_new[line.message.position], line.message)
        else:
            yield line


def _pair_messages_by_key(
    removed: Sequence[ComparedMessage], added: Sequence[ComparedMessage], key: Callable[[ComparedMessage], str]
) -> list[tuple[ComparedMessage, ComparedMessage]]:
    """Pair messages of both lists with the same key, in order; empty keys are ignored."""
    unpaired: defaultdict[str, list[ComparedMessage]] = defaultdict(list)
    for message in reversed(removed):
        unpaired[key(message)].append(message)
    return [(unpaired[key(message)].pop(), message) for message in added if key(message) and unpaired[key(message)]]


def _build_moved_line(old: ComparedMessage, new: ComparedMessage) -> Moved:
    return Moved(old, new, () if old.key == new.key else word_diff.compute_word_diff(old.text, new.text))


def _find_edited_neighbour_index(
    message: ComparedMessage, neighbours: Sequence[ComparedMessage], budget: StepBudget
) -> int | None:
    """Return the index of the edited version of a message: the one with its id, else the most similar one."""
    for index, other in enumerate(neighbours):
        if message.message_id and message.message_id == other.message_id:
            return index
    likeness = [_compute_message_similarity(message, other, budget) for other in neighbours]
    best = max(likeness, default=0.0)
    return likeness.index(best) if best >= _ALIKE else None


def _compute_message_similarity(message: ComparedMessage, other: ComparedMessage, budget: StepBudget) -> float:
    if message.role != other.role or (message.message_id and other.message_id):
        return 0.0
    return word_diff.compute_similarity_of_beginnings(message.text, other.text, budget)


def list_displayed_ranges(first: int, upto: int) -> list[tuple[int, int]]:
    """Return the displayed ranges from `first` to `upto` (exclusive): all of it, or its beginning and its end."""
    if upto - first <= _STRETCH:
        return [(first, upto)] if upto > first else []
    return [(first, first + _HEAD), (upto - _TAIL, upto)]


def shorten_long_runs_of_changed_messages(lines: Iterable[Line]) -> Iterator[Line]:
    """Shorten long stretches of added, removed or moved messages to their beginning and end."""
    for kind, group in groupby(lines, key=lambda line: line.kind):
        stretch = list(group)
        if kind not in {"added", "removed", "moved", "left"} or len(stretch) <= _STRETCH:
            yield from stretch
            continue
        (_, head), (tail, _) = list_displayed_ranges(0, len(stretch))
        yield from stretch[:head]
        yield FurtherMessages(kind, tail - head, _get_position_in_own_version(stretch[head]))
        yield from stretch[tail:]


def _get_position_in_own_version(line: Line) -> int:
    """Return the position of a line in its version."""
    match line:
        case MovedAway(old=message) | Moved(new=message) | Edited(new=message):
            return message.position
        case Added(message=message) | Removed(message=message) | Same(message=message):
            return message.position
        case _:
            return line.position


def merge_adjacent_folds(lines: Sequence[Line]) -> Iterator[Line]:
    """Merge adjacent folds."""
    open_fold: Fold | None = None
    for line in lines:
        if isinstance(line, Fold):
            open_fold = Fold(open_fold.count + line.count, open_fold.position) if open_fold else line
            continue
        if open_fold:
            yield open_fold
            open_fold = None
        yield line
    if open_fold:
        yield open_fold
