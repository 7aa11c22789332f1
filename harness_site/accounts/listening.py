"""django-allauth tells of changes to an account by signals only; each becomes an entry of the audit trail."""

from typing import Any

from allauth.account.signals import password_changed, password_set
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import (
    authentication_failed,
    authenticator_added,
    authenticator_removed,
    authenticator_reset,
)
from django.contrib.auth.models import User
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from harness_site.accounts import trail


def listen() -> None:
    for changed in (password_changed, password_set):
        changed.connect(_password_changed)
    authenticator_added.connect(_factor_added)
    authenticator_reset.connect(_factor_added)
    authenticator_removed.connect(_factor_removed)
    authentication_failed.connect(_factor_refused)


def _password_changed(*, request: HttpRequest, user: User, **_: Any) -> None:
    trail.personal(user, AuditKind.PASSWORD_CHANGED, request=request)


def _factor_added(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    trail.personal(user, AuditKind.FACTOR_ADDED, request=request, factor=authenticator.type)


def _factor_removed(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    trail.personal(user, AuditKind.FACTOR_REMOVED, request=request, factor=authenticator.type)


def _factor_refused(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    trail.sign_in_failed(request, name=user.get_username(), why=str(authenticator.type))
