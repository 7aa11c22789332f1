"""Versions that are taken at a phase of a run, and where a run stands after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.models import Checkpoint
from checkpoints.runs import legacy
from checkpoints.runs import payload as payloads
from checkpoints.runs.details import PhaseDetails, RunTerminal
from checkpoints.runs.shape import Misshapen
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import checkpoints, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.state import UNCHANGED, Change, Unchanged
from checkpoints.saving.store import Held, Store
from checkpoints.serde.canonical import canonical, parse_object

#: Versions are read so many at a time on the way back to a snapshot.
_CHUNK = 50


@dataclass(frozen=True)
class Standing:
    """Where a run stands after its newest version."""

    pending: dict[str, Any] | None = None
    snapshot: RuntimeSnapshot | None = None
    details: PhaseDetails | None = None

    @property
    def end(self) -> RunTerminal | None:
        return self.details if isinstance(self.details, RunTerminal) else None


def save_phase(
    store: Store,
    session_id: str,
    details: PhaseDetails,
    *,
    snapshot: RuntimeSnapshot | None = None,
    transcript: Sequence[dict[str, Any]] | None = None,
    plan: dict[str, Any] | Unchanged | None = UNCHANGED,
    expected_version: int | None = None,
) -> int:
    """Write the next version at a phase. Returns its number."""
    held = lookup.owned(store, session_id)
    change = change_of(store, held, details, snapshot, plan)
    if transcript is None:
        expected = held.head.version if expected_version is None else expected_version
        return checkpoints.append(store, session_id, [], change, expected_version=expected)
    return checkpoints.save(store, session_id, transcript, change, expected_version=expected_version)


def change_of(
    store: Store,
    held: Held,
    details: PhaseDetails,
    snapshot: RuntimeSnapshot | None,
    plan: dict[str, Any] | Unchanged | None,
) -> Change:
    """What a version at a phase changes beside the transcript."""
    change = Change(plan=plan, phase=details.phase)
    if snapshot is not None:
        snapshot = replace(snapshot, replayed_effect_count=_replays(store, held))
        change = replace(change, budget_spent_usd=snapshot.total_cost_usd, usage=snapshot.usage)
    return replace(change, payload=payloads.composed(details, snapshot))


def _replays(store: Store, held: Held) -> int:
    """How many calls were answered from the log so far, in this run and those before it."""
    if held.replayed_before is None:
        held.replayed_before = _replays_before(store, held)
    return held.replayed_before + len(held.replayed)


def _replays_before(store: Store, held: Held) -> int:
    with operation(store.using, writes=False):
        for _, _, payload in _back_from(store, held.session_id, held.pk, held.head.version + 1):
            if payloads.understood(held.session_id, payload) == payloads.SNAPSHOT:
                return payloads.snapshot_of(held.session_id, payload, None, 0).replayed_effect_count
    return 0


# reading


def standing(store: Store, session_id: str, session_pk: int, latest: dict[str, Any]) -> Standing:
    """Where a run stands after the version `latest`, as `load_latest` gives it.

    Raises `SchemaFromFuture`, and `CheckpointCorrupted` naming the field.
    """
    payload = latest["payload"]
    kind = payloads.understood(session_id, payload)
    if kind is None:
        return Standing(_own_answer(session_id, payload))
    details = payloads.details_of(session_id, latest["phase"], payload)
    phases: list[str] = []
    if kind == payloads.PHASE:
        phases.append(latest["phase"])
        payload = None
        for _, phase, before in _back_from(store, session_id, session_pk, latest["version"]):
            if payloads.understood(session_id, before) != payloads.PHASE:
                payload = before
                break
            phases.append(phase)
    if payloads.understood(session_id, payload) is None:
        pending = _own_answer(session_id, payload) if payloads.still_pending(phases) else None
        return Standing(pending, None, details)
    snapshot = payloads.snapshot_of(session_id, payload, latest["usage"], latest["budget_spent_usd"])
    if not payloads.still_pending(phases):
        snapshot = replace(snapshot, pending_llm_response=None)
    return Standing(snapshot.pending_llm_response, snapshot, details)


def _own_answer(session_id: str, payload: dict[str, Any] | None) -> dict[str, Any] | None:
    """The journaled model answer in a user's payload. A damaged one must not lead to a second model call."""
    pending = (payload or {}).get("pending_llm_response")
    if pending is None:
        return None
    if not isinstance(pending, dict) or not pending:
        raise CheckpointCorrupted(session_id, "pending_llm_response", "it is not an object with the model's answer")
    return pending


def standing_at(store: Store, session_id: str, row: Checkpoint) -> Standing | None:
    """Where a run stands after a version: with a snapshot, at a phase, behind a journaled answer.

    None where the version says nothing of it. Raises `SchemaFromFuture` and `CheckpointCorrupted`.
    """
    payload = _parsed(session_id, row.version, row.payload)
    if payloads.understood(session_id, payload) is None:
        pending = _own_answer(session_id, payload)
        return None if pending is None else Standing(pending)
    latest = {
        "payload": payload,
        "phase": row.phase,
        "version": row.version,
        "usage": None,
        "budget_spent_usd": 0,
    }
    return standing(store, session_id, row.session_id, latest)


def _back_from(store: Store, session_id: str, session_pk: int, version: int) -> Iterator[tuple[int, str, Any]]:
    """The versions before `version`, newest first: number, phase, payload."""
    rows = Checkpoint.objects.using(store.using).filter(session_id=session_pk).order_by("-version")
    while chunk := list(rows.filter(version__lt=version).values_list("version", "phase", "payload")[:_CHUNK]):
        for number, phase, text in chunk:
            yield number, phase, _parsed(session_id, number, text)
        version = chunk[-1][0]


def _parsed(session_id: str, version: int, text: str | None) -> Any:
    try:
        return parse_object(text)
    except ValueError as error:
        raise CheckpointCorrupted(session_id, f"the payload of version {version}", str(error)) from error


# what other versions depend on


def snapshot_version(store: Store, session_id: str, row: Checkpoint) -> int | None:
    """The version that has the snapshot which still holds at `row`; None where that is `row` itself, or none."""
    if payloads.understood(session_id, _parsed(session_id, row.version, row.payload)) != payloads.PHASE:
        return None
    for number, _, payload in _back_from(store, session_id, row.session_id, row.version):
        if payloads.understood(session_id, payload) != payloads.PHASE:
            return number
    return None


def whole_payload(store: Store, session_id: str, row: Checkpoint) -> str | None:
    """The payload of a version, with the snapshot that still holds there where it has none of its own."""
    if payloads.understood(session_id, _parsed(session_id, row.version, row.payload)) != payloads.PHASE:
        return row.payload
    stands = standing_at(store, session_id, row)
    if stands is None or stands.snapshot is None or stands.details is None:
        return row.payload
    return canonical(payloads.composed(stands.details, stands.snapshot), "payload")


# records of other systems


@dataclass(frozen=True)
class ImportedRecord:
    """Phase record that has been imported.

    Attributes:
        version: Number of the new version.
        run_id: Identifier of the run in the record.
        applied: Changes that were made to the record, such as `runId → run_id`.
    """

    version: int
    run_id: str
    applied: tuple[str, ...]


def import_record(store: Store, session_id: str, record: object, *, run_id: str | None = None) -> ImportedRecord:
    """Save a phase record of another system as the next version.

    Raises `CheckpointCorrupted` naming the field, also where the record is of another run than `run_id`, and
    `SchemaFromFuture`. Then nothing is written.
    """
    lookup.owned(store, session_id)
    try:
        found = legacy.migrated(session_id, record)
        if run_id is not None and found.run_id != run_id:
            raise Misshapen("run_id", f"it is {found.run_id!r}, not {run_id!r}")
    except Misshapen as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    version = save_phase(store, session_id, found.details, snapshot=found.snapshot, transcript=found.transcript)
    return ImportedRecord(version, found.run_id, found.applied)
