"""Signed decisions: an agent host can write sealed rows, but cannot forge a person's decision."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.calls import verify_calls_against_decisions
from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, Role
from checkpoints.exceptions import (
    ApprovalRequired,
    DecisionKeyUnknown,
    DecisionNotSigned,
    DecisionSignatureInvalid,
    DecisionSigningKeyMissing,
    IntegrityError,
    QuarantineStays,
    SessionQuarantined,
)
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.models import AuditEvent, Decision, Session, ToolCall, Workspace
from checkpoints.seals.decision_keys import create_key_pair
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import change, plain, rolled_back
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, start_session
from tests.support.processes import append_line

KEYS, NEW_KEYS = create_key_pair(), create_key_pair()
FORGED_TEXT = to_canonical_json("forged", "result")


@pytest.fixture(autouse=True)
def on_agent(settings: Any) -> Callable[[], None]:
    def switch() -> None:
        settings.HARNESS_DECISION_SIGNING_KEY = None
        settings.HARNESS_DECISION_VERIFY_KEYS = KEYS.verifying

    switch()
    return switch


@pytest.fixture
def on_site(settings: Any) -> Callable[[], None]:
    def switch() -> None:
        settings.HARNESS_DECISION_SIGNING_KEY = KEYS.signing

    return switch


@pytest.fixture
def decide(cp: SyncCheckpointer, on_site: Callable[[], None], on_agent: Callable[[], None]) -> Callable[..., None]:
    """Decide about `call_1` on the site."""

    def decide_(kind: str, *, actor: str = "alice", revision: int = 1, **more: Any) -> None:
        on_site()
        getattr(cp, kind)("s", "call_1", actor=actor, reason="I looked.", revision=revision, **more)
        on_agent()

    return decide_


def open_desk(cp: SyncCheckpointer, effects: Path, **options: Any) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(requires_approval=True, **options)
    def pay(order: int, amount: int = 40) -> str:
        append_line(str(effects), f"pay {order} {amount}")
        return f"paid {amount}"

    return registry


def call(desk: ToolRegistry) -> Any:
    return desk.dispatch("pay", {"order": 17}, "call_1")


def ask(cp: SyncCheckpointer, effects: Path, **options: Any) -> ToolRegistry:
    desk = open_desk(start_session(cp), effects, **options)
    with pytest.raises(ApprovalRequired):
        call(desk)
    return desk


def forge(kind: DecisionKind, status: CallStatus, *, actor_kind: ActorKind = ActorKind.PERSON, **changes: Any) -> None:
    """Write a decision and its call as an agent host could: with valid seals, ignoring all rules."""
    row = ToolCall.objects.get(call_id="call_1")
    Decision.objects.create(
        session=row.session,
        tool_call=row,
        kind=kind,
        actor_kind=actor_kind,
        actor="alice",
        reason="I looked.",
        result=changes.get("result"),
        args_digest=changes.get("args_digest", row.args_digest),
        revision=row.revision,
    )
    if "result" in changes:
        changes["result_digest"] = digests.digest_text(changes["result"])
    ToolCall.objects.filter(pk=row.pk).update(status=status, revision=row.revision + 1, **changes)


def test_forged_approval_with_correct_seals_runs_nothing(
    cp: SyncCheckpointer, open_checkpointer: Open, effects: Path, settings: Any
) -> None:
    desk = ask(cp, effects)
    forge(DecisionKind.APPROVE, CallStatus.APPROVED)

    with pytest.raises(DecisionNotSigned, match="checkpoints_decision"):
        call(desk)

    assert effects.read_text() == ""
    assert Session.objects.get().quarantined_at is not None
    with pytest.raises(SessionQuarantined):
        open_checkpointer().resume("s", takeover=True)
    with pytest.raises(QuarantineStays):
        cp.release_quarantine("s", actor=Actor(ActorKind.PERSON, "root", Role.ADMIN), reason="Go.", accept_altered=True)
    with pytest.raises(CommandError):
        call_command("verify_integrity", "--session", "s")
    settings.HARNESS_DECISION_VERIFY_KEYS = None
    plain(Session).update(quarantined_at=None)
    open_checkpointer().resume("s", takeover=True)  # nothing but the signature was missing


@pytest.mark.parametrize(
    ("kind", "status", "changes"),
    [
        (DecisionKind.REJECT, CallStatus.REJECTED, {"result": FORGED_TEXT}),
        (DecisionKind.RESPOND, CallStatus.COMPLETED, {"result": FORGED_TEXT}),
        (DecisionKind.CONFIRM_LANDED, CallStatus.COMPLETED, {"result": FORGED_TEXT}),
        (DecisionKind.MARK_FAILED, CallStatus.FAILED, {"result": FORGED_TEXT}),
        (DecisionKind.APPROVE_RERUN, CallStatus.RERUN_APPROVED, {}),
        (DecisionKind.EDIT, CallStatus.APPROVED, {"args": '{"order":99}', "args_digest": "0" * 64}),
        (DecisionKind.WITHDRAW, CallStatus.APPROVED, {}),
        (DecisionKind.DISCARD, CallStatus.DISCARDED, {}),
    ],
)
def test_forged_decisions_are_not_used(
    cp: SyncCheckpointer,
    open_checkpointer: Open,
    effects: Path,
    kind: DecisionKind,
    status: CallStatus,
    changes: dict[str, Any],
) -> None:
    ask(cp, effects)
    forge(kind, status, **changes)

    for use in (lambda: cp.preview_resume("s"), lambda: open_checkpointer().resume("s", takeover=True)):
        with pytest.raises(DecisionNotSigned):
            use()
        assert plain(Session).exclude(quarantined_at=None).update(quarantined_at=None) == 1


@pytest.mark.parametrize("status", [CallStatus.APPROVED, CallStatus.RERUN_APPROVED, CallStatus.REJECTED])
@pytest.mark.parametrize("forged_by_hook", [True, False])
def test_status_set_by_people_requires_a_signed_decision(
    cp: SyncCheckpointer, effects: Path, status: CallStatus, forged_by_hook: bool
) -> None:
    desk = ask(cp, effects)
    if forged_by_hook:
        forge(DecisionKind.PROBE_LANDED, status, actor_kind=ActorKind.HOOK)
    else:
        ToolCall.objects.update(status=status, revision=2)

    with pytest.raises(DecisionNotSigned, match="checkpoints_toolcall"):
        call(desk)
    assert effects.read_text() == ""


def test_decisions_of_the_site_are_used(
    cp: SyncCheckpointer, open_checkpointer: Open, effects: Path, decide: Callable[..., None]
) -> None:
    desk = ask(cp, effects, approvals=2)
    decide("approve_call")
    decide("withdraw_decision", revision=2)
    decide("edit_call", revision=3, new_args={"order": 17, "amount": 5})
    decide("approve_call", revision=4, actor="bob")
    decide("approve_call", revision=5, actor="carol")
    assert call(desk).content == "paid 5"
    assert call(desk).replayed

    cp.release_session("s")
    point = open_checkpointer().resume("s")
    assert point.run is not None
    people = [
        json.loads(text)["people"]
        for text in Decision.objects.order_by("pk").values_list("signed_terms", flat=True)
        if text
    ]
    assert people[-1] == ["bob", "carol"]


@pytest.mark.parametrize(
    ("kind", "more", "status"),
    [
        ("confirm_landed", {"result": "paid"}, "completed"),
        ("mark_failed", {}, "failed"),
        ("approve_rerun", {}, "rerun_approved"),
    ],
)
def test_decision_about_an_interrupted_call_is_used(
    open_checkpointer: Open,
    on_site: Callable[[], None],
    on_agent: Callable[[], None],
    kind: str,
    more: Any,
    status: str,
) -> None:
    first = start_session(open_checkpointer())
    taker, row = interrupt_call(first, open_checkpointer)
    arguments = ("s", "call_1", *more.values())
    with pytest.raises(DecisionSigningKeyMissing):
        getattr(taker, kind)(*arguments, actor="alice", reason="I looked.", revision=row["revision"])
    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "interrupted")], 0)

    on_site()
    getattr(taker, kind)(*arguments, actor="alice", reason="I looked.", revision=row["revision"])
    on_agent()

    taker.resume("s")
    assert call_statuses() == [("call_1", 1, status)]


def test_every_change_of_a_signed_field_is_refused(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None]
) -> None:
    ask(cp, effects)
    decide("approve_call", evidence="A mail.")
    session = Session.objects.get()
    verify_calls_against_decisions.verify_session_calls_against_decisions("default", session.pk)
    columns = {
        Decision: [*(set(Decision.sealed_fields) - {"id", "session", "tool_call"}), "signed_terms", "signature"],
        ToolCall: [
            *("call_id", "attempt", "step", "tool", "args_digest", "asked_args_digest", "approvals", "revision")
        ],
        Session: ["session_id", "key_space"],
        Workspace: ["slug"],
    }
    unnoticed = []
    for model, names in columns.items():
        for name in sorted(names):
            field: Any = model._meta.get_field(name)
            row: Any = model._default_manager.get()
            with rolled_back():
                model._default_manager.filter(pk=row.pk).update(**{name: change(getattr(row, name), field)})
                try:
                    verify_calls_against_decisions.verify_session_calls_against_decisions("default", session.pk)
                    unnoticed.append(f"{model.__name__}.{name}")
                except IntegrityError:
                    pass
    assert unnoticed == []


def test_signature_of_another_call_is_refused(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None], on_site: Callable[[], None]
) -> None:
    desk = ask(cp, effects)
    with pytest.raises(ApprovalRequired):
        desk.dispatch("pay", {"order": 17, "amount": 41}, "call_2")
    decide("approve_call")
    genuine, other = Decision.objects.get(), ToolCall.objects.get(call_id="call_2")
    copy = Decision.objects.get()
    copy.pk, copy.tool_call = None, other
    copy._state.adding = True
    copy.save()
    ToolCall.objects.filter(pk=other.pk).update(status=CallStatus.APPROVED, revision=2)

    with pytest.raises(DecisionSignatureInvalid, match="this place"):
        desk.dispatch("pay", {"order": 17, "amount": 41}, "call_2")
    assert (genuine.signature, effects.read_text()) == (copy.signature, "")


def test_used_approval_does_not_apply_to_another_revision(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None]
) -> None:
    desk = ask(cp, effects)
    decide("approve_call")
    call(desk)
    ToolCall.objects.update(status=CallStatus.APPROVED, result=None, result_digest="")

    with pytest.raises(DecisionSignatureInvalid, match="another call"):
        call(desk)
    assert effects.read_text() == "pay 17 40\n"


def test_rejected_call_with_a_changed_status_is_refused(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None]
) -> None:
    desk = ask(cp, effects)
    decide("reject_call", message="No.")
    assert call(desk).is_error
    ToolCall.objects.update(
        status=CallStatus.COMPLETED, result=FORGED_TEXT, result_digest=digests.digest_text(FORGED_TEXT)
    )

    with pytest.raises(DecisionSignatureInvalid, match="after the decision reject"):
        call(desk)


def test_lowered_number_of_approvals_is_detected(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None]
) -> None:
    desk = ask(cp, effects, approvals=2)
    ToolCall.objects.update(approvals=1)
    decide("approve_call")

    with pytest.raises(DecisionNotSigned, match="demands 2"):
        call(desk)
    assert effects.read_text() == ""


def test_forged_vote_does_not_count_on_the_site(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None]
) -> None:
    ask(cp, effects, approvals=2)
    row = ToolCall.objects.get()
    Decision.objects.create(
        session=row.session,
        tool_call=row,
        kind=DecisionKind.APPROVE,
        actor_kind=ActorKind.PERSON,
        actor="bob",
        final=False,
        args_digest=row.args_digest,
        revision=row.revision,
    )
    ToolCall.objects.update(revision=2)

    with pytest.raises(DecisionNotSigned):
        decide("approve_call", revision=2)
    assert call_statuses() == [("call_1", 1, "awaiting_approval")]


def test_fork_of_a_session_with_a_forged_decision_is_refused(cp: SyncCheckpointer, effects: Path) -> None:
    ask(cp, effects)
    cp.save_checkpoint("s", [], {}, 0)
    forge(DecisionKind.RESPOND, CallStatus.COMPLETED, result=FORGED_TEXT)
    with pytest.raises(DecisionNotSigned):
        cp.fork_session("s", "t")
    assert not Session.objects.filter(session_id="t").exists()


def test_former_key_verifies_while_it_is_listed(
    cp: SyncCheckpointer, effects: Path, decide: Callable[..., None], settings: Any
) -> None:
    desk = ask(cp, effects)
    decide("approve_call")
    settings.HARNESS_DECISION_VERIFY_KEYS = NEW_KEYS.verifying
    with pytest.raises(DecisionKeyUnknown, match=KEYS.key_id):
        cp.preview_resume("s")
    with pytest.raises(DecisionKeyUnknown, match=KEYS.key_id):
        call(desk)
    assert Session.objects.get().quarantined_at is None
    settings.HARNESS_DECISION_VERIFY_KEYS = f"{NEW_KEYS.verifying}, {KEYS.verifying}"
    start_session(cp)
    assert call(desk).content == "paid 40"


def test_signatures_are_verified_without_seals(cp: SyncCheckpointer, effects: Path, settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = settings.HARNESS_SEAL_REQUIRED = None
    desk = ask(cp, effects)
    forge(DecisionKind.APPROVE, CallStatus.APPROVED)
    with pytest.raises(DecisionNotSigned):
        call(desk)
    assert Session.objects.get().quarantined_at is not None


def test_verify_hook_needs_no_signature(open_checkpointer: Open) -> None:
    from checkpoints import Landed

    taker, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    registry = ToolRegistry(checkpointer=taker, session_id="s")

    @registry.tool(verify=lambda args: Landed("paid"))
    def pay(order: int) -> str:
        return "paid"

    assert taker.resume("s").run is not None
    assert call_statuses() == [("call_1", 1, "completed")]


def test_unsigned_decisions_are_signed_once(
    cp: SyncCheckpointer,
    open_checkpointer: Open,
    effects: Path,
    settings: Any,
    on_agent: Callable[[], None],
    on_site: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings.HARNESS_DECISION_VERIFY_KEYS = None
    other, made = interrupt_call(start_session(open_checkpointer(), "altered"), open_checkpointer, "altered")
    other.mark_failed("altered", "call_1", actor="alice", reason="I looked.", revision=made["revision"])
    plain(Decision).update(reason="I did not look.")
    desk = ask(cp, effects, approvals=2)
    for revision, name in ((1, "alice"), (2, "bob")):
        cp.approve_call("s", "call_1", actor=name, reason="I looked.", revision=revision)
    on_agent()
    with pytest.raises(CommandError, match="no signing key"):
        call_command("sign_decisions", "--all")
    on_site()
    for signed in (2, 0):
        with pytest.raises(CommandError, match="The decisions of 1 sessions were not signed"):
            call_command("sign_decisions", "--all")
        printed = capsys.readouterr()
        assert printed.out == f"{signed} decisions were signed.\n"
        assert "altered: Row" in printed.err
    call_command("sign_decisions", "--session", "s")
    on_agent()

    assert plain(Decision).get(session__session_id="altered").signature is None
    assert AuditEvent.objects.filter(kind=AuditKind.DECISIONS_SIGNED).count() == 1
    assert call(desk).content == "paid 40"
    with pytest.raises(CommandError, match="no session"):
        call_command("sign_decisions", "--session", "unknown")
