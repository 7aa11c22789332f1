"""The browsers somebody is signed in with."""

from __future__ import annotations

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User


def sign_ins(user: User) -> list[UserSession]:
    """Those that still hold, the newest first. What has ended by itself is forgotten on the way."""
    found: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(found, key=lambda one: one.created_at, reverse=True)


def end_sign_ins(user: User, *, but: str | None = None) -> int:
    """End every sign-in of `user` except the one with the session key `but`; returns how many. Open pages notice
    within seconds: their websocket closes."""
    ending = [one for one in UserSession.objects.filter(user=user) if one.session_key != but]
    for one in ending:
        one.end()
    return len(ending)
