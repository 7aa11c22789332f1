import re
from collections.abc import Callable

import pytest
from django.test import Client

from harness_site.search import indexer
from harness_site.search.models import Progress
from tests.support.factories import make_user

Search = Callable[..., list[str]]


def complete() -> None:
    while indexer.index_next_batch_of_each_kind():
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
    """Function that searches and returns the URLs of the results; of a session that only its title names, its own."""

    def found(text: str, **more: str) -> list[str]:
        page = reader.get("/sessions/", {"q": text, **more}).content.decode()
        places: list[str] = []
        for group in page.split('<li id="session-')[1:]:
            head = group.split("</header>")[0]
            hits = re.findall(r'<li><a href="([^"]+)"><span class="source-line">', group)
            places += hits or (re.findall(r'<h3><a data-row href="([^"]+)"', head) if "<mark>" in head else [])
        return [place.replace("&amp;", "&") for place in places]

    return found
