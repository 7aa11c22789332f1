"""Signatures of decisions: what a signature says, how the site makes it, and how every process verifies it.

A signature covers what the decision means and its place: workspace, session, call, revision and arguments, the kind,
the text for the agent, the actor, the reason and the time, and the terms under which it was made. Whoever reads
decisions from a database that others can write to verifies the signature before anything depends on the decision.
"""

from __future__ import annotations

from typing import Any

from checkpoints.enums import HOOK_KINDS, ActorKind
from checkpoints.exceptions import (
    DecisionKeyUnknown,
    DecisionNotSigned,
    DecisionSignatureInvalid,
    DecisionSigningKeyMissing,
)
from checkpoints.models import Decision
from checkpoints.seals import row_seals
from checkpoints.seals.decision_keys import KEY_ID_SIZE, SIGNATURE_SIZE, DecisionKeys, get_decision_keys
from checkpoints.seals.row_encoding import encode_values_as_json_array

#: First word of each statement, so that a signature says nothing else in another version or another use of the key.
_LABEL = "harness decision 1"


def needs_signature(kind: str, actor_kind: str) -> bool:
    """Return whether a decision has to be signed where signatures are required.

    All are but the answers of verify hooks, which agents ask themselves: no person has made these.
    """
    return not (kind in HOOK_KINDS and actor_kind == ActorKind.HOOK)


def require_signing_key_for_decision(kind: str, actor_kind: str) -> None:
    """Raise `DecisionSigningKeyMissing` if this process cannot record such a decision, because it cannot sign it."""
    keys = get_decision_keys()
    if keys is not None and keys.signing is None and needs_signature(kind, actor_kind):
        raise DecisionSigningKeyMissing(str(kind))


def sign_decision(decision: Decision, terms: str) -> None:
    """Sign a decision that is about to be inserted and has all its other columns. Nothing if signing is off.

    `terms` is canonical JSON text of the terms under which it was made.
    """
    keys = get_decision_keys()
    if keys is None or keys.signing is None or not needs_signature(decision.kind, decision.actor_kind):
        return
    decision.signed_terms = terms
    decision.signature = keys.sign(build_signed_content(decision))


def verify_decision_signature(decision: Decision) -> None:
    """Verify that the site has signed a decision, for this place. Nothing if signatures are not required.

    Raises:
        DecisionNotSigned: It has no signature.
        DecisionKeyUnknown: It was signed with a key that is not configured.
        DecisionSignatureInvalid: It was altered, or was signed for another place.
    """
    keys = get_decision_keys()
    if keys is None or not needs_signature(decision.kind, decision.actor_kind):
        return
    table, row = row_seals.get_table_name(decision), row_seals.describe_row(decision)
    if not decision.signature:
        raise DecisionNotSigned(table, row)
    signature = bytes(decision.signature)
    if len(signature) != SIGNATURE_SIZE or decision.tool_call.session_id != decision.session_id:
        raise DecisionSignatureInvalid(table, row)
    key_id = signature[:KEY_ID_SIZE]
    if key_id not in keys.verifying:
        raise DecisionKeyUnknown(table, row, key_id.hex(), _list_key_ids(keys))
    if not _is_signature_valid(keys, key_id, signature[KEY_ID_SIZE:], build_signed_content(decision)):
        raise DecisionSignatureInvalid(table, row)


def _list_key_ids(keys: DecisionKeys) -> list[str]:
    return sorted(key_id.hex() for key_id in keys.verifying)


def _is_signature_valid(keys: DecisionKeys, key_id: bytes, signature: bytes, statement: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        keys.verifying[key_id].verify(signature, statement)
    except InvalidSignature:
        return False
    return True


def build_signed_content(decision: Decision) -> bytes:
    """Return what the signature of a decision covers. Its place is named so that every database has the same words."""
    call = decision.tool_call
    session = call.session
    content: list[Any] = [
        _LABEL,
        session.workspace.slug,
        session.session_id,
        session.key_space,
        call.step,
        call.call_id,
        call.attempt,
        call.tool,
        decision.kind,
        decision.actor_kind,
        decision.actor,
        decision.reason,
        decision.evidence,
        decision.result,
        decision.final,
        decision.args_digest,
        decision.revision,
        decision.created_at,
        decision.signed_terms,
    ]
    return encode_values_as_json_array(content)
