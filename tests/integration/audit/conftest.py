"""Fixtures of the audit trail."""

import pytest
from django.test import Client

from checkpoints.enums import Role
from tests.support.factories import make_user


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    return client
