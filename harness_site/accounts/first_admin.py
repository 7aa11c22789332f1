"""First admin of an installation: a superuser who signs in, or whoever opens the link that the server prints.

Both ways close as soon as the installation has an admin, or an account.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import AuditKind, Role
from checkpoints.models import Workspace
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.models import Membership
from harness_site.site_address import build_absolute_url

#: Validity of the link that creates the first account.
LIFETIME: Final = timedelta(hours=24)
_SALT: Final = "harness.accounts.first"


class SetupClosed(Exception):
    """Refusal to create the first account: the link is damaged or has expired, or an account exists."""


def is_installation_without_accounts() -> bool:
    """Return whether nobody has an account yet."""
    return not User.objects.exists()


def build_setup_link() -> str:
    """Build a link to the page that creates the first account; it works until an account exists."""
    return build_absolute_url(reverse("harness_accounts:first-account", args=[signing.dumps("first", salt=_SALT)]))


def require_usable_setup_token(token: str) -> None:
    """Raise `SetupClosed` unless `token` may create the first account now."""
    try:
        signing.loads(token, salt=_SALT, max_age=LIFETIME)
    except signing.BadSignature:
        raise SetupClosed from None
    if not is_installation_without_accounts():
        raise SetupClosed


def create_first_admin(token: str, *, name: str, email: str, password: str, request: HttpRequest) -> User:
    """Create the first account and make it an admin. Of several attempts one succeeds. Raises `SetupClosed`."""
    with transaction.atomic():
        workspace = _get_or_create_locked_default_workspace()
        require_usable_setup_token(token)
        user = User.objects.create_user(name, email=email, password=password)
        _grant_admin_role(user, workspace, request=request)
    return user


def make_user_admin_if_superuser_and_no_admin(user: User, *, request: HttpRequest) -> None:
    """Make a superuser the admin of the default workspace if the installation has no admin; else do nothing.

    Whoever created the superuser can change the database, so this gives no permission that they could not take.
    """
    if not user.is_superuser or has_active_admin():
        return
    with transaction.atomic():
        workspace = _get_or_create_locked_default_workspace()
        if not has_active_admin():
            _grant_admin_role(user, workspace, request=request)


def has_active_admin() -> bool:
    return Membership.objects.filter(role=Role.ADMIN, user__is_active=True).exists()


def _get_or_create_locked_default_workspace() -> Workspace:
    """Return the default workspace and lock it, so that two people cannot become the first admin."""
    workspace, _ = Workspace.objects.get_or_create(slug=DEFAULT_WORKSPACE, defaults={"name": "Default"})
    return Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)


def _grant_admin_role(user: User, workspace: Workspace, *, request: HttpRequest) -> None:
    before = Membership.objects.filter(user=user, workspace=workspace).values_list("role", flat=True).first()
    member, _ = Membership.objects.update_or_create(user=user, workspace=workspace, defaults={"role": Role.ADMIN})
    kind = AuditKind.MEMBER_ADDED if before is None else AuditKind.ROLE_CHANGED
    record_user_audit_events.record_member_event(member, kind, request=request, role=Role.ADMIN, before=before)
