"""Refused decisions: each raises a specific error and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import Actor, SyncCheckpointer
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import (
    AlreadyDecided,
    CallNotFound,
    IntegrityError,
    InvalidIdentifier,
    InvalidInput,
    NotPermitted,
    NotRepresentable,
    NotUndecided,
    ReasonRequired,
    SessionNotFound,
    StaleRevision,
)
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, start_session
from tests.support.exhaustive_mode import mark_all_but_combinations

KINDS = ["confirm_landed", "mark_failed", "approve_rerun"]
Decide = Callable[..., None]


def decide(cp: SyncCheckpointer, kind: str, **changed: Any) -> None:
    given: dict[str, Any] = {
        "session_id": "s",
        "call_id": "call_1",
        "actor": "alice",
        "reason": "I looked.",
        "revision": 2,
    }
    if kind == "confirm_landed":
        given["result_text"] = "receipt 5"
    getattr(cp, kind)(**(given | changed))


def everything() -> list[Any]:
    """Return all rows that a refused decision must not change."""
    models = (Session, ToolCall, Decision, AuditEvent)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.fixture
def cp(open_checkpointer: Open) -> SyncCheckpointer:
    return interrupt_call(start_session(open_checkpointer()), open_checkpointer)[0]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        pytest.param({"actor": Actor(ActorKind.PERSON, "bob", Role.AUDITOR)}, NotPermitted, id="auditor"),
        pytest.param({"actor": Actor(ActorKind.PERSON, "bob")}, NotPermitted, id="person without a role"),
        pytest.param({"actor": Actor(ActorKind.TOKEN, "t", Role.AUDITOR)}, NotPermitted, id="reading token"),
        pytest.param({"actor": Actor(ActorKind.TOKEN, "t")}, NotPermitted, id="token without a role"),
        pytest.param({"actor": ""}, InvalidInput, id="no name"),
        pytest.param({"actor": None}, InvalidInput, id="nobody"),
        pytest.param({"reason": ""}, ReasonRequired, id="no reason"),
        pytest.param({"reason": " \n\0 "}, ReasonRequired, id="blank reason"),
        pytest.param({"reason": None}, ReasonRequired, id="None as reason"),
        pytest.param({"revision": 0}, StaleRevision, id="stale revision"),
        pytest.param({"revision": 3}, StaleRevision, id="revision of the future"),
        pytest.param({"revision": "2"}, InvalidInput, id="text as revision"),
        pytest.param({"revision": None}, InvalidInput, id="no revision"),
        pytest.param({"revision": True}, InvalidInput, id="bool as revision"),
        pytest.param({"session_id": "unknown"}, SessionNotFound, id="unknown session"),
        pytest.param({"session_id": ""}, InvalidIdentifier, id="no session"),
        pytest.param({"call_id": "unknown"}, CallNotFound, id="unknown call"),
        pytest.param({"step": 5}, CallNotFound, id="unknown step"),
        pytest.param({"attempt": 2}, CallNotFound, id="unknown attempt"),
        pytest.param({"evidence": {"a": {1}}}, NotRepresentable, id="set as evidence"),
        pytest.param({"evidence": 5}, NotRepresentable, id="number as evidence"),
    ],
)
def test_invalid_decision_of_each_kind_is_refused(
    cp: SyncCheckpointer, changed: dict[str, Any], error: type[Exception]
) -> None:
    before = everything()

    for kind in KINDS:
        with pytest.raises(error):
            decide(cp, kind, **changed)
        assert everything() == before, kind


def test_stale_revision_error_names_both_revisions(cp: SyncCheckpointer) -> None:
    with pytest.raises(StaleRevision) as caught:
        decide(cp, "mark_failed", revision=0)
    assert (caught.value.given, caught.value.current) == (0, 2)


@pytest.mark.parametrize("result", [None, 5, {"paid": True}], ids=repr)
def test_result_that_is_not_a_string_is_refused(cp: SyncCheckpointer, result: Any) -> None:
    before = everything()

    with pytest.raises(InvalidInput):
        decide(cp, "confirm_landed", result_text=result)
    assert everything() == before


@pytest.mark.parametrize(("first", "second", "revision"), mark_all_but_combinations(KINDS, KINDS, [1, 2], together=2))
def test_second_decision_names_the_first(cp: SyncCheckpointer, first: str, second: str, revision: int) -> None:
    decide(cp, first)
    made, before = Decision.objects.get(), everything()

    with pytest.raises(AlreadyDecided) as caught:
        decide(cp, second, actor="bob", revision=revision)
    assert (caught.value.by, caught.value.at, caught.value.kind) == ("alice", made.created_at, made.get_kind_display())
    assert everything() == before


@pytest.mark.parametrize("kind", KINDS)
def test_running_call_cannot_be_decided(open_checkpointer: Open, kind: str) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    before = everything()

    with pytest.raises(NotUndecided) as caught:
        decide(cp, kind, revision=1)
    assert (caught.value.status, everything()) == ("issued", before)


@pytest.mark.parametrize("success", [True, False])
def test_settled_call_cannot_be_decided(open_checkpointer: Open, success: bool) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    cp.record_tool_call_result("s", "call_1", "done", success)
    before = everything()

    with pytest.raises(NotUndecided):
        decide(cp, "mark_failed")
    assert everything() == before


def test_decision_on_an_old_attempt_does_not_change_the_new_one(cp: SyncCheckpointer) -> None:
    decide(cp, "approve_rerun")
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key of call_1")

    with pytest.raises(AlreadyDecided):
        decide(cp, "mark_failed", attempt=1)
    with pytest.raises(NotUndecided):
        decide(cp, "mark_failed", attempt=2, revision=1)
    assert call_statuses() == [("call_1", 1, "superseded"), ("call_1", 2, "issued")]


def test_decision_of_a_hook_requires_no_reason_and_no_role(cp: SyncCheckpointer) -> None:
    hook = Actor(ActorKind.HOOK, "verify hook of pay")
    decide(cp, "mark_failed", actor=hook, reason="")

    assert call_statuses() == [("call_1", 1, "failed")]


@pytest.mark.parametrize("kind", KINDS)
def test_call_with_altered_arguments_is_refused(cp: SyncCheckpointer, kind: str) -> None:
    ToolCall.objects.update(args='{"order":18}')
    before = [Decision.objects.count(), call_statuses()]
    with pytest.raises(IntegrityError, match="its arguments do not match their digest"):
        decide(cp, kind)
    assert [Decision.objects.count(), call_statuses()] == before
    assert Session.objects.get().quarantined_at is not None
