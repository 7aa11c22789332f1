"""Attacks that the library itself would complete: a fork, a deletion or `seal_sessions` after an alteration."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from checkpoints.exceptions import IntegrityError, RowNotSealed
from checkpoints.formats.digests import digest_text
from checkpoints.framework_states import remove_and_copy_states, state_store
from checkpoints.framework_states.state_store import NewState
from checkpoints.models import Checkpoint, FrameworkState, Message, Segment, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, plain
from tests.integration.checkpoints.integrity.test_other_attacks import find_tables_with_problems
from tests.integration.checkpoints.session_setups import conversation, start_session


def save_session(open_checkpointer: Open, session_id: str) -> None:
    """Create a session with a version and a call."""
    cp = start_session(open_checkpointer(), session_id)
    cp.save_checkpoint(session_id, conversation("abc"), None, 0)
    cp.record_tool_call_issued(session_id, "call_1", "pay", {"order": 17}, f"key {session_id}")
    cp.record_tool_call_result(session_id, "call_1", "paid", True)
    cp.close()


@pytest.mark.parametrize("model", [ToolCall, Checkpoint])
def test_session_with_a_missing_row_is_not_forked(open_checkpointer: Open, model: Any) -> None:
    save_session(open_checkpointer, "s")
    cp = start_session(open_checkpointer(), "s") if model is Checkpoint else open_checkpointer()
    if model is Checkpoint:
        cp.save_checkpoint("s", conversation("abcd"), None, 0)
    plain(model).filter(pk=plain(model).earliest("pk").pk).delete()

    with pytest.raises(IntegrityError):
        cp.fork_session("s", "fork")
    assert not Session.objects.filter(session_id="fork").exists()
    assert Session.objects.get(session_id="s").quarantined_at is not None


def test_states_of_a_session_with_a_missing_state_are_not_copied(open_checkpointer: Open) -> None:
    store = start_session(open_checkpointer()).store
    for number in "12":
        body = ("json", b"{}")
        state = NewState("ns", number, "", "run", body, body, {"a": 1}, {"a": ("json", number.encode())}, ["a"])
        state_store.save_state_and_transcript_version(store, "s", state)
    plain(FrameworkState).filter(state_id="2").delete()

    with pytest.raises(IntegrityError):
        remove_and_copy_states.copy_states_to_session(store, "s", "copy")
    assert not Session.objects.filter(session_id="copy").exists()
    assert Session.objects.get(session_id="s").quarantined_at is not None


@pytest.mark.parametrize(("model", "reported"), [(Segment, Checkpoint), (Message, Message)])
def test_rows_of_a_transcript_that_were_moved_to_another_session_are_noticed(
    open_checkpointer: Open, model: Any, reported: Any
) -> None:
    for session_id in ("s", "other"):
        save_session(open_checkpointer, session_id)
    plain(model).filter(session__session_id="s").update(session=Session.objects.get(session_id="other"))
    assert find_tables_with_problems("s") == {reported._meta.db_table}


def test_deletion_of_another_session_leaves_a_segment_that_was_moved_to_it(open_checkpointer: Open) -> None:
    for session_id in ("s", "other"):
        save_session(open_checkpointer, session_id)
    plain(Segment).filter(session__session_id="s").update(session=Session.objects.get(session_id="other"))

    cp = open_checkpointer()
    cp.delete_session("other")
    latest = cp.load_latest("s")
    assert latest is not None
    assert latest["transcript"] == conversation("abc")
    assert find_tables_with_problems("s") == set()


@pytest.mark.parametrize("is_witnessed", [True, False])
def test_stripped_seals_are_not_given_again_where_a_witness_knows_them(
    open_checkpointer: Open, witness: Path, settings: Any, is_witnessed: bool
) -> None:
    if not is_witnessed:
        settings.HARNESS_WITNESS = None
    save_session(open_checkpointer, "s")
    for model in SEALED_TABLES:
        plain(model).update(row_seal=None)
    plain(ToolCall).update(result='"forged"', result_digest=digest_text('"forged"'))

    with pytest.raises(RowNotSealed):
        open_checkpointer().resume("s")
    if is_witnessed:
        err = StringIO()
        with pytest.raises(CommandError, match="sessions were not sealed"):
            call_command("seal_sessions", stdout=StringIO(), stderr=err)
        assert "somebody has removed it" in err.getvalue()
        assert plain(Session).get().row_seal is None
    else:  # nothing tells that from a session of before sealing
        call_command("seal_sessions", stdout=StringIO(), stderr=StringIO())
