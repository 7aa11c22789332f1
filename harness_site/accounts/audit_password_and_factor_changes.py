"""Receivers of django-allauth's signals: audit changes of passwords and of second factors, and failed factors."""

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
from harness_site.accounts import record_user_audit_events


def connect_receivers() -> None:
    for signal in (password_changed, password_set):
        signal.connect(_record_password_change)
    authenticator_added.connect(_record_factor_added)
    authenticator_reset.connect(_record_factor_added)
    authenticator_removed.connect(_record_factor_removed)
    authentication_failed.connect(_record_factor_failure)


def _record_password_change(*, request: HttpRequest, user: User, **_: Any) -> None:
    record_user_audit_events.record_account_event(user, AuditKind.PASSWORD_CHANGED, request=request)


def _record_factor_added(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record_user_audit_events.record_account_event(
        user, AuditKind.FACTOR_ADDED, request=request, factor=authenticator.type
    )


def _record_factor_removed(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record_user_audit_events.record_account_event(
        user, AuditKind.FACTOR_REMOVED, request=request, factor=authenticator.type
    )


def _record_factor_failure(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record_user_audit_events.record_failed_login(request, name=user.get_username(), why=str(authenticator.type))
