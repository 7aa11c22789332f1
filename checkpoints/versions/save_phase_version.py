"""Versions that are saved at a phase of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.loop_state import snapshot_and_phase_payload_codec as payloads
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import UNCHANGED, Unchanged, VersionChange
from checkpoints.versions import load_run_phase_and_snapshot, save_version


def save_phase_version(
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
    owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
    change = build_phase_version_change(store, owned_session, details, snapshot, plan)
    if transcript is None:
        expected = owned_session.head.version if expected_version is None else expected_version
        return save_version.save_next_version_of_new_messages(store, session_id, [], change, expected_version=expected)
    return save_version.save_next_version_of_transcript(
        store, session_id, transcript, change, expected_version=expected_version
    )


def find_version_of_repeated_phase(
    store: Store,
    session_id: str,
    details: PhaseDetails,
    *,
    snapshot: RuntimeSnapshot | None,
    transcript: Sequence[dict[str, Any]] | None,
    plan: dict[str, Any] | Unchanged | None,
    expected_version: int,
    since: datetime,
) -> int | None:
    """Return the version after `expected_version` if this run saved just this phase, and after `since`; else None."""
    owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
    change = build_phase_version_change(store, owned_session, details, snapshot, plan)
    return save_version.find_version_of_repeated_save(
        store, owned_session, transcript or [], change, expected_version, whole=transcript is not None, since=since
    )


def build_phase_version_change(
    store: Store,
    owned_session: OwnedSession,
    details: PhaseDetails,
    snapshot: RuntimeSnapshot | None,
    plan: dict[str, Any] | Unchanged | None,
) -> VersionChange:
    """Build the changes of a version at a phase beside the transcript."""
    change = VersionChange(plan=plan, phase=details.phase)
    if snapshot is not None:
        snapshot = replace(snapshot, replayed_effect_count=_count_replayed_calls_of_all_runs(store, owned_session))
        cost = UNCHANGED if snapshot.total_cost_usd is None else snapshot.total_cost_usd
        change = replace(change, budget_spent_usd=cost, usage=snapshot.usage)
    return replace(change, payload=payloads.compose_version_payload(details, snapshot))


def _count_replayed_calls_of_all_runs(store: Store, owned_session: OwnedSession) -> int:
    """Count the calls that were answered from the log so far, in this run and those before it."""
    if owned_session.replayed_before is None:
        owned_session.replayed_before = _load_replay_count_of_last_snapshot(store, owned_session)
    return owned_session.replayed_before + len(owned_session.replayed)


def _load_replay_count_of_last_snapshot(store: Store, owned_session: OwnedSession) -> int:
    with database_operation(store.using, writes=False):
        for _, _, payload in load_run_phase_and_snapshot.iterate_phases_and_payloads_before_version(
            store, owned_session.session_id, owned_session.pk, owned_session.head.version + 1
        ):
            if payloads.find_payload_schema_key(owned_session.session_id, payload) == payloads.SNAPSHOT_KEY:
                return payloads.parse_snapshot(owned_session.session_id, payload, None, 0).replayed_effect_count
    return 0


# reading
