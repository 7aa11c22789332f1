from __future__ import annotations

from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import IntegrityError, RowNotSealed, SealError, SealKeyMissing, SessionQuarantined
from checkpoints.formats import digests
from checkpoints.integrity import verify_session_rows
from checkpoints.integrity.verify_session_rows import VerificationCounts, iterate_session_problems
from checkpoints.models import Checkpoint, Decision, Message, Session, ToolCall
from checkpoints.seals import row_seals
from checkpoints.seals.sealed_model import SealedModel
from checkpoints.versions import load_version
from tests.conftest import Open
from tests.integration.checkpoints.integrity.conftest import KEY, OTHER_KEY
from tests.integration.checkpoints.integrity.sealed_history import (
    SEALED_TABLES,
    change,
    create_sealed_session,
    plain,
    rolled_back,
)
from tests.integration.checkpoints.session_setups import conversation, start_session, text_message

HEAD_COLUMNS = {"newest_seal", "head_number", "row_sum", "row_seal"}


def problems(session_id: str) -> list[Any]:
    return list(iterate_session_problems("default", Session.objects.get(session_id=session_id), VerificationCounts()))


def test_every_change_of_a_sealed_column_is_detected(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    session = Session.objects.get(session_id="s")
    assert problems("s") == []
    unnoticed, edits = [], 0
    for model in SEALED_TABLES:
        rows = plain(model).filter(pk=session.pk) if model is Session else plain(model).filter(session=session)
        assert rows, model
        assert issubclass(model, SealedModel)
        columns = {*model.sealed_fields, "row_seal"} | ({"body"} if model is Message else set())
        for name in sorted(columns - {"id"}):
            field: Any = model._meta.get_field(name)
            row: Any = rows.last()
            with rolled_back():
                plain(model).filter(pk=row.pk).update(**{field.attname: change(getattr(row, field.attname), field)})
                altered = plain(model).get(pk=row.pk)
                edits += 1
                try:
                    row_seals.verify_row(altered)
                    if not problems("s"):
                        unnoticed.append(f"{model.__name__}.{name}")
                except SealError:
                    pass
    assert unnoticed == []
    assert edits > 120


def test_exchanged_and_foreign_rows_are_refused(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    create_sealed_session(open_checkpointer, "t")
    mine, theirs = Session.objects.get(session_id="s"), Session.objects.get(session_id="t")
    unnoticed = []
    for model in SEALED_TABLES:
        assert issubclass(model, SealedModel)
        if model is Session:
            pair: tuple[Any, Any] = mine, theirs
        else:
            rows = plain(model).order_by("pk")
            pair = rows.filter(session=mine).first(), rows.filter(session=theirs).first()
        place = {"session", "workspace", "id", "row_seal", *_foreign(model)}
        content = [name for name in model.sealed_fields if name not in place]
        with rolled_back():  # the content of theirs under the name of mine, with its seal
            values = {name: getattr(pair[1], name) for name in content if name not in _unique(model)}
            plain(model).filter(pk=pair[0].pk).update(**values, row_seal=pair[1].row_seal)
            try:
                row_seals.verify_row(plain(model).get(pk=pair[0].pk))
                unnoticed.append(model.__name__)
            except IntegrityError:
                pass
    assert unnoticed == []


def _foreign(model: Any) -> set[str]:
    return {field.name for field in model._meta.concrete_fields if field.is_relation}


def _unique(model: Any) -> set[str]:
    return {name for constraint in model._meta.constraints for name in getattr(constraint, "fields", ())}


@pytest.fixture
def cp(open_checkpointer: Open) -> SyncCheckpointer:
    checkpointer = start_session(open_checkpointer())
    for length in (2, 3):
        checkpointer.save_checkpoint("s", conversation("abc"[:length]), {"n": length}, 0.5)
    return checkpointer


def test_altered_message_is_not_served(cp: SyncCheckpointer) -> None:
    plain(Message).filter(position=1).update(body='{"role":"assistant","text":"forged"}')
    for read in (
        lambda: cp.load_latest("s"),
        lambda: cp.load("s", 2),
        lambda: cp.messages("s"),
        lambda: cp.preview_resume("s"),
    ):
        with pytest.raises(IntegrityError, match=r"message 1\)"):
            read()


def test_altered_message_with_recomputed_digests_is_not_served(cp: SyncCheckpointer) -> None:
    bodies = list(Message.objects.order_by("position").values_list("body", flat=True))
    bodies[1] = '{"role":"assistant","text":"forged"}'
    for position, chain in enumerate(digests.compute_hash_chains(bodies)):
        plain(Message).filter(position=position).update(body=bodies[position], chain=chain)
    newest = Message.objects.get(position=2)
    plain(Checkpoint).filter(length=3).update(chain=newest.chain)
    plain(Session).update(head_chain=newest.chain)

    for read in (lambda: cp.load_latest("s"), lambda: cp.messages("s"), lambda: cp.list_checkpoints("s")):
        with pytest.raises(IntegrityError):
            read()


def test_only_the_session_with_an_altered_call_is_not_resumed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    start_session(cp, "other")
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    cp.record_tool_call_result("s", "call_1", "paid", True)
    cp.close()
    plain(ToolCall).update(status="failed")

    with pytest.raises(IntegrityError) as caught:
        open_checkpointer().resume("s")
    assert caught.value.table == "checkpoints_toolcall"
    assert "call_1" in caught.value.row
    assert open_checkpointer().resume("other").version == 0


def test_altered_call_is_neither_replayed_nor_decided_nor_changed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    cp.release_session("s")
    (call,) = cp.pending_tool_calls("s")
    plain(ToolCall).update(tool="refund")
    stored = plain(ToolCall).values().get()

    for act in (
        lambda: cp.approve_rerun("s", "call_1", actor="alice", reason="It did not arrive.", revision=call["revision"]),
        lambda: cp.pending_tool_calls("s"),
        lambda: cp.resume("s"),
        lambda: ToolCall.objects.filter(call_id="call_1").update(status="failed"),
    ):
        with pytest.raises((IntegrityError, SessionQuarantined)):
            act()
    assert plain(ToolCall).values().get() == stored
    assert not Decision.objects.exists()


def test_outcome_does_not_seal_a_row_altered_while_the_call_ran(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    plain(ToolCall).update(args='{"order":18}')
    cp.record_tool_call_result("s", "call_1", "paid", True)

    with pytest.raises(IntegrityError):
        cp.find_completed_call("key")


def test_row_whose_seal_was_removed_is_refused_unless_that_is_configured(cp: SyncCheckpointer, settings: Any) -> None:
    plain(Checkpoint).update(row_seal=None)
    with pytest.raises(RowNotSealed):
        cp.load_latest("s")
    settings.HARNESS_SEAL_REQUIRED = False
    with pytest.raises(IntegrityError, match="newest version of s"):  # the session is sealed, and says so
        cp.load_latest("s")
    plain(Session).update(row_seal=None)
    latest = cp.load_latest("s")
    assert latest
    assert latest["version"] == 2


def test_former_key_verifies_and_the_present_one_seals(cp: SyncCheckpointer, settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = f"{OTHER_KEY} {KEY}"
    cp.save_checkpoint("s", [*conversation("abc"), text_message("d")], {}, 1)
    seals = [
        bytes(seal or b"")[:4] for seal in Checkpoint.objects.order_by("version").values_list("row_seal", flat=True)
    ]
    assert seals[0] == seals[1] != seals[2]
    latest = cp.load_latest("s")
    assert latest
    assert len(latest["transcript"]) == 4

    settings.HARNESS_SEAL_KEY = KEY
    with pytest.raises(SealKeyMissing):
        cp.load_latest("s")
    settings.HARNESS_SEAL_KEY = ""
    settings.HARNESS_SEAL_REQUIRED = None
    with pytest.raises(SealKeyMissing):
        cp.load_latest("s")


def test_missing_or_restored_row_is_detected_by_the_sum(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    session = Session.objects.get(session_id="s")
    before = plain(ToolCall).filter(session=session).values().order_by("pk")[0]
    ToolCall.objects.filter(pk=before["id"]).update(reason="abandoned")
    assert problems("s") == []
    with rolled_back():  # a former state, with its own valid seal
        plain(ToolCall).filter(pk=before["id"]).update(**before)
        assert [problem.table for problem in problems("s")] == ["checkpoints_session"]
    for model in (Decision, Checkpoint):
        with rolled_back():
            row = plain(model).filter(session=session).order_by("pk").last()
            assert row
            plain(model).filter(pk=row.pk).delete()
            assert problems("s"), model
            with pytest.raises(IntegrityError):
                verify_session_rows.verify_records_and_hash_live_call_keys(
                    "default", Session.objects.get(pk=session.pk)
                )
            if model is Checkpoint:
                with pytest.raises(IntegrityError, match="newest version of s"):
                    load_version.load_latest_version(open_checkpointer().store, "s")


def test_saving_a_session_that_was_read_before_keeps_its_head(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    stale = Session.objects.get(session_id="s")
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    current = Session.objects.get(session_id="s")
    for name in (field.attname for field in Session._meta.concrete_fields if field.name not in HEAD_COLUMNS):
        setattr(stale, name, getattr(current, name))
    stale.result = '"done"'
    stale.save()

    assert problems("s") == []
    cp.close()
    assert open_checkpointer().resume("s").version == 1
