"""Signatures for decisions that were made before the site had a key."""

from __future__ import annotations

from django.db import models, transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.calls import decision_signatures, verify_calls_against_decisions
from checkpoints.calls.insert_signed_decision import DecisionTerms
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import DecisionSigningKeyMissing
from checkpoints.models import Decision, Session
from checkpoints.seals import row_seals
from checkpoints.seals.decision_keys import get_decision_keys


def sign_unsigned_decisions_of_session(using: str, session_pk: int, *, actor: str) -> int:
    """Sign the decisions of a session that have no signature, as they are stored now. Returns their number.

    Nothing tells whether one of them was forged before. A decision that has a signature which does not match is left
    as it is. The session's row is locked meanwhile.

    Args:
        using: Connection alias.
        session_pk: Key of the session.
        actor: Name of who signs, for the audit trail.

    Raises:
        DecisionSigningKeyMissing: This process has no signing key.
        IntegrityError: A decision does not match its seal, after which nothing is signed.
    """
    keys = get_decision_keys()
    if keys is None or keys.signing is None:
        raise DecisionSigningKeyMissing("any")
    with transaction.atomic(using=using):
        session = Session.objects.using(using).select_for_update().filter(pk=session_pk).first()
        if session is None:
            return 0
        decisions = list(
            verify_calls_against_decisions.select_decisions_joined_for_signatures(using)
            .filter(session=session)
            .order_by(*Decision.IN_ORDER)
        )
        unsigned = [
            decision
            for decision in decisions
            if not decision.signature and decision_signatures.needs_signature(decision.kind, decision.actor_kind)
        ]
        for decision in unsigned:
            row_seals.verify_row(decision)
            decision_signatures.sign_decision(decision, _reconstruct_signed_terms(decision, decisions).to_json())
            models.QuerySet(Decision, using=using).filter(pk=decision.pk).update(
                signed_terms=decision.signed_terms, signature=decision.signature
            )
        if unsigned:
            insert_unchained_events.record_event_of_workspace(
                using,
                session.workspace_id,
                AuditKind.DECISIONS_SIGNED,
                session_pk=session_pk,
                actor=actor,
                actor_kind=ActorKind.MACHINE,
                details={"rows": len(unsigned), "key": keys.signing_id.hex()},
            )
    return len(unsigned)


def _reconstruct_signed_terms(decision: Decision, decisions: list[Decision]) -> DecisionTerms:
    """Return the terms of a decision from the rows: who else had decided the same about the same arguments."""
    call = decision.tool_call
    people = {
        other.actor
        for other in decisions
        if (other.tool_call_id, other.kind, other.args_digest) == (call.pk, decision.kind, decision.args_digest)
        and other.pk <= decision.pk
    }
    asked = call.asked_args_digest if decision.args_digest == call.args_digest else ""
    return DecisionTerms(call.approvals, sorted(people), asked)
