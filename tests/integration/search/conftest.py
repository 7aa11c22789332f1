import re
from collections.abc import Callable

import pytest
from django.test import Client

from harness_site.search import indexer
from harness_site.search.models import Progress
from tests.support.factories import make_user

Search = Callable[..., list[str]]


def complete() -> None:
    while indexer.index_next_batch():
        pass


@pytest.fixture(autouse=True)
def nothing_is_indexed(db: None) -> None:
    """Clear the index, because a stopped server of an earlier test may have finished a batch afterwards."""
    Progress.objects.all().delete()


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


@pytest.fixture
def search(reader: Client) -> Search:
    """Function that searches and returns the URLs of the results."""

    def found(text: str, **more: str) -> list[str]:
        page = reader.get("/sessions/", {"q": text, **more}).content.decode()
        places = re.findall(r'<li><a href="([^"]+)"><span class="source-line">', page)
        return [place.replace("&amp;", "&") for place in places]

    return found
