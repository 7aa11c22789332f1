import pytest
from django.test import Client

from tests.support.factories import make_user


@pytest.fixture
def reader(client: Client) -> Client:
    """Client of alice, an approver."""
    client.force_login(make_user(name="alice"))
    return client
