"""Receiver of Django's logout signal: releases the claims on calls that the user has made.

Who still works in another browser keeps them: the open pages there extend them, and the others expire.
"""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest

from checkpoints.db import clock
from harness_site.accounts.user_sessions import is_user_active_in_another_session
from harness_site.review import claim_services
from harness_site.review.load_claims_and_record_presence import CLAIMED_FOR


def connect_logout_receiver() -> None:
    user_logged_out.connect(_release_claims_on_logout, dispatch_uid="review-claims")


def _release_claims_on_logout(*, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is None:
        return
    if not is_user_active_in_another_session(user, request.session.session_key, since=clock.now() - CLAIMED_FOR):
        claim_services.release_claims_made_by_user(user, request=request)
