from __future__ import annotations

import json
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from checkpoints import ToolRegistry
from checkpoints.exceptions import QuarantineStays, ReviewRequired, RowNotSealed, SealKeyMissing
from checkpoints.framework_states import message_list_without_lease, state_store
from checkpoints.framework_states.state_store import NewWrite
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.integrity import verify_and_quarantine_sessions
from checkpoints.integrity.verify_session_rows import VerificationCounts
from checkpoints.models import AuditEvent, IntegrityCheck, Message, Session, ToolCall
from checkpoints.seals.seal_keys import SealKey
from checkpoints.sessions.new_session_fields import NewSessionFields
from tests.conftest import Open
from tests.integration.checkpoints.integrity.conftest import KEY, OTHER_KEY
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, create_sealed_session, plain
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.exhaustive_mode import mark_all_but_combinations


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_unsealed_rows_are_sealed_once(open_checkpointer: Open, settings: Any) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    create_sealed_session(open_checkpointer, "s")
    settings.HARNESS_SEAL_KEY = KEY
    with pytest.raises(RowNotSealed):
        open_checkpointer().load_latest("s")
    unsealed = sum(plain(model).filter(row_seal=None).count() for model in SEALED_TABLES)

    assert run("seal_sessions")[0] == f"{unsealed} rows of 2 sessions were sealed.\n"
    assert not any(plain(model).filter(row_seal=None) for model in SEALED_TABLES)
    assert open_checkpointer().load_latest("s")
    assert json.loads(run("verify_integrity", "--all", "--json")[0])["problems"] == []
    assert AuditEvent.objects.filter(kind="session_sealed").count() == 2
    assert run("seal_sessions")[0].startswith("0 rows")


@pytest.mark.parametrize("is_version", [False, True], ids=["writes", "version"])
def test_process_without_the_key_writes_nothing_to_a_session_sealed_since_its_last_write(
    open_checkpointer: Open, settings: Any, is_version: bool
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    store, description = open_checkpointer().store, NewSessionFields("Refund order 17")

    def append(message: dict[str, Any]) -> None:
        content = VersionContent(None, added=[message])
        message_list_without_lease.write_next_version_built_by_callback(
            store, "s", description, lambda *_: content, is_repeatable=True
        )

    for message in conversation("ab"):
        append(message)
    settings.HARNESS_SEAL_KEY = KEY
    run("seal_sessions")
    settings.HARNESS_SEAL_KEY = ""
    writes = [NewWrite(0, "a", ("json", b"1"))]
    write = (
        partial(append, *conversation("c"))
        if is_version
        else partial(state_store.save_task_writes_and_interrupt_calls, store, "s", "", "1", "task", "", writes)
    )
    with pytest.raises(SealKeyMissing):
        write()
    settings.HARNESS_SEAL_KEY = KEY
    assert json.loads(run("verify_integrity", "--all", "--json")[0])["problems"] == []


def test_session_that_does_not_match_is_named_and_the_others_are_sealed(open_checkpointer: Open, settings: Any) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    names = ["s", "t", "u"] if connection.vendor == "sqlite" else ["s", "u"]  # PostgreSQL has typed columns
    for name in names:
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    bodies = dict(plain(Message).values_list("pk", "body"))
    plain(Message).filter(session__session_id="s", position=1).update(body='{"forged":true}')
    with connection.cursor() as cursor:
        if "t" in names:
            cursor.execute("UPDATE checkpoints_session SET latest_version = 'one' WHERE session_id = 't'")
    settings.HARNESS_SEAL_KEY = KEY
    refused = len(names) - 1
    out, err = StringIO(), StringIO()

    with pytest.raises(CommandError, match=f"{refused} of {len(names)} sessions were not sealed"):
        call_command("seal_sessions", stdout=out, stderr=err)
    assert "rows of 1 sessions were sealed" in out.getvalue()
    assert "\ns: " in f"\n{err.getvalue()}"
    assert "message 1" in err.getvalue()
    assert ("\nt: " in err.getvalue()) == ("latest_version" in err.getvalue()) == ("t" in names)
    assert set(plain(Message).filter(row_seal=None).values_list("session__session_id", flat=True)) == {*names} - {"u"}
    assert open_checkpointer().load_latest("u")
    for pk, body in bodies.items():
        plain(Message).filter(pk=pk).update(body=body)
    plain(Session).filter(session_id="t").update(latest_version=1)
    assert f"of {len(names)} sessions" in run("seal_sessions")[0]
    assert not plain(Message).filter(row_seal=None)


def test_verification_reports_every_altered_row(open_checkpointer: Open) -> None:
    for name in ("s", "t", "u"):
        cp = start_session(open_checkpointer(), name)
        cp.save_checkpoint(name, conversation("abc"), {}, 0)
        cp.record_tool_call_issued(name, "call_1", "pay", {"order": 17}, f"key {name}")
    plain(ToolCall).filter(session__session_id="s").update(tool="refund")
    plain(Message).filter(session__session_id="t", position=1).delete()
    out, err = StringIO(), StringIO()

    with pytest.raises(CommandError):
        call_command("verify_integrity", "--all", "--json", stdout=out, stderr=err)
    result = json.loads(out.getvalue())
    assert [(problem["session"], problem["table"]) for problem in result["problems"]] == [
        ("s", "checkpoints_toolcall"),
        ("t", "checkpoints_message"),
    ]
    assert "a message before it is missing" in err.getvalue()
    assert run("verify_integrity", "--session", "u")[0].endswith("0 not as they were written.\n")
    check = IntegrityCheck.objects.get()
    assert (check.finished, check.sessions, check.problems) == (True, 3, 2)
    assert check.rows == result["rows"]
    assert [entry["session"] for entry in json.loads(check.named)] == ["s", "t"]
    assert set(Session.objects.exclude(quarantined_at=None).values_list("session_id", flat=True)) == {"s", "t"}


def test_interrupted_verification_continues_where_it_stopped(
    open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s", "t", "u"):
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    monkeypatch.setattr(verify_and_quarantine_sessions, "BATCH_SIZE", 2)
    workspace = Session.objects.get(session_id="s").workspace_id
    interrupted = verify_and_quarantine_sessions.iterate_checked_sessions_of_workspace_and_quarantine_altered(
        "default", workspace, VerificationCounts()
    )
    checked = [next(interrupted) for _ in range(2)]
    assert [(each.session_id, each.is_progress_stored) for each in checked] == [("s", False), ("t", True)]
    del interrupted
    check = IntegrityCheck.objects.get()
    assert (check.finished, check.sessions) == (False, 2)

    result = json.loads(run("verify_integrity", "--all", "--resume", "--json")[0])
    assert (result["sessions"], result["problems"]) == (1, [])
    whole = IntegrityCheck.objects.get()
    assert (whole.finished, whole.sessions) == (True, 3)
    assert json.loads(run("verify_integrity", "--all", "--resume", "--json")[0])["rows"] == whole.rows


def test_verification_whose_stored_result_was_altered_begins_again(open_checkpointer: Open) -> None:
    for name in ("s", "t"):
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    run("verify_integrity", "--all")
    reached = IntegrityCheck.objects.get().reached
    for forged in (
        {"finished": False},
        {"finished": False, "row_seal": None},
        {"finished": True, "reached": reached + 9},
    ):
        plain(IntegrityCheck).update(**forged)
        result = json.loads(run("verify_integrity", "--all", "--resume", "--json")[0])
        assert (result["sessions"], result["problems"]) == (2, [])
        assert IntegrityCheck.objects.get().sessions == 2


def test_verification_requires_a_key_and_a_session(settings: Any, workspace: object) -> None:
    with pytest.raises(CommandError, match="There is no session 'unknown'"):
        run("verify_integrity", "--session", "unknown")
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    with pytest.raises(CommandError, match="HARNESS_SEAL_KEY"):
        run("seal_sessions")


@pytest.mark.parametrize(("key", "column"), mark_all_but_combinations(["", KEY], ["args", "result"]))
def test_text_of_an_unsealed_call_is_compared_with_its_digest(
    open_checkpointer: Open, settings: Any, column: str, key: str
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", False
    for name in ("s", "other"):
        create_sealed_session(open_checkpointer, name)
    assert "HARNESS_SEAL_KEY is empty: texts are compared with their digests" in run("verify_integrity", "--all")[1]
    call = plain(ToolCall).filter(session__session_id="s", status="completed").earliest("pk")
    plain(ToolCall).filter(pk=call.pk).update(**{column: '{"order":18}'})
    settings.HARNESS_SEAL_KEY = key
    out, err = StringIO(), StringIO()

    with pytest.raises(CommandError, match="did not write"):
        call_command("verify_integrity", "--all", "--json", stdout=out, stderr=err)
    (problem,) = json.loads(out.getvalue())["problems"]
    assert (problem["session"], problem["table"]) == ("s", "checkpoints_toolcall")
    assert "does not match its digest" in problem["why"] or "do not match their digest" in problem["why"]
    assert list(plain(Session).exclude(quarantined_at=None).values_list("session_id", flat=True)) == ["s"]
    cp = open_checkpointer()
    with pytest.raises(QuarantineStays):
        cp.release_quarantine("s", actor="ann", reason="It looks better.", accept_altered=True)
    plain(ToolCall).filter(pk=call.pk).update(**{column: getattr(call, column)})
    assert cp.release_quarantine("s", actor="ann", reason="Restored.") == 0


def test_message_of_the_error_of_an_unsealed_call_is_compared_with_its_digest(
    open_checkpointer: Open, settings: Any
) -> None:
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    cp = start_session(open_checkpointer())
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool
    def pay(order: int) -> str:
        raise TimeoutError("no answer") if order else ValueError("there is no such order")

    registry.dispatch("pay", {"order": 0}, "call_1")
    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {"order": 17}, "call_2")
    revision = ToolCall.objects.get(call_id="call_2").revision
    cp.confirm_landed("s", "call_2", "paid", revision=revision, actor="ann", reason="I saw it.")
    assert run("verify_integrity", "--all")[0].endswith(" 0 not as they were written.\n")
    for call in list(plain(ToolCall)):
        for forged in ("It was not paid.", ""):
            plain(ToolCall).filter(pk=call.pk).update(error_message=forged)
            with pytest.raises(CommandError, match="did not write"):
                run("verify_integrity", "--all")
        plain(ToolCall).filter(pk=call.pk).update(error_message=call.error_message)
    assert run("verify_integrity", "--all")[0].endswith(" 0 not as they were written.\n")


def test_forged_audit_entry_is_reported(open_checkpointer: Open) -> None:
    start_session(open_checkpointer())
    event = AuditEvent.objects.first()
    assert event
    plain(AuditEvent).bulk_create(
        [AuditEvent(workspace_id=event.workspace_id, kind="decided", actor_kind="person", actor="mallory")]
    )
    err = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_audit", stdout=StringIO(), stderr=err)
    assert "was not written by this library: it has no seal" in err.getvalue()


def test_sessions_by_a_removed_key_are_counted_and_the_key_is_named_once(
    open_checkpointer: Open, settings: Any
) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in names[:4]:
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    settings.HARNESS_SEAL_KEY = OTHER_KEY
    start_session(open_checkpointer(), names[4]).save_checkpoint(names[4], conversation("abc"), {}, 0)
    plain(Message).filter(session__session_id=names[4], position=1).update(role="system")
    key_id = SealKey(bytes.fromhex(KEY)).id.hex()
    out, err = StringIO(), StringIO()

    with pytest.raises(CommandError, match="did not write"):
        call_command("verify_integrity", "--all", "--json", stdout=out, stderr=err)
    result = json.loads(out.getvalue())
    assert (result["sessions"], result["unknown_keys"]) == (5, {key_id: 4})
    assert [(problem["session"], problem["table"]) for problem in result["problems"]] == [
        ("s0", "checkpoints_session"),
        ("s4", "checkpoints_message"),
    ]
    assert f"s0: row {result['problems'][0]['row']} of checkpoints_session: it is sealed with the key" in err.getvalue()
    assert f"4 sessions have rows by the key {key_id}" in err.getvalue()
    assert "complete HARNESS_SEAL_KEY" in err.getvalue()
    check = IntegrityCheck.objects.get()
    assert (check.finished, check.sessions, check.problems) == (True, 5, 5)
    assert [entry["session"] for entry in json.loads(check.named)] == ["s0", "s4"]
    assert list(Session.objects.exclude(quarantined_at=None).values_list("session_id", flat=True)) == ["s4"]

    with pytest.raises(CommandError, match="by keys that are not configured: complete HARNESS_SEAL_KEY"):
        run("verify_integrity", "--session", "s1")
    settings.HARNESS_SEAL_KEY = f"{OTHER_KEY} {KEY}"
    assert run("verify_integrity", "--session", "s1")[0].endswith(" 0 not as they were written.\n")


@pytest.mark.parametrize("setting", ["none", "unreadable file"])
def test_verification_is_refused_at_once_without_a_usable_key(
    open_checkpointer: Open, settings: Any, monkeypatch: pytest.MonkeyPatch, setting: str, tmp_path: Path
) -> None:
    start_session(open_checkpointer(), "s")
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    if setting == "none":
        settings.HARNESS_DECISION_VERIFY_KEYS = "51" * 32
        expected = "Seals cannot be verified: the rows are sealed, and HARNESS_SEAL_KEY is empty"
    else:
        monkeypatch.setenv("HARNESS_SEAL_KEY_FILE", str(tmp_path / "gone"))
        settings.HARNESS_SEAL_KEY = None
        expected = r"the file of HARNESS_SEAL_KEY_FILE, /.*/gone, cannot be read \(No such file or directory\)"
    with pytest.raises(CommandError, match=expected):
        run("verify_integrity", "--all")
    settings.HARNESS_SEAL_KEY = KEY
    assert not IntegrityCheck.objects.filter(finished=True).exists()
