"""Take the stored heads of sessions as the newest ones, after a restore from a backup or the loss of the witness."""

from __future__ import annotations

from django.db import transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import ReasonRequired, SealKeyMissing, WitnessMissing
from checkpoints.models import Session
from checkpoints.seals import session_heads, session_names_in_witness, witness
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys


def accept_stored_head_in_witness(using: str, session_pk: int, *, actor: str, reason: str) -> bool:
    """Note the stored head and the name of a session in the witness, where it does not know them.

    If it knew another head, an entry of the audit trail says who has noted this one, and why.

    Args:
        using: Connection alias.
        session_pk: Key of the session.
        actor: Name of who does it.
        reason: Why, in a sentence.

    Returns:
        Whether the witness knew another head, or did not know the name.

    Raises:
        ReasonRequired: There is no reason.
        WitnessMissing: No witness is configured, or its file is not there.
        SealKeyMissing: This process has no key.
        IntegrityError: The session does not match its seal.
    """
    if not reason.strip():
        raise ReasonRequired
    keys, kept = get_seal_keys(), witness.get_witness()
    if keys is None:
        raise SealKeyMissing(f"{KEY_SETTING} is empty")
    if kept is None:
        raise WitnessMissing("", f"{witness.SETTING} is empty")
    with transaction.atomic(using=using):
        sessions = Session.objects.using(using).select_related("workspace").select_for_update(of=("self",))
        session = sessions.filter(pk=session_pk).first()
        if session is None or not session.row_seal:
            return False
        head = session_heads.verify_session_row_and_build_head(session, keys).to_witnessed_head()
        is_new = session_names_in_witness.record_stored_session_name_if_unknown(
            session.workspace.slug, session.session_id, session.key_space, session.pk
        )
        known = kept.find_session(head.name)
        if known is not None and known.knows_head(head.number, head.seal):
            return is_new
        insert_unchained_events.record_event_of_workspace(
            using,
            session.workspace_id,
            AuditKind.WITNESS_ADOPTED,
            session_pk=session_pk,
            actor=actor,
            actor_kind=ActorKind.MACHINE,
            details={"reason": reason, "known": -1 if known is None else known.number, "stored": head.number},
        )
        kept.record_adopted_head(head)
    return True
