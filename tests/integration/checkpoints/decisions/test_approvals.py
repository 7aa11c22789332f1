"""Calls that require approval before they run for the first time."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from checkpoints import Actor, SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.decisions.vote_and_electorate_types import Vote
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import (
    AlreadyDecided,
    ApprovalRequired,
    CallConflict,
    DecisionExpired,
    EditorMayNotApprove,
    InvalidInput,
    NotPermitted,
    NotUndecided,
    ReviewRequired,
    SecondPersonRequired,
    SessionFinished,
    StaleRevision,
)
from checkpoints.models import Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session
from tests.support.processes import append_line

MakeRegistry = Callable[..., ToolRegistry]


@pytest.fixture
def make_registry(effects: Path) -> MakeRegistry:
    def desk(cp: SyncCheckpointer, **options: Any) -> ToolRegistry:
        registry = ToolRegistry(checkpointer=cp, session_id="s")

        @registry.tool(requires_approval=True, **options)
        def pay(order: int, amount: int = 40) -> str:
            append_line(str(effects), f"pay {order} {amount}")
            return f"paid {amount}"

        return registry

    return desk


def request_approval(registry: ToolRegistry, **args: Any) -> dict[str, Any]:
    """Dispatch the call, which requires approval; return it as the error describes it."""
    with pytest.raises(ApprovalRequired) as caught:
        registry.dispatch("pay", {"order": 17} | args, "call_1")
    (call,) = caught.value.calls
    return call


def decide(cp: SyncCheckpointer, kind: str, name: str = "alice", revision: int = 1, **more: Any) -> None:
    getattr(cp, kind)("s", "call_1", actor=name, reason="I looked.", revision=revision, **more)


def call_again(registry: ToolRegistry, **args: Any) -> ToolResult:
    return registry.dispatch("pay", {"order": 17} | args, "call_1")


def test_call_without_approval_does_not_run(cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path) -> None:
    registry = make_registry(start_session(cp))
    first = request_approval(registry)

    assert (first["status"], first["args_json"]) == ("awaiting_approval", '{"order":17}')
    assert request_approval(registry) == first
    assert (effects.read_text(), call_statuses()) == ("", [("call_1", 1, "awaiting_approval")])
    assert [call["call_id"] for call in cp.pending_tool_calls("s")] == ["call_1"]


def test_approved_call_runs_once(cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path) -> None:
    registry = make_registry(start_session(cp))
    request_approval(registry)
    decide(cp, "approve_call")

    assert (call_again(registry).content, call_again(registry).replayed) == ("paid 40", True)
    assert effects.read_text() == "pay 17 40\n"


def test_approval_request_outlives_its_run(open_checkpointer: Open, make_registry: MakeRegistry, effects: Path) -> None:
    request_approval(make_registry(start_session(open_checkpointer())))
    taker = lose_run(open_checkpointer)
    assert call_statuses() == [("call_1", 1, "awaiting_approval")]
    decide(taker, "approve_call")

    assert call_again(make_registry(taker)).content == "paid 40"
    assert effects.read_text() == "pay 17 40\n"


def test_resume_waits_for_the_approval(open_checkpointer: Open, make_registry: MakeRegistry) -> None:
    with open_checkpointer() as cp:
        request_approval(make_registry(start_session(cp)))

    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s")


def test_approval_applies_to_its_arguments_only(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp), idempotency=lambda args: str(args["order"]))
    request_approval(registry)
    decide(cp, "approve_call")

    with pytest.raises(CallConflict):
        registry.dispatch("pay", {"order": 17, "amount": 4000}, "call_2")
    assert (effects.read_text(), call_statuses()) == ("", [("call_1", 1, "approved")])


def test_rejected_call_is_an_error_with_the_message(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp))
    request_approval(registry)
    cp.reject_call("s", "call_1", "Ask the customer first.", actor="alice", revision=1)

    answer = ToolResult("call_1", "Ask the customer first.", is_error=True, replayed=True)
    assert [call_again(registry), call_again(registry)] == [answer, answer]
    assert (effects.read_text(), call_statuses()) == ("", [("call_1", 1, "rejected")])


def test_person_may_respond_instead_of_the_tool(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp))
    request_approval(registry)
    cp.respond_call("s", "call_1", "I paid it by hand.", actor="alice", revision=1)

    assert call_again(registry) == ToolResult("call_1", "I paid it by hand.", replayed=True)
    assert (effects.read_text(), call_statuses()) == ("", [("call_1", 1, "completed")])


def test_edited_call_requires_another_approval(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp))
    request_approval(registry)
    cp.edit_call("s", "call_1", {"order": 17, "amount": 4}, actor="alice", reason="Too much.", revision=1)

    assert request_approval(registry)["args_json"] == '{"amount":4,"order":17}'
    with pytest.raises(StaleRevision):
        decide(cp, "approve_call", revision=1)
    decide(cp, "approve_call", name="bob", revision=2)
    assert call_again(registry).content == "paid 4"
    assert effects.read_text() == "pay 17 4\n"
    edited = Decision.objects.get(kind="edit")
    assert json.loads(edited.evidence or "")["args_before"] == '{"order":17}'


@pytest.mark.parametrize("args", [{"order": "17"}, {}, {"order": 17, "colour": 1}], ids=repr)
def test_edit_to_invalid_arguments_runs_nothing(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path, args: dict[str, Any]
) -> None:
    registry = make_registry(start_session(cp))
    request_approval(registry)
    cp.edit_call("s", "call_1", args, actor="alice", reason="Other order.", revision=1)
    decide(cp, "approve_call", revision=2)

    assert (call_again(registry).is_error, effects.read_text()) == (True, "")


def test_interrupted_approved_call_needs_a_decision(open_checkpointer: Open, make_registry: MakeRegistry) -> None:
    cp = start_session(open_checkpointer())
    request_approval(make_registry(cp))
    decide(cp, "approve_call")
    ToolCall.objects.update(status="issued", revision=F("revision") + 1)
    lose_run(open_checkpointer).close()

    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s")
    assert call_statuses() == [("call_1", 1, "interrupted")]


@pytest.mark.parametrize("kind", ["approve_call", "reject_call", "respond_call", "edit_call"])
def test_decisions_of_an_auditor_and_late_decisions_are_refused(
    cp: SyncCheckpointer, make_registry: MakeRegistry, kind: str
) -> None:
    request_approval(make_registry(start_session(cp)))
    extra: dict[str, Any] = {"reject_call": {"message": "no"}, "respond_call": {"message": "yes"}}.get(kind, {})
    extra = {"new_args": {"order": 1}} if kind == "edit_call" else extra

    with pytest.raises(NotPermitted):
        getattr(cp, kind)(
            "s", "call_1", actor=Actor(ActorKind.PERSON, "eve", Role.AUDITOR), reason="x", revision=1, **extra
        )
    cp.reject_call("s", "call_1", "No.", actor="bob", revision=1)
    with pytest.raises(AlreadyDecided) as caught:
        decide(cp, kind, **extra)
    assert (caught.value.by, call_statuses()) == ("bob", [("call_1", 1, "rejected")])


def test_decisions_for_another_status_are_refused(open_checkpointer: Open, make_registry: MakeRegistry) -> None:
    cp = start_session(open_checkpointer())
    request_approval(make_registry(cp))
    with pytest.raises(NotUndecided):
        decide(cp, "confirm_landed", result_text="paid")
    with pytest.raises(NotUndecided):
        decide(cp, "approve_rerun")
    cp.reject_call("s", "call_1", "No.", actor="bob", revision=1)

    taker, call = interrupt_call(cp, open_checkpointer, call_id="call_2")
    with pytest.raises(NotUndecided):
        taker.approve_call("s", "call_2", actor="alice", reason="x", revision=call["revision"])


# two people, and deadlines


def test_two_approvals_are_required(cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path) -> None:
    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    decide(cp, "approve_call", "alice", 1)
    request_approval(registry)
    with pytest.raises(SecondPersonRequired):
        decide(cp, "approve_call", "alice", 2)
    decide(cp, "approve_call", "bob", 2)

    assert (call_again(registry).content, effects.read_text()) == ("paid 40", "pay 17 40\n")
    assert list(Decision.objects.order_by("pk").values_list("actor", "final")) == [("alice", False), ("bob", True)]


def test_vote_counts_although_others_have_voted_the_same_meanwhile(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp), approvals=3)
    request_approval(registry)
    for name in ("alice", "bob", "carol"):
        decide(cp, "approve_call", name, 1)  # all of them have seen the call before anybody voted
    assert (call_again(registry).content, effects.read_text()) == ("paid 40", "pay 17 40\n")
    recorded = Decision.objects.order_by("pk").values_list("actor", "final", "revision")
    assert list(recorded) == [("alice", False, 1), ("bob", False, 2), ("carol", True, 3)]
    with pytest.raises(AlreadyDecided, match="carol"):
        decide(cp, "approve_call", "dora", 1)


@pytest.mark.parametrize(
    ("kind", "more", "then"),
    [
        pytest.param("respond_call", {"message": "Paid by hand."}, "approve_call", id="another kind"),
        pytest.param("approve_call", {}, "respond_call", id="another kind than an approval"),
        pytest.param("approve_call", {}, "reject_call", id="one person's own"),
        pytest.param("respond_call", {"message": "Not due."}, "respond_call", id="another text"),
        pytest.param("edit_call", {"new_args": {"order": 17, "amount": 4}}, "approve_call", id="edit"),
        pytest.param("withdraw_decision", {}, "approve_call", id="withdrawn vote"),
    ],
)
def test_vote_is_refused_if_more_than_equal_votes_were_recorded_meanwhile(
    cp: SyncCheckpointer, make_registry: MakeRegistry, kind: str, more: dict[str, Any], then: str
) -> None:
    request_approval(make_registry(start_session(cp), approvals=3))
    decide(cp, "approve_call", "alice", 1)
    given = {"message": "It is paid already."} if then in {"respond_call", "reject_call"} else {}
    decide(cp, kind, "alice" if kind == "withdraw_decision" else "bob", 2, **more)
    for seen in (1, 2):
        with pytest.raises(StaleRevision):
            decide(cp, then, "carol", seen, **given)
    assert Decision.objects.count() == 2


def test_new_vote_replaces_the_earlier_one_of_its_person(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    decide(cp, "approve_call", "alice", 1)
    decide(cp, "respond_call", "bob", 2, message="Paid by hand.")
    decide(cp, "respond_call", "alice", 3, message="It is paid already.")
    decide(cp, "approve_call", "bob", 4)
    assert (request_approval(registry)["status"], effects.exists() and effects.read_text()) == ("awaiting_approval", "")
    decide(cp, "approve_call", "alice", 5)
    assert call_again(registry).content == "paid 40"


def test_vote_for_other_arguments_does_not_count(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    decide(cp, "approve_call", "alice", 1)
    cp.edit_call("s", "call_1", {"order": 17, "amount": 4}, actor="bob", reason="Too much.", revision=2)
    decide(cp, "approve_call", "carol", 3)

    assert (request_approval(registry)["status"], effects.read_text()) == ("awaiting_approval", "")
    decide(cp, "approve_call", "alice", 4)
    assert call_again(registry).content == "paid 4"


def test_editor_of_the_arguments_cannot_approve_them(
    cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path
) -> None:
    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    cp.edit_call("s", "call_1", {"order": 17, "amount": 4}, actor="bob", reason="Too much.", revision=1)
    with pytest.raises(EditorMayNotApprove, match="bob has changed the arguments"):
        decide(cp, "approve_call", "bob", 2)
    decide(cp, "approve_call", "alice", 2)
    with pytest.raises(EditorMayNotApprove):
        decide(cp, "approve_call", "bob", 3)
    assert (request_approval(registry)["status"], effects.read_text()) == ("awaiting_approval", "")
    decide(cp, "approve_call", "carol", 3)
    assert call_again(registry).content == "paid 4"


def test_editor_may_approve_when_one_approval_is_enough(cp: SyncCheckpointer, make_registry: MakeRegistry) -> None:
    registry = make_registry(start_session(cp))
    request_approval(registry)
    cp.edit_call("s", "call_1", {"order": 17, "amount": 4}, actor="bob", reason="Too much.", revision=1)
    decide(cp, "approve_call", "bob", 2)
    assert call_again(registry).content == "paid 4"


def test_token_and_its_owner_count_as_one_person(cp: SyncCheckpointer, make_registry: MakeRegistry) -> None:
    def votes(decisions: Sequence[Decision]) -> dict[int, Vote]:
        return {one.pk: Vote("alice" if one.actor_kind == "token" else one.actor) for one in decisions}

    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    token = Actor(ActorKind.TOKEN, "token nightly", Role.APPROVER, owner="alice", electorate=votes)
    cp.approve_call("s", "call_1", actor=token, reason="Fits.", revision=1)
    alice, bob = (Actor(ActorKind.PERSON, name, Role.APPROVER, electorate=votes) for name in ("alice", "bob"))
    with pytest.raises(SecondPersonRequired):
        cp.approve_call("s", "call_1", actor=alice, reason="Fits.", revision=2)
    cp.approve_call("s", "call_1", actor=bob, reason="Fits.", revision=2)
    assert ToolCall.objects.get().status == "approved"


def test_token_of_a_voter_cannot_vote_again(cp: SyncCheckpointer, make_registry: MakeRegistry) -> None:
    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    decide(cp, "approve_call", "alice", 1)
    token = Actor(ActorKind.TOKEN, "token nightly", Role.APPROVER, owner="alice")
    with pytest.raises(SecondPersonRequired):
        cp.approve_call("s", "call_1", actor=token, reason="Fits.", revision=2)
    assert ToolCall.objects.get().status == "awaiting_approval"


def test_vote_counts_while_its_voter_may_decide(cp: SyncCheckpointer, make_registry: MakeRegistry) -> None:
    gone = {"alice"}

    def votes(decisions: Sequence[Decision]) -> dict[int, Vote]:
        return {one.pk: Vote(one.actor, counts=one.actor not in gone) for one in decisions}

    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    for revision, name in enumerate(("alice", "bob"), 1):
        actor = Actor(ActorKind.PERSON, name, Role.APPROVER, electorate=votes)
        cp.approve_call("s", "call_1", actor=actor, reason="Fits.", revision=revision)
    assert ToolCall.objects.get().status == "awaiting_approval"
    gone.clear()
    carol = Actor(ActorKind.PERSON, "carol", Role.APPROVER, electorate=votes)
    cp.approve_call("s", "call_1", actor=carol, reason="Fits.", revision=3)
    assert ToolCall.objects.get().status == "approved"


def test_two_people_must_agree_on_the_outcome(open_checkpointer: Open, make_registry: MakeRegistry) -> None:
    cp = start_session(open_checkpointer())
    request_approval(make_registry(cp, approvals=2))
    ToolCall.objects.update(status="issued")
    taker = lose_run(open_checkpointer)
    decide(taker, "confirm_landed", "alice", 2, result_text="paid")
    assert (call_statuses(), Session.objects.get().status) == ([("call_1", 1, "interrupted")], "needs_review")
    decide(taker, "mark_failed", "bob", 3)
    assert call_statuses() == [("call_1", 1, "interrupted")]
    decide(taker, "confirm_landed", "carol", 4, result_text="paid")

    assert (call_statuses(), Session.objects.get().status) == ([("call_1", 1, "completed")], "ready")


def test_two_people_must_agree_on_the_result(open_checkpointer: Open, make_registry: MakeRegistry) -> None:
    cp = start_session(open_checkpointer())
    request_approval(make_registry(cp, approvals=2))
    cp.respond_call("s", "call_1", "Paid by hand.", actor="alice", reason="I did.", revision=1)
    cp.respond_call("s", "call_1", "Do not pay.", actor="bob", reason="He did not.", revision=2)
    with pytest.raises(SecondPersonRequired):
        cp.respond_call("s", "call_1", "Do not pay.", actor="bob", reason="Really.", revision=3)
    assert call_statuses() == [("call_1", 1, "awaiting_approval")]
    cp.respond_call("s", "call_1", "Paid by hand.", actor="bob", reason="So he did.", revision=3)

    assert ToolCall.objects.get().result_text == "Paid by hand."


def test_one_rejection_is_enough(cp: SyncCheckpointer, make_registry: MakeRegistry) -> None:
    registry = make_registry(start_session(cp), approvals=2)
    request_approval(registry)
    cp.reject_call("s", "call_1", "No.", actor="alice", revision=1)

    assert call_again(registry).is_error is True


@pytest.mark.parametrize("kind", ["approve_call", "edit_call", "respond_call"])
def test_approval_in_a_finished_session_is_refused(
    cp: SyncCheckpointer, make_registry: MakeRegistry, kind: str
) -> None:
    request_approval(make_registry(start_session(cp)))
    cp.finish_session("s", "cancelled")
    given: dict[str, list[Any]] = {"edit_call": [{"order": 1, "amount": 1}], "respond_call": ["No."]}

    with pytest.raises(SessionFinished):
        getattr(cp, kind)("s", "call_1", *given.get(kind, []), actor="alice", reason="x", revision=1)
    cp.reject_call("s", "call_1", "Too late.", actor="alice", revision=1)
    assert call_statuses() == [("call_1", 1, "rejected")]


def test_passed_deadline_does_not_approve(cp: SyncCheckpointer, make_registry: MakeRegistry, effects: Path) -> None:
    registry = make_registry(start_session(cp), decide_within=60)
    request_approval(registry)
    ToolCall.objects.update(issued_at=F("issued_at") - timedelta(minutes=2))

    with pytest.raises(DecisionExpired):
        decide(cp, "approve_call")
    assert (request_approval(registry)["status"], effects.read_text()) == ("awaiting_approval", "")
    cp.approve_call("s", "call_1", actor=Actor(ActorKind.PERSON, "root", Role.ADMIN), reason="Better late.", revision=1)
    assert call_again(registry).content == "paid 40"


@pytest.mark.parametrize("options", [{"approvals": 0}, {"approvals": -1}, {"decide_within": -1}], ids=repr)
def test_invalid_approval_rules_are_refused(
    cp: SyncCheckpointer, make_registry: MakeRegistry, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        make_registry(start_session(cp), **options)
