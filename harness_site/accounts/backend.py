"""Who is signed in, read together with what they may do: every page asks for both."""

from __future__ import annotations

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from django.contrib.auth.base_user import AbstractBaseUser

from harness_site.accounts import memberships


class Backend(AuthenticationBackend):  # type: ignore[misc]
    def get_user(self, user_id: Any) -> AbstractBaseUser | None:
        """One query for a member, two for somebody who is in no workspace."""
        user: AbstractBaseUser | None = memberships.person(int(user_id)) or super().get_user(user_id)
        return user if self.user_can_authenticate(user) else None
