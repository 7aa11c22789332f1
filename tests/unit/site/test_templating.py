"""What a page was made of goes when the page is made."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.template import TemplateDoesNotExist, engines
from django.template.loader import get_template
from django.test import RequestFactory

from harness_site.templating import Template


class Named:
    """What a view gives a template."""

    def __str__(self) -> str:
        return "Ada <ada@example.org>"


@pytest.fixture
def nobody_looks() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def request_for(rf: RequestFactory) -> HttpRequest:
    request: HttpRequest = rf.get("/")
    request.user = AnonymousUser()
    return request


def test_a_page_leaves_nothing_behind(request_for: HttpRequest, nobody_looks: None) -> None:
    given = Named()
    left = weakref.ref(given)
    page = get_template("parts/able.html").render({"able": [given]}, request_for)
    assert page == "Who can: <b>Ada &lt;ada@example.org&gt;</b>.\n"
    del given
    assert left() is None


def test_what_a_page_needs_and_is_not_there_is_named() -> None:
    site: Any = engines["django"]
    page = Template(site.from_string('{% include "parts/none.html" %}').template, site)
    with pytest.raises(TemplateDoesNotExist, match=r"parts/none\.html") as missing:
        page.render()
    assert missing.value.backend is site
