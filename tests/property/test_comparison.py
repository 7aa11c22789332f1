"""Comparison of two versions finds exactly the changes between them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from checkpoints.sync_client import SyncCheckpointer
from harness_site.sessions.compare import compare_versions, message_alignment
from harness_site.sessions.compare.message_alignment import (
    Added,
    ComparedMessage,
    Edited,
    Fold,
    Line,
    Moved,
    MovedAway,
    Removed,
)
from tests.support.exhaustive_mode import count_examples

THEN = datetime(2026, 11, 21, 10, 42, tzinfo=UTC)

#: What is done to one message: kept, edited, removed; and how many are put before it.
operations = st.lists(
    st.tuples(st.sampled_from(["keep", "keep", "keep", "edit", "remove"]), st.integers(0, 2)), max_size=12
)


def changed(
    operations: Sequence[tuple[str, int]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, set[str]]]:
    """A transcript, the same one after `operations`, and the ids of what was done."""
    old, new = [], []
    done: dict[str, set[str]] = {"added": set(), "removed": set(), "edited": set()}
    for number, (what, before) in enumerate(operations):
        for extra in range(before):
            name = f"new-{number}-{extra}"
            new.append({"id": name, "role": "user", "content": f"something new, {name}"})
            done["added"].add(name)
        message = {"id": f"m{number}", "role": "user", "content": f"what was said as number {number}"}
        old.append(message)
        if what == "keep":
            new.append(message)
        elif what == "edit":
            new.append({**message, "content": f"what was put differently as number {number}"})
            done["edited"].add(f"m{number}")
        else:
            done["removed"].add(f"m{number}")
    return old, new, done


def found_in(lines: Sequence[Line]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"added": set(), "removed": set(), "edited": set()}
    for line in lines:
        match line:
            case Edited(new=message):
                found["edited"].add(message.message_id)
            case Added(message=message):
                found["added"].add(message.message_id)
            case Removed(message=message):
                found["removed"].add(message.message_id)
    return found


def read_back(lines: Sequence[Line], new: Sequence[ComparedMessage]) -> tuple[list[str], list[str]]:
    """Both transcripts, out of the lines: folds are read from the second one."""
    ours: list[str] = []
    theirs: list[str] = []
    for line in lines:
        match line:
            case Fold(count=count, position=position):
                kept = [said.body for said in new[position : position + count]]
                ours, theirs = ours + kept, theirs + kept
            case Edited(old=was, new=now):
                ours.append(was.body)
                theirs.append(now.body)
            case MovedAway(old=message):
                ours.append(message.body)
            case Added(message=message) | Moved(new=message):
                theirs.append(message.body)
            case Removed(message=message):
                ours.append(message.body)
    return ours, theirs


def said(messages: Sequence[dict[str, Any]]) -> list[ComparedMessage]:
    bodies = [to_canonical_json(message) for message in messages]
    return [
        ComparedMessage(position, str(message.get("id", "")), str(message["role"]), THEN, body)
        for position, (message, body) in enumerate(zip(messages, bodies, strict=True))
    ]


@given(operations)
@example([("remove", 2), ("remove", 2), ("remove", 2), ("edit", 2)])
def test_alignment_finds_exactly_the_changes(operations: list[tuple[str, int]]) -> None:
    old, new, done = changed(operations)
    assert found_in(list(message_alignment.align_messages(said(old), said(new)))) == done


@given(
    st.lists(st.tuples(st.sampled_from("ua"), st.sampled_from(["x", "x y z", "x y z w", "p q"])), max_size=10),
    st.lists(st.tuples(st.sampled_from("ua"), st.sampled_from(["x", "x y z", "x y z w", "p q"])), max_size=10),
)
def test_aligned_lines_contain_both_transcripts(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> None:
    before = said([{"role": role, "content": text} for role, text in old])
    after = said([{"role": role, "content": text} for role, text in new])
    lines = list(message_alignment.align_messages(before, after))
    assert read_back(lines, after) == ([one.body for one in before], [one.body for one in after])


@given(st.lists(st.integers(0, 30), unique=True, max_size=12), st.data())
def test_reordered_messages_are_found_as_moved(numbers: list[int], data: st.DataObject) -> None:
    """Without additions and removals, every changed message has moved, and both positions are named."""
    messages = [{"id": f"m{number}", "role": "user", "content": str(number)} for number in numbers]
    before, after = said(messages), said(data.draw(st.permutations(messages)))
    lines = list(message_alignment.align_messages(before, after))
    assert found_in(lines) == {"added": set(), "removed": set(), "edited": set()}
    left = [line.old.message_id for line in lines if isinstance(line, MovedAway)]
    moved = [line.new.message_id for line in lines if isinstance(line, Moved)]
    assert sorted(left) == sorted(moved)


@pytest.mark.django_db(transaction=True)
@settings(max_examples=count_examples(8))
@given(operations=operations)
def test_comparison_of_saved_versions_finds_exactly_the_changes(operations: list[tuple[str, int]]) -> None:
    old, new, done = changed(operations)
    with SyncCheckpointer() as checkpointer:
        session_id = f"property-{Session.objects.count()}"
        checkpointer.start_session(session_id)
        a = checkpointer.save_checkpoint(session_id, old, None, 0)
        b = checkpointer.save_checkpoint(session_id, new, None, 0)
    found = compare_versions.compare_two_versions(Session.objects.get(session_id=session_id).pk, a, b)
    assert found is not None
    assert found_in(found.lines) == done
    unchanged = len(old) - len(done["edited"]) - len(done["removed"])
    assert (found.added_count, found.removed_count, found.edited_count) == tuple(
        len(done[kind]) for kind in ("added", "removed", "edited")
    )
    assert found.unchanged_count == unchanged


def test_word_diffs_of_many_messages_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions may have thousands of similar messages: beyond the budget, they are removed and added."""
    messages = [{"id": f"m{number}", "role": "user", "content": f"this is said as {number}"} for number in range(9)]
    others = [{**message, "id": f"n{message['id']}", "content": f"{message['content']}!"} for message in messages]
    for steps, kinds in ((50_000, {"edited"}), (1_000, {"edited", "removed", "added"}), (0, {"removed", "added"})):
        monkeypatch.setattr(message_alignment, "_TEXT_STEPS", steps)
        lines = message_alignment.align_messages_of_two_sessions(said(messages), said(others), share_ids=False)
        assert {line.kind for line in lines} == kinds
