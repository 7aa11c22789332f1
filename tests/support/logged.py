"""A call in the log of a session, or other arguments of one that is there, as an agent or a person leaves them:
`python -m tests.support.logged order-17 call_1 apples`."""

from __future__ import annotations

import sys

import django


def main(session_id: str, call_id: str, word: str) -> int:
    """The key of the session, which is made where it is not there."""
    django.setup()
    from django.db.models import F
    from django.db.models.functions import Now

    from checkpoints.enums import CallStatus
    from checkpoints.models import Session, ToolCall
    from checkpoints.serde import canonical
    from tests.support.factories import make_call, make_session

    args = {"note": f"{word} " * 200}
    session = Session.objects.filter(session_id=session_id).first() or make_session(session_id=session_id)
    known = ToolCall.objects.filter(session=session, call_id=call_id)
    if not known.update(args=canonical(args), revision=F("revision") + 1):
        make_call(session=session, call_id=call_id, args=args, status=CallStatus.COMPLETED, result='"ok"')
    Session.objects.filter(pk=session.pk).update(updated_at=Now(), revision=F("revision") + 1)
    return session.pk


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
