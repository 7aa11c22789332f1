"""Removal of the states of a framework: those that no resume and no remaining version needs, with their blobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from checkpoints.models import Checkpoint, FrameworkState, FrameworkWrite, Session
from checkpoints.versions import parse_state_channels_and_collect_digests
from checkpoints.versions.framework_value_blobs import delete_unreachable_blobs

_CHUNK_SIZE = 500


def _find_channels_rebuilt_from_writes(session_id: str, state: FrameworkState) -> set[str]:
    """Return the channels without a value whose value is rebuilt from the writes of earlier states."""
    return {
        name
        for name, entry in parse_state_channels_and_collect_digests.parse_channel_entries(
            session_id, state.channels
        ).items()
        if len(entry) > 2
    }


def list_unneeded_states(
    session_id: str, states: Sequence[FrameworkState], is_kept: Callable[[FrameworkState], bool]
) -> list[FrameworkState]:
    """Select the states that can go.

    Args:
        session_id: Identifier of the session.
        states: All states of the session, newest first.
        is_kept: Condition of states that are kept in any case.

    Returns:
        All states except the newest of each namespace, the kept ones, and those from which their values are rebuilt.
    """
    by_place = {(state.namespace, state.state_id): state for state in states}
    newest: dict[str, FrameworkState] = {}
    for state in states:
        newest.setdefault(state.namespace, state)
    needed: set[int] = set()
    for first in [*newest.values(), *filter(is_kept, states)]:
        missing = _find_channels_rebuilt_from_writes(session_id, first)
        state_or_none: FrameworkState | None = first
        while state_or_none is not None:
            needed.add(state_or_none.pk)
            stored = parse_state_channels_and_collect_digests.parse_channels(session_id, state_or_none.channels)
            missing -= {name for name, (_, digest) in stored.items() if digest is not None}
            state_or_none = by_place.get((state_or_none.namespace, state_or_none.parent_id)) if missing else None
    return [state for state in states if state.pk not in needed]


def delete_states_with_writes_and_blobs(using: str, session: Session, states: Collection[FrameworkState]) -> None:
    """Delete states with their writes, and the blobs that nothing reaches any more. The session has to be locked."""
    if not states:
        return
    places = {(state.namespace, state.state_id) for state in states}
    writes = FrameworkWrite.objects.using(using).filter(session=session)
    write_pks = [
        pk
        for pk, namespace, state_id in writes.values_list("pk", "namespace", "state_id")
        if (namespace, state_id) in places
    ]
    for part in _split_into_batches(write_pks):
        writes.filter(pk__in=part).delete()
    for part in _split_into_batches([state.pk for state in states]):
        FrameworkState.objects.using(using).filter(session=session, pk__in=part).delete()
    delete_unreachable_blobs_of_session(using, session)


def delete_unreachable_blobs_of_session(using: str, session: Session) -> None:
    """Delete the blobs of a locked session that no state and no write reaches."""
    delete_unreachable_blobs(
        using, session, parse_state_channels_and_collect_digests.collect_digests_of_states_and_writes(using, session)
    )


def delete_states_before_oldest_version(using: str, session: Session) -> None:
    """Delete the states that only removed versions had. The session has to be locked.

    A version and its state are written together, the state first. If a state has the time of the oldest version, it may
    be that of the version or a later one, so that the state before it is kept, too.
    """
    oldest = Checkpoint.objects.using(using).filter(session=session).order_by("version").first()
    states = list(FrameworkState.objects.using(using).filter(session=session).order_by("-state_id"))
    if oldest is None or not states:
        return
    until_version = [state for state in states if not state.namespace and state.created_at <= oldest.created_at]
    before_version = [state for state in until_version if state.created_at < oldest.created_at]
    since = next(iter(before_version), next(reversed(until_version), states[-1]))
    unneeded = list_unneeded_states(session.session_id, states, lambda state: state.state_id >= since.state_id)
    delete_states_with_writes_and_blobs(using, session, unneeded)


def _split_into_batches(pks: Sequence[int]) -> Iterable[Sequence[int]]:
    return (pks[start : start + _CHUNK_SIZE] for start in range(0, len(pks), _CHUNK_SIZE))
