"""Receiver of Django's logout signal: releases the user's claims on calls."""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest

from harness_site.review import claim_services


def connect_logout_receiver() -> None:
    user_logged_out.connect(_release_claims_on_logout, dispatch_uid="review-claims")


def _release_claims_on_logout(*, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        claim_services.release_all_claims_of_user(user, request=request)
