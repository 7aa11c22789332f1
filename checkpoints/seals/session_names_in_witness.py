"""Names of sessions in the witness, so that no session is started in place of one that somebody has removed or renamed.

Whoever can write to the database can delete or rename the row of a session, and an agent that opens the session by its
name would begin it again. So the witness notes each name before the commit that creates its session: as a keyed digest,
which does not reveal it, with the key and the key space of the session. The session exists if the witness knows a
confirmed write of it, and does not know that this library has deleted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from checkpoints.exceptions import WitnessedSessionMissing
from checkpoints.seals.seal_keys import SealKey, SealKeys, get_seal_keys
from checkpoints.seals.witness import Witness, get_witness
from checkpoints.seals.witness_records import (
    WitnessedHead,
    WitnessedSession,
    build_session_name,
    parse_session_pk,
)

#: Purpose of the keyed digests of names.
_DIGEST_PURPOSE = "witness name"


class ExistingSession(NamedTuple):
    """Session that exists by what the witness knows: its name there, and the number of its last write."""

    name: str
    number: int


def record_new_session_name_or_raise(workspace: str, session_id: str, key_space: str, session_pk: int) -> None:
    """Note the name of a session, in the transaction that inserts it. Nothing without a witness or a key of seals.

    Args:
        workspace: Slug of its workspace as the program names it, because the rows of workspaces have no seals.
        session_id: Name of the session.
        key_space: Key space of the session.
        session_pk: Key of its row.

    Raises:
        WitnessedSessionMissing: A session of this name exists by what the witness knows.
    """
    kept, keys = get_witness(), get_seal_keys()
    if kept is None or keys is None:
        return
    noted = _list_witness_records_of_name(kept, keys, workspace, session_id)
    existing = _select_existing_sessions_of_noted_name(kept, noted)
    if existing:
        raise WitnessedSessionMissing(session_id, parse_session_pk(existing[0].name), existing[0].number)
    _record_name_in_witness(
        kept,
        _build_witness_record_of_name(keys.current, workspace, session_id, key_space, session_pk),
        is_first=not noted,
    )


def record_stored_session_name_if_unknown(workspace: str, session_id: str, key_space: str, session_pk: int) -> bool:
    """Note the name of a session that is there already. Nothing without a witness or a key of seals.

    The arguments are those of `record_new_session_name_or_raise`.

    Returns:
        Whether the witness did not know it.
    """
    kept, keys = get_witness(), get_seal_keys()
    if kept is None or keys is None:
        return False
    note = _build_witness_record_of_name(keys.current, workspace, session_id, key_space, session_pk)
    known = kept.find_session(note.name)
    if known is not None and known.knows_head(note.number, note.seal):
        return False
    _record_name_in_witness(kept, note, is_first=known is None)
    return True


def list_sessions_with_name_in_witness(workspace: str, session_id: str) -> list[ExistingSession]:
    """Find the sessions of a name that exist by what the witness knows; none without a witness or a key of seals."""
    kept, keys = get_witness(), get_seal_keys()
    if kept is None or keys is None:
        return []
    return _select_existing_sessions_of_noted_name(
        kept, _list_witness_records_of_name(kept, keys, workspace, session_id)
    )


def _build_witness_record_of_name(
    key: SealKey, workspace: str, session_id: str, key_space: str, session_pk: int
) -> WitnessedHead:
    """Build what is noted of a name: its digest, with the key of the session as number, and its key space as seal."""
    return WitnessedHead(_compute_name_digest(key, workspace, session_id), session_pk, key_space.encode())


def _compute_name_digest(key: SealKey, workspace: str, session_id: str) -> str:
    return key.compute_seal(_DIGEST_PURPOSE, f"{workspace}\0{session_id}".encode()).hex()


def _record_name_in_witness(kept: Witness, note: WitnessedHead, *, is_first: bool) -> None:
    """Note a name. If other sessions have had it, they are gone, and are not looked for again."""
    if is_first:
        kept.record_expected_head(note)
    else:
        kept.record_adopted_head(note)


def _list_witness_records_of_name(
    kept: Witness, keys: SealKeys, workspace: str, session_id: str
) -> list[WitnessedSession]:
    """List what the witness knows of a name by its digests with the present key and with former ones."""
    found = (kept.find_session(_compute_name_digest(key, workspace, session_id)) for key in keys.by_id.values())
    return [known for known in found if known is not None]


def _select_existing_sessions_of_noted_name(kept: Witness, noted: Sequence[WitnessedSession]) -> list[ExistingSession]:
    """List those of the sessions that were noted under a name which exist by what the witness knows."""
    names = {
        build_session_name(key_space.decode(), session_pk)
        for known in noted
        for session_pk, key_space in known.list_confirmed_and_expected_heads()
    }
    found = ((name, kept.find_session(name)) for name in sorted(names))
    return [ExistingSession(name, known.number) for name, known in found if known is not None and known.number >= 0]
