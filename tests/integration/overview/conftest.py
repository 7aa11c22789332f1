"""Fixtures of the tests of the overview."""

import pytest
from django.test import Client

from harness_site.search.models import Progress
from tests.support.factories import make_user


@pytest.fixture(autouse=True)
def nothing_is_indexed(db: None) -> None:
    """The indexer of a server that an earlier test stopped may have finished its last batch after that test."""
    Progress.objects.all().delete()


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client
