import pytest
from django.test import Client

from checkpoints.models import Session
from tests.support.factories import make_run, make_session, make_user


@pytest.fixture
def session() -> Session:
    session = make_session(session_id="order-17")
    make_run(session=session)
    return session


@pytest.fixture
def reader(client: Client) -> Client:
    """Client of an approver."""
    client.force_login(make_user())
    return client
