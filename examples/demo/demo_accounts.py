"""Accounts of the demo, with new passwords each time."""

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import Role
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership
from harness_site.accounts.sign_in_links import build_sign_in_link


@dataclass(frozen=True)
class DemoAccount:
    name: str
    password: str
    link: str


def create_or_reset_account(name: str, role: Role, password: str = "") -> DemoAccount:
    """Create the user `name`, or reset their role and password; the password is random if none is given."""
    password = password or secrets.token_urlsafe(9)
    user, _ = User.objects.get_or_create(username=name)
    user.is_active = True
    user.set_password(password)
    user.save()
    workspace = Workspace.objects.get(slug=DEFAULT_WORKSPACE)
    Membership.objects.update_or_create(user=user, workspace=workspace, defaults={"role": role})
    return DemoAccount(name, password, build_sign_in_link(user))
