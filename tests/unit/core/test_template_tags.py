from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from checkpoints.db import clock
from harness_site.review.selectors.pending_calls import COUNT_LIMIT, BoundedCount

NOON = datetime(2025, 3, 4, 12, 0, 0, 7000, tzinfo=UTC)


def rendered(source: str, **context: object) -> str:
    return Template(source).render(Context(context))


def test_chip_has_a_shape_and_a_label() -> None:
    assert rendered("{% chip 'interrupted' %}") == '<span class="chip unknown">Outcome unknown</span>'
    assert rendered("{% chip 'completed' said %}", said="Done <b>") == '<span class="chip ok">Done &lt;b&gt;</span>'


def test_icon_is_taken_from_the_sprite_and_hidden_from_readers() -> None:
    assert rendered("{% icon 'copy' %}") == (
        '<svg class="icon" width="16" height="16" aria-hidden="true" viewBox="0 0 24 24">'
        '<use href="/static/icons/sprite.svg#copy"/></svg>'
    )


def test_time_of_another_day_has_a_date() -> None:
    assert rendered("{% at when %}", when=NOON) == (
        '<time datetime="2025-03-04T12:00:00.007Z" title="2025-03-04 12:00:00 UTC" data-time="at">'
        "2025-03-04 12:00:00</time>"
    )
    assert ">2025-03-04 12:00:00.007</time>" in rendered("{% at when milliseconds=True %}", when=NOON)


def test_time_of_today_has_no_date() -> None:
    now = clock.now()
    assert f">{now:%H:%M:%S}</time>" in rendered("{% at when %}", when=now)


def test_day_is_in_the_zone_of_the_reader_and_exact_on_hover() -> None:
    with timezone.override("Pacific/Auckland"):
        assert rendered("{% day when %}", when=NOON) == (
            '<time datetime="2025-03-04T12:00:00.007Z" title="2025-03-04 12:00:00 UTC" data-time="day">'
            "Wed 5 Mar 2025</time>"
        )


def test_relative_time_is_updated_by_the_page() -> None:
    assert 'data-time="ago">3 min ago</time>' in rendered("{% ago when %}", when=clock.now() - timedelta(seconds=190))


def test_id_can_be_copied() -> None:
    shown = rendered("{% copyable text %}", text='a"\u202eb')
    assert "<code>a&quot;‹U+202E›b</code>" in shown
    assert 'data-copy="a&quot;\u202eb"' in shown


@pytest.mark.parametrize(
    ("count", "icon"),
    [
        (None, "favicon.svg"),
        (BoundedCount(0), "favicon.svg"),
        (BoundedCount(9), "favicon-9.svg"),
        (BoundedCount(10), "favicon-many.svg"),
        (BoundedCount(COUNT_LIMIT, more=True), "favicon-many.svg"),
    ],
)
def test_favicon_shows_the_count(count: BoundedCount | None, icon: str) -> None:
    assert rendered("{% load harness_review %}{% favicon count %}", count=count) == f"/static/icons/{icon}"


@pytest.mark.parametrize(
    ("query", "tag", "link"),
    [
        ("", "{% narrowed tool='a b' %}", "?tool=a+b"),
        ("tab=decided&after=7", "{% narrowed agent='x&y' %}", "?tab=decided&amp;agent=x%26y"),
        ("tool=a&agent=b", "{% narrowed tool='' agent='' %}", "?"),
    ],
)
def test_filtered_list_starts_at_its_first_page(query: str, tag: str, link: str) -> None:
    assert rendered(tag, request=RequestFactory().get(f"/review/?{query}")) == link


def test_count_indicates_that_there_are_more() -> None:
    assert (str(BoundedCount(3)), str(BoundedCount(99, more=True)), bool(BoundedCount(0))) == ("3", "99+", False)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mcp__github__get_issue", ["mcp__", "github__", "get_", "issue"]),
        ("src/app/[id]/useTeam.ts", ["src/", "app/", "[id]/", "useTeam.ts"]),
        ("a&b.c_d", ["a&amp;b.", "c_", "d"]),
    ],
)
def test_names_break_after_separators_but_not_before_the_ending_of_a_file(name: str, parts: list[str]) -> None:
    assert rendered("{{ name|breakable }}", name=name).split("<wbr>") == parts
