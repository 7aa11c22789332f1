"""Links between the pages of a list."""

from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.test import RequestFactory

from harness_site.core.pagination_links import LONGEST_TRAIL, PageLinks, build_first_previous_and_next_links


def links(address: str, following: Any = None) -> PageLinks:
    return build_first_previous_and_next_links(RequestFactory().get(address), "after", following)


def test_only_page_has_no_links() -> None:
    alone = links("/calls/?tool=&after=")
    assert alone == PageLinks("", "", "", 1)
    assert not alone


def test_filters_stay_and_the_page_before_has_the_cursors_before_it() -> None:
    first = links("/calls/?tool=pay&agent=", "a~1")
    assert first == PageLinks("", "", "/calls/?tool=pay&after=a~1", 1)
    third = links("/calls/?tool=pay&after=a~1&after=b~2", "c~3")
    assert third.first == "/calls/?tool=pay"
    assert third.previous == "/calls/?tool=pay&after=a~1"
    assert third.following == "/calls/?tool=pay&after=a~1&after=b~2&after=c~3"
    assert third.number == 3


def test_address_does_not_grow_without_end() -> None:
    address, numbers = "/calls/", []
    for number in range(LONGEST_TRAIL + 10):
        address = unescape(links(address, f"c~{number}").following)
        numbers.append(links(address).number)
        assert len(parse_qs(urlsplit(address).query)["after"]) <= LONGEST_TRAIL
        assert parse_qs(urlsplit(address).query)["after"][-1] == f"c~{number}"
    assert numbers == [*range(2, LONGEST_TRAIL + 2), *[None] * 10]
    steps = 0
    while address := links(address).previous:
        steps += 1
        assert links(address).number in {None, 1}
    assert steps == LONGEST_TRAIL - 1


def test_parameters_of_this_page_alone_are_left_out() -> None:
    request = RequestFactory().get("/sessions/?q=lamp&rows=3,4&before=a~1")
    assert build_first_previous_and_next_links(request, "before", "b~2", without=("rows",)) == PageLinks(
        "/sessions/?q=lamp", "/sessions/?q=lamp", "/sessions/?q=lamp&before=a~1&before=b~2", 2
    )
