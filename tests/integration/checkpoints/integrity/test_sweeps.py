"""Work on many sessions skips an altered one, puts it under quarantine, and goes on with the others."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from checkpoints.db import keyset_pagination
from checkpoints.exceptions import SealKeyMissing
from checkpoints.integrity import quarantine
from checkpoints.models import Checkpoint, Join, PeerCall, Session, ToolCall
from checkpoints.peers import Notice, Swept
from tests.conftest import Open
from tests.integration.checkpoints.integrity.conftest import KEY, OTHER_KEY
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_witness import remember_state
from tests.integration.checkpoints.peers.paused_agents import expire_deadlines, join, lose_run, pause
from tests.integration.checkpoints.session_setups import conversation, start_session


def alter(model: type[models.Model], session_id: str = "a") -> None:
    """Alter a row of a session without the library."""
    columns: dict[type[models.Model], dict[str, Any]] = {
        Session: {"result": '"x"'},
        PeerCall: {"request": '"x"'},
        Join: {"total": 7},
        ToolCall: {"args": "{}"},
        Checkpoint: {"plan": '{"n":9}'},
    }
    names = {"session_id": session_id} if model is Session else {"session__session_id": session_id}
    assert plain(model).filter(**names).update(**columns[model])


def list_quarantined() -> list[str]:
    sessions = plain(Session).filter(quarantined_at__isnull=False)
    return list(sessions.order_by("pk").values_list("session_id", flat=True))


def pause_two_sessions(open_checkpointer: Open) -> None:
    for name in "ab":
        pause(open_checkpointer(), join("j", f"call of {name}"), session_id=name)
    expire_deadlines("call of a", "call of b")


@pytest.mark.parametrize("model", [Session, PeerCall, Join], ids=lambda model: model.__name__)
def test_deadlines_of_other_sessions_pass(open_checkpointer: Open, model: type[models.Model]) -> None:
    pause_two_sessions(open_checkpointer)
    alter(model)
    cp = open_checkpointer()
    assert cp.sweep_deadlines() == Swept(("call of b",), (("b", "j"),))
    assert list_quarantined() == ["a"]
    assert cp.sweep_deadlines() == Swept()


@pytest.mark.parametrize("model", [Session, ToolCall], ids=lambda model: model.__name__)
def test_lost_runs_of_other_sessions_are_found(open_checkpointer: Open, model: type[models.Model]) -> None:
    for name in "ab":
        start_session(open_checkpointer(), name).record_tool_call_issued(name, "call_1", "pay", {"order": 1}, name)
        lose_run(name)
    alter(model)
    cp = open_checkpointer()
    assert cp.sweep_lost_runs() == ["b"]
    assert list_quarantined() == ["a"]
    assert cp.sweep_lost_runs() == []


def test_session_that_was_put_back_whole_keeps_nobody_from_the_others(open_checkpointer: Open, witness: Path) -> None:
    for name in "ab":
        pause(open_checkpointer(), join("j", f"call of {name}"), session_id=name)
    expire_deadlines("call of a", "call of b")
    third, _ = start_session(open_checkpointer(), "c"), start_session(open_checkpointer(), "d")
    for text in "ab":
        third.save_checkpoint("c", conversation(text), {}, 0)
    third.record_tool_call_issued("c", "call_1", "pay", {"order": 17}, "key")
    put_back = remember_state()
    open_checkpointer().extend_deadline("call of a", 60)
    third.save_checkpoint("c", conversation("abc"), {}, 0)
    put_back()
    lose_run("c")
    lose_run("d")
    cp = open_checkpointer()
    assert cp.sweep_deadlines().expired == ("call of b",)
    assert cp.sweep_lost_runs() == ["d"]
    assert list_quarantined() == []
    with pytest.raises(CommandError, match="do not match, of which nothing was removed: 1"):
        call_command("prune", keep_last=1, stdout=StringIO(), stderr=StringIO())
    plain(ToolCall).update(status="failed")  # nothing is left to interrupt


def test_sessions_sealed_with_an_unknown_key_do_not_keep_the_sweep_from_the_others(
    open_checkpointer: Open, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come first at each sweep, and there are more of them than it may end and than it reads at once."""
    monkeypatch.setattr(keyset_pagination, "MAX_LIMIT", 2)
    for name, key in (("a", OTHER_KEY), ("b", OTHER_KEY), ("c", OTHER_KEY), ("d", KEY), ("e", KEY)):
        settings.HARNESS_SEAL_KEY = key
        start_session(open_checkpointer(), name)
        pause(open_checkpointer(), join(f"join {name}", f"call of {name}"), session_id=f"paused {name}")
        lose_run(name)
        expire_deadlines(f"call of {name}")
    cp = open_checkpointer()
    assert [cp.sweep_lost_runs(limit=1) for _ in range(3)] == [["d"], ["e"], []]
    assert [cp.sweep_deadlines(limit=1).expired for _ in range(3)] == [("call of d",), ("call of e",), ()]
    assert list_quarantined() == []


def test_sessions_that_each_sweep_skips_are_logged_once(
    open_checkpointer: Open, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(quarantine, "_skip_logged_at", {})
    settings.HARNESS_SEAL_KEY = OTHER_KEY
    for name in "ab":
        pause(open_checkpointer(), join(f"join {name}", f"call of {name}"), session_id=f"paused {name}")
        start_session(open_checkpointer(), name)
        lose_run(name)
    expire_deadlines("call of a", "call of b")
    settings.HARNESS_SEAL_KEY = KEY
    cp = open_checkpointer()
    logged = []
    for _ in range(2):
        cp.sweep_lost_runs()
        cp.sweep_deadlines()
        logged.append([each for each in caplog.messages if "skipped" in each])
        caplog.clear()
    assert logged[0]
    assert logged[1] == []


def test_number_of_statements_of_a_sweep_does_not_grow_with_sessions_that_cannot_be_verified(
    open_checkpointer: Open, settings: Any
) -> None:
    counts = []
    for names in ("ab", "cdef"):
        settings.HARNESS_SEAL_KEY = OTHER_KEY
        for name in names:
            start_session(open_checkpointer(), name)
            lose_run(name)
        settings.HARNESS_SEAL_KEY = KEY
        cp = open_checkpointer()
        with CaptureQueriesContext(connection) as statements:
            assert cp.sweep_lost_runs() == []
        counts.append(len(statements))
    assert counts[0] == counts[1]
    assert list_quarantined() == []


def test_sweep_without_any_key_changes_nothing(open_checkpointer: Open, settings: Any) -> None:
    pause_two_sessions(open_checkpointer)
    start_session(open_checkpointer(), "c")
    lose_run("c")
    settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "", None
    cp = open_checkpointer()
    with pytest.raises(SealKeyMissing):
        cp.sweep_lost_runs()
    with pytest.raises(SealKeyMissing):
        cp.sweep_deadlines()
    settings.HARNESS_SEAL_KEY = KEY
    assert open_checkpointer().sweep_lost_runs() == ["c"]
    assert len(open_checkpointer().sweep_deadlines().expired) == 2


def test_altered_request_is_not_sent_to_another_agent(open_checkpointer: Open) -> None:
    pause_two_sessions(open_checkpointer)
    open_checkpointer().sweep_deadlines()  # the other agents are to be told
    alter(PeerCall)
    sent: list[Notice] = []
    told = open_checkpointer().tell_peers(sent.append)
    assert [notice.call_id for notice in sent] == ["call of b"]
    assert list(told.failed) == ["call of a"]
    assert "its columns do not match its seal" in told.failed["call of a"]
    assert list_quarantined() == ["a"]


def test_requests_of_a_quarantined_session_wait(open_checkpointer: Open) -> None:
    pause_two_sessions(open_checkpointer)
    open_checkpointer().sweep_deadlines()  # the other agents are to be told
    alter(Checkpoint)
    cp = open_checkpointer()
    call_command("verify_integrity", "--session", "b", stdout=StringIO())
    with pytest.raises(CommandError):
        call_command("verify_integrity", "--session", "a", stdout=StringIO(), stderr=StringIO())
    assert cp.tell_peers(lambda notice: None).told == ("call of b",)
