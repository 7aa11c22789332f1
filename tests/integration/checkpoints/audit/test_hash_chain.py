"""The hash chain detects changes of rows that bypass the library."""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import F

from checkpoints import SyncCheckpointer, audit
from checkpoints.audit import seal_and_verify_chain
from checkpoints.enums import AuditKind
from checkpoints.exceptions import InvalidInput
from checkpoints.models import AuditChain, AuditEvent, Workspace
from tests.integration.checkpoints.audit.conftest import RecordEvents


def flaws(workspace: Workspace) -> list[str]:
    return [flaw.what for flaw in audit.seal_and_verify_chain_and_store_result(workspace.pk).flaws]


def place(number: int) -> "AuditEvent":
    return AuditEvent.objects.get(number=number)


def rebuild_chain(workspace: Workspace) -> None:
    """Delete the chain and seal all entries again, as an attacker who knows the algorithm would."""
    AuditEvent.objects.update(number=None, seal="")
    AuditChain.objects.update(number=0, seal="")
    audit.seal_events_of_workspace(workspace.pk)


def test_unchanged_chain_is_intact(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(5)
    verdict = audit.seal_and_verify_chain_and_store_result(workspace.pk)
    assert (verdict.checked, verdict.number, verdict.flaws) == (5, 5, ())
    assert verdict.is_intact


def test_empty_chain_is_intact(workspace: Workspace) -> None:
    verdict = audit.seal_and_verify_chain_and_store_result(workspace.pk)
    assert (verdict.checked, verdict.number, verdict.anchor) == (0, 0, "")


def test_numbers_follow_the_order_of_events(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(3)
    audit.seal_events_of_workspace(workspace.pk)
    record_events(2)
    audit.seal_events_of_workspace(workspace.pk)
    events = AuditEvent.objects.order_by("pk").values_list("number", "details")
    assert [number for number, _ in events] == [1, 2, 3, 4, 5]


def test_second_sealing_changes_nothing(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(3)
    assert audit.seal_events_of_workspace(workspace.pk) == 3
    before = list(AuditEvent.objects.order_by("pk").values())
    assert audit.seal_events_of_workspace(workspace.pk) == 0
    assert list(AuditEvent.objects.order_by("pk").values()) == before


def test_each_workspace_has_its_own_chain(workspace: Workspace, record_events: RecordEvents) -> None:
    other = Workspace.objects.create(slug="other", name="Other")
    record_events(2)
    record_events(3, in_=other)
    assert audit.seal_events_of_all_workspaces() == 5
    assert audit.seal_events_of_all_workspaces() == 0
    assert list(AuditEvent.objects.filter(workspace=other).order_by("pk").values_list("number", flat=True)) == [1, 2, 3]
    place_in_other = AuditEvent.objects.get(workspace=other, number=2)
    AuditEvent.objects.filter(pk=place_in_other.pk).update(actor="mallory")
    assert flaws(workspace) == []
    assert flaws(other) == ["Entry 2 was changed after it was recorded, or is not where it was."]


CHANGES: dict[str, Callable[[], object]] = {
    "actor": lambda: AuditEvent.objects.filter(number=2).update(actor="mallory"),
    "actor's kind": lambda: AuditEvent.objects.filter(number=2).update(actor_kind="machine"),
    "kind": lambda: AuditEvent.objects.filter(number=2).update(kind=AuditKind.RUN_LOST),
    "details": lambda: AuditEvent.objects.filter(number=2).update(details='{"step":7}'),
    "time": lambda: AuditEvent.objects.filter(number=2).update(created_at=F("created_at") - timedelta(milliseconds=1)),
    "session": lambda: AuditEvent.objects.filter(number=2).update(session_id=77),
    "seal": lambda: AuditEvent.objects.filter(number=2).update(seal="0" * 64),
    "key": lambda: AuditEvent.objects.filter(number=2).update(id=F("id") + 1000),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_entry_is_detected(workspace: Workspace, record_events: RecordEvents, change: str) -> None:
    record_events(4)
    audit.seal_events_of_workspace(workspace.pk)
    CHANGES[change]()
    assert flaws(workspace)[0] == "Entry 2 was changed after it was recorded, or is not where it was."


def test_entry_moved_to_another_workspace_is_detected_in_both(
    workspace: Workspace, record_events: RecordEvents
) -> None:
    other = Workspace.objects.create(slug="other", name="Other")
    record_events(3)
    audit.seal_events_of_workspace(workspace.pk)
    AuditEvent.objects.filter(number=3).update(workspace=other)
    assert flaws(workspace) == ["Entry 3 is missing."]
    assert flaws(other)[0] == "Entry 3 claims a place that the chain, of 0, never gave."


def test_removed_entry_is_detected(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(5)
    audit.seal_events_of_workspace(workspace.pk)
    place(2).delete()
    AuditEvent.objects.filter(number__in=[4]).delete()
    assert flaws(workspace) == [
        "Entry 2 is missing.",
        "Entry 4 is missing.",
    ]


def test_removed_first_entries_are_detected(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(4)
    audit.seal_events_of_workspace(workspace.pk)
    AuditEvent.objects.filter(number__lte=2).delete()
    assert flaws(workspace)[0] == "Entries 1 to 2 are missing."


def test_removed_newest_entries_are_detected(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(4)
    audit.seal_events_of_workspace(workspace.pk)
    AuditEvent.objects.filter(number__gte=3).delete()
    assert flaws(workspace) == ["Entries 3 to 4 are missing."]


def test_exchanged_entries_are_detected(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(4)
    audit.seal_events_of_workspace(workspace.pk)
    second, third = place(2), place(3)
    AuditEvent.objects.filter(pk=second.pk).update(number=None)
    AuditEvent.objects.filter(pk=third.pk).update(number=2)
    AuditEvent.objects.filter(pk=second.pk).update(number=3)
    assert flaws(workspace)[0] == "Entry 2 was changed after it was recorded, or is not where it was."


def test_changed_entry_that_is_sealed_again_is_detected(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(3)
    audit.seal_events_of_workspace(workspace.pk)
    AuditEvent.objects.filter(number=3).update(number=None, seal="", actor="mallory")
    assert flaws(workspace) == ["Entry 3 is missing."]


def test_unassigned_number_is_detected(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(2)
    audit.seal_events_of_workspace(workspace.pk)
    record_events(1)
    AuditEvent.objects.filter(number=None).update(number=9, seal="0" * 64)
    assert flaws(workspace) == ["Entry 9 claims a place that the chain, of 2, never gave."]


def test_chain_head_that_differs_from_the_last_seal_is_detected(
    workspace: Workspace, record_events: RecordEvents
) -> None:
    record_events(2)
    audit.seal_events_of_workspace(workspace.pk)
    AuditChain.objects.update(seal="0" * 64)
    assert flaws(workspace) == ["The end of the chain is not the digest of its last entry."]


def test_rebuilt_chain_is_detected_by_an_anchor_only(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(3)
    anchor = audit.parse_anchor(audit.seal_and_verify_chain_and_store_result(workspace.pk).anchor)
    AuditEvent.objects.filter(number=1).update(actor="mallory")
    rebuild_chain(workspace)
    assert flaws(workspace) == []
    found = audit.seal_and_verify_chain_and_store_result(workspace.pk, anchor=anchor).flaws
    assert [flaw.what for flaw in found] == ["Entry 3 is another one than when its anchor was taken."]


def test_truncated_chain_is_detected_by_an_anchor_only(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(3)
    anchor = audit.parse_anchor(audit.seal_and_verify_chain_and_store_result(workspace.pk).anchor)
    place(3).delete()
    AuditChain.objects.update(number=2, seal=place(2).seal)
    assert flaws(workspace) == []
    found = audit.seal_and_verify_chain_and_store_result(workspace.pk, anchor=anchor).flaws
    assert [flaw.what for flaw in found] == ["The chain ends at 2, before the anchor 3."]


def test_anchor_stays_valid_while_the_chain_grows(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(3)
    anchor = audit.parse_anchor(audit.seal_and_verify_chain_and_store_result(workspace.pk).anchor)
    record_events(4)
    assert audit.seal_and_verify_chain_and_store_result(workspace.pk, anchor=anchor).is_intact


@pytest.mark.parametrize("text", ["", "3", "3:", "0:" + "a" * 64, "3:" + "g" * 64, "3:" + "a" * 63, "x:" + "a" * 64])
def test_malformed_anchor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not an anchor"):
        audit.parse_anchor(text)


def test_long_chains_are_read_and_sealed_in_batches(
    workspace: Workspace, record_events: RecordEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal_and_verify_chain, "_CHUNK", 3)
    monkeypatch.setattr("checkpoints.audit.number_and_chain_events._BATCH_SIZE", 4)
    record_events(11)
    verdict = audit.seal_and_verify_chain_and_store_result(workspace.pk)
    assert (verdict.checked, verdict.number, verdict.is_intact) == (11, 11, True)


def test_result_of_a_verification_is_stored(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(2)
    audit.seal_and_verify_chain_and_store_result(workspace.pk)
    chain = AuditChain.objects.get()
    assert (chain.verified_number, chain.problem) == (2, "")
    assert chain.verified_at is not None
    place(1).delete()
    audit.seal_and_verify_chain_and_store_result(workspace.pk)
    assert AuditChain.objects.get().problem.startswith("Entry 1 is missing.")


def test_rolled_back_event_leaves_no_gap(workspace: Workspace, record_events: RecordEvents) -> None:
    record_events(1)
    with transaction.atomic():
        record_events(1)
        transaction.set_rollback(True)
    record_events(1)
    assert audit.seal_and_verify_chain_and_store_result(workspace.pk).checked == 2
    assert flaws(workspace) == []


def test_audit_trail_of_a_deleted_session_is_kept(cp: SyncCheckpointer, workspace: Workspace) -> None:
    cp.start_session("order-17", "Refund", agent="desk")
    cp.finish_session("order-17", "completed")
    before = AuditEvent.objects.count()
    audit.seal_events_of_workspace(workspace.pk)
    cp.delete_session("order-17")
    assert AuditEvent.objects.count() == before + 1
    deleted = AuditEvent.objects.get(kind="session_deleted")
    assert AuditEvent.objects.filter(session=deleted.session_id).count() == before + 1
    assert flaws(workspace) == []


class TestCommand:
    def test_intact_chain_is_reported_with_an_anchor(self, workspace: Workspace, record_events: RecordEvents) -> None:
        record_events(3)
        out = StringIO()
        call_command("verify_audit", stdout=out)
        lines = out.getvalue().splitlines()
        assert lines[0] == "default: 3 entries, all as they were recorded."
        assert lines[1] == f"default: anchor 3:{place(3).seal}"

    def test_each_flaw_is_reported_with_a_failure_status(
        self, workspace: Workspace, record_events: RecordEvents
    ) -> None:
        record_events(3)
        audit.seal_events_of_workspace(workspace.pk)
        place(2).delete()
        complaints = StringIO()
        with pytest.raises(CommandError, match="The audit trail is not what was recorded"):
            call_command("verify_audit", stderr=complaints)
        assert complaints.getvalue().splitlines()[0] == "default: Entry 2 is missing."

    def test_mismatching_anchor_fails(self, workspace: Workspace, record_events: RecordEvents) -> None:
        record_events(1)
        with pytest.raises(CommandError, match="not what was recorded"):
            call_command("verify_audit", anchor="1:" + "0" * 64, stderr=StringIO())

    @pytest.mark.parametrize(("option", "value"), [("anchor", "x"), ("workspace", "nowhere")])
    def test_invalid_options_are_reported(self, workspace: Workspace, option: str, value: str) -> None:
        with pytest.raises(CommandError, match=r"is not an anchor|There is no workspace 'nowhere'"):
            call_command("verify_audit", **{option: value})
