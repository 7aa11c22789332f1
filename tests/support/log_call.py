"""Add a logged call to a session, or change its arguments, as an agent or a person does."""

from __future__ import annotations

from tests.support.forked_site import use_database


def log_call_in_child(database: str, session_id: str, call_id: str, word: str) -> int:
    """Return the key of the session, which is created if needed."""
    use_database(database)
    from django.db.models import F
    from django.db.models.functions import Now

    from checkpoints.enums import CallStatus
    from checkpoints.formats import digests, to_canonical_json
    from checkpoints.models import Session, ToolCall
    from tests.support.factories import make_call, make_session

    args = {"note": f"{word} " * 200}
    text = to_canonical_json(args)
    session = Session.objects.filter(session_id=session_id).first() or make_session(session_id=session_id)
    matching_calls = ToolCall.objects.filter(session=session, call_id=call_id)
    if not matching_calls.update(args=text, args_digest=digests.digest_text(text), revision=F("revision") + 1):
        key = f"key of {call_id}"  # the default keys are unique in one process only
        make_call(
            session=session, call_id=call_id, args=args, idempotency_key=key, status=CallStatus.COMPLETED, result='"ok"'
        )
    Session.objects.filter(pk=session.pk).update(updated_at=Now(), revision=F("revision") + 1)
    return session.pk
