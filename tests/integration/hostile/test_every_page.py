"""Hostile text in every field, on every page: it is shown as what it is, and takes no page away."""

from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import Role
from harness_site.search import indexing
from tests.support.factories import make_user
from tests.support.hostile_text import TOGETHER, hidden_in, make_hostile_session, pages_of
from tests.support.signing import sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    return sign_in(client, make_user(role=Role.ADMIN))


def check(response: Any, address: str) -> str:
    assert response.status_code == 200, address
    html = str(response.content.decode())
    assert hidden_in(html) == set(), address
    assert not any(hidden_in(f"{name}{value}") for name, value in response.headers.items())
    assert response.headers["Content-Type"].startswith("text/plain") or "<script id=evil>" not in html
    return html


@pytest.mark.parametrize("text", TOGETHER)
def test_every_page_shows_hostile_text_as_what_it_is(reader: Client, text: str) -> None:
    session = make_hostile_session(text)
    while indexing.step():
        pass
    for address in pages_of(session):
        html = check(reader.get(address), address)
        assert "cannot be shown" not in html, address
