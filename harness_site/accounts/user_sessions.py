"""User sessions: the browsers in which a user is signed in."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User

from checkpoints.db import clock

#: Interval in which the activity of an open page is stored.
ACTIVITY_UPDATE_INTERVAL: Final = timedelta(minutes=1)


def delete_expired_and_list_user_sessions(user: User, first_session_key: str | None) -> list[UserSession]:
    """List the valid sessions of a user, and delete the expired ones.

    The session with the session key `first_session_key` comes first, then those that were used last.
    """
    sessions: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(
        sessions, key=lambda session: (session.session_key == first_session_key, session.last_seen_at), reverse=True
    )


def end_user_sessions(user: User, *, except_session_key: str | None = None) -> int:
    """End every session of `user` except the one with the session key `except_session_key`; return the number ended.

    Open pages notice within seconds, because their websocket closes.
    """
    sessions = [
        session for session in UserSession.objects.filter(user=user) if session.session_key != except_session_key
    ]
    for session in sessions:
        session.end()
    return len(sessions)


def is_user_active_in_another_session(user: User, except_session_key: str | None, *, since: datetime) -> bool:
    """Return whether a page was open after `since` in a valid session of `user` other than `except_session_key`."""
    sessions = UserSession.objects.filter(user=user, last_seen_at__gt=since)
    return any(session.exists() for session in sessions if session.session_key != except_session_key)


def record_user_session_activity(session_key: str | None) -> None:
    """Note that a page of this user session is open; writes at most once in `ACTIVITY_UPDATE_INTERVAL`."""
    now = clock.now()
    UserSession.objects.filter(session_key=session_key, last_seen_at__lt=now - ACTIVITY_UPDATE_INTERVAL).update(
        last_seen_at=now
    )
