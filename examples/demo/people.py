"""Who can sign in to the demo: one who decides and one who only looks, with new passwords each time."""

import secrets
from dataclasses import dataclass

from django.contrib.auth import get_user_model

from checkpoints.enums import Role
from checkpoints.models import DEFAULT_WORKSPACE, Workspace
from harness_site.accounts.models import Membership


@dataclass(frozen=True)
class SignIn:
    name: str
    password: str


def reset_sign_in(name: str, role: Role, password: str = "") -> SignIn:
    """Create the user `name`, or give them back their role and a new password; random where none is given."""
    password = password or secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(username=name)
    user.is_active = True
    user.set_password(password)
    user.save()
    workspace = Workspace.objects.get(slug=DEFAULT_WORKSPACE)
    Membership.objects.update_or_create(user=user, workspace=workspace, defaults={"role": role})
    return SignIn(name, password)
