"""Who signs out lets go of what they were on; Django tells of it by a signal only."""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest

from harness_site.review import claims


def listen() -> None:
    user_logged_out.connect(_signed_out, dispatch_uid="review-claims")


def _signed_out(*, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        claims.release_all(user, request=request)
