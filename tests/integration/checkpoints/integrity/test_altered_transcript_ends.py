"""Attacks on the columns of a session that say where its transcript ends: they have no seal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import IntegrityError, QuarantineStays
from checkpoints.framework_states.state_store import write_version_of_transcript_if_changed
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.importers import import_transcripts
from checkpoints.integrity import verify_session_rows
from checkpoints.integrity.quarantine import release_quarantine
from checkpoints.loop_state.phase_details import PreLlm
from checkpoints.models import Checkpoint, Message, Segment, Session
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.session_setups import conversation, start_session, text_message

NEW = text_message("new", "user")


def save_branch(open_checkpointer: Open) -> SyncCheckpointer:
    """Save a version of the transcript abcd, and one of abxy, which branches from it."""
    cp = start_session(open_checkpointer())
    assert [cp.save_checkpoint("s", conversation(texts), None, 0) for texts in ("abcd", "abxy")] == [1, 2]
    return cp


def end_as_first_version() -> None:
    """Let the session end as its first version does."""
    first = Segment.objects.earliest("pk")
    last = Message.objects.filter(segment=first).latest("position")
    plain(Session).update(head_segment=first, message_count=4, head_chain=bytes(last.chain))


def end_as_foreign_transcript() -> None:
    """Let the session end as a transcript of another session does."""
    segment = Segment.objects.exclude(session__session_id="s").latest("pk")
    last = Message.objects.filter(segment=segment).latest("position")
    columns = {"head_segment": segment, "message_count": last.position + 1, "head_chain": bytes(last.chain)}
    plain(Session).filter(session_id="s").update(**columns)


def remove_newest_version() -> None:
    end_as_first_version()
    plain(Checkpoint).filter(version=2).delete()


def append_message(cp: SyncCheckpointer) -> Any:
    cp.append_checkpoint("s", [NEW], expected_version=2)


def append_as_framework(cp: SyncCheckpointer) -> Any:
    write_version_of_transcript_if_changed(cp.store, "s", VersionContent(None, added=[NEW]))


@pytest.mark.parametrize("append", [append_message, append_as_framework])
@pytest.mark.parametrize("alter", [end_as_first_version, end_as_foreign_transcript, remove_newest_version])
def test_message_is_not_appended_to_another_transcript(
    open_checkpointer: Open, alter: Callable[[], None], append: Callable[[SyncCheckpointer], Any]
) -> None:
    save_branch(open_checkpointer).close()
    other = start_session(open_checkpointer(), "other")
    other.save_checkpoint("other", conversation("pq"), None, 0)
    alter()

    with pytest.raises(IntegrityError):
        append(open_checkpointer())
    assert plain(Checkpoint).filter(session__session_id="s", version__gt=2).count() == 0


def test_message_is_not_appended_to_a_session_that_never_had_a_version(open_checkpointer: Open) -> None:
    save_branch(open_checkpointer).close()
    start_session(open_checkpointer(), "empty").close()
    segment = Segment.objects.filter(session__session_id="s").earliest("pk")
    last = Message.objects.filter(segment=segment).latest("position")
    columns = {"head_segment": segment, "message_count": 4, "head_chain": bytes(last.chain)}
    plain(Session).filter(session_id="empty").update(**columns)

    with pytest.raises(IntegrityError):
        open_checkpointer().append_checkpoint("empty", [NEW], expected_version=0)
    assert plain(Checkpoint).filter(session__session_id="empty").count() == 0
    empty = Session.objects.get(session_id="empty")
    problems = verify_session_rows.iterate_session_problems("default", empty, verify_session_rows.VerificationCounts())
    assert [problem.why for problem in problems] == ["it has messages and no version"]
    assert empty.quarantined_at is not None
    with pytest.raises(QuarantineStays):
        release_quarantine(open_checkpointer().store, "empty", actor="alice", reason="Fine.", accept_altered=True)


@pytest.mark.parametrize("act", [append_message, append_as_framework, lambda cp: cp.resume("s")])
def test_first_message_is_not_written_into_a_segment_of_another_session(
    open_checkpointer: Open, act: Callable[[SyncCheckpointer], Any]
) -> None:
    """Where the segment was deleted, which SQLite permits, the error is the same."""
    cp = start_session(open_checkpointer())
    cp.release_session("s")
    other = start_session(cp, "other").store
    assert list_problems() == []
    plain(Session).filter(session_id="s").update(head_segment=Segment.objects.get(session__session_id="other"))

    assert list_problems() == ["its transcript is in a segment that is missing or of another session"]
    with pytest.raises(IntegrityError, match="missing or of another session"):
        act(open_checkpointer())
    assert plain(Message).count() == 0
    with pytest.raises(QuarantineStays):
        release_quarantine(other, "s", actor="alice", reason="Fine.", accept_altered=True)


def list_problems() -> list[str]:
    session = plain(Session).get(session_id="s")
    problems = verify_session_rows.iterate_session_problems(
        "default", session, verify_session_rows.VerificationCounts()
    )
    return [problem.why for problem in problems]


def test_run_does_not_append_to_another_transcript(open_checkpointer: Open) -> None:
    cp = save_branch(open_checkpointer)
    end_as_first_version()
    with pytest.raises(IntegrityError):
        append_message(cp)
    assert plain(Checkpoint).count() == 2


def test_run_does_not_save_after_another_transcript(open_checkpointer: Open) -> None:
    cp = save_branch(open_checkpointer)
    end_as_first_version()
    with pytest.raises(IntegrityError):
        cp.save_checkpoint("s", [*conversation("abxy"), NEW], None, 0)
    assert plain(Checkpoint).count() == 2


def save_transcript(cp: SyncCheckpointer) -> Any:
    cp.save_checkpoint("s", [*conversation("abxy"), NEW], None, 0)


def save_phase(cp: SyncCheckpointer) -> Any:
    cp.save_phase("s", PreLlm(), transcript=[*conversation("abxy"), NEW])


@pytest.mark.parametrize(
    ("write", "has_run"),
    [
        (append_message, False),
        (append_as_framework, False),
        (append_message, True),
        (append_as_framework, True),
        (save_transcript, True),
        (save_phase, True),
    ],
)
def test_write_that_finds_an_altered_end_puts_the_session_under_quarantine(
    open_checkpointer: Open, write: Callable[[SyncCheckpointer], Any], has_run: bool
) -> None:
    cp = save_branch(open_checkpointer)
    if not has_run:
        cp.close()
        cp = open_checkpointer()
    end_as_first_version()
    with pytest.raises(IntegrityError):
        write(cp)
    assert Session.objects.get().quarantined_at is not None


def write_rollout(path: Path, texts: str) -> None:
    """Write a transcript of Codex in which user and assistant alternate."""
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": "s", "cwd": "/srv"}}]
    for index, text in enumerate(texts):
        role, kind = (("user", "input_text"), ("assistant", "output_text"))[index % 2]
        content = [{"type": kind, "text": text}]
        lines.append({"type": "response_item", "payload": {"type": "message", "role": role, "content": content}})
    with path.open("w") as file:
        for second, line in enumerate(lines):
            file.write(json.dumps({"timestamp": f"2026-01-02T03:04:{second:02}Z", **line}) + "\n")


def test_import_does_not_continue_another_transcript(open_checkpointer: Open, tmp_path: Path) -> None:
    path = tmp_path / "rollout-s.jsonl"
    write_rollout(path, "abcd")
    import_transcripts(open_checkpointer(), path)
    session = Session.objects.get()
    empty = Segment.objects.create(session=session)
    plain(Session).update(head_segment=empty, message_count=0, head_chain=b"")
    before = plain(Checkpoint).count()

    write_rollout(path, "abcdef")
    with pytest.raises(IntegrityError):
        import_transcripts(open_checkpointer(), path)
    assert plain(Checkpoint).count() == before
