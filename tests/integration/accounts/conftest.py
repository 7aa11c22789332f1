"""Accounts for these tests: alice is an approver, bob an admin, carol an auditor, mallory has no membership."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.enums import Role
from tests.support.client_login import sign_in
from tests.support.factories import PASSWORD, make_user


def with_password(user: User) -> User:
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def alice(db: None) -> User:
    return with_password(make_user(name="alice", role=Role.APPROVER))


@pytest.fixture
def bob(db: None) -> User:
    return with_password(make_user(name="bob", role=Role.ADMIN))


@pytest.fixture
def carol(db: None) -> User:
    return with_password(make_user(name="carol", role=Role.AUDITOR))


@pytest.fixture
def admin(bob: User) -> Client:
    """Client signed in as bob."""
    return sign_in(Client(), bob)
