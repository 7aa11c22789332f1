import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.db import connection
from django.db.models import Q
from django.test import Client

from checkpoints.enums import CallStatus, CostBasis, RunStatus, SessionStatus
from checkpoints.models import Session
from checkpoints.sessions.session_list_filters_and_sorting import (
    SessionFilter,
    Sort,
    get_order_fields,
    split_into_indexed_querysets,
)
from harness_site.search.models import SESSION_COUNTS, SessionSums
from harness_site.sessions.selectors import session_list_pages, session_rows
from tests.support.factories import THEN, make_call, make_run, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

#: A condition that every session meets.
ANY = Q(message_count__gte=0)

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def at(minute: float, **fields: object) -> Session:
    session = make_session(**fields)  # type: ignore[arg-type]
    Session.objects.filter(pk=session.pk).update(updated_at=THEN + timedelta(minutes=minute))
    return session


def listed(client: Client, address: str = "/sessions/") -> list[int]:
    page = client.get(address).content.decode()
    return [int(pk) for pk in re.findall(r'<tr id="session-(\d+)"', page)]


def following(client: Client, address: str = "/sessions/") -> str:
    found = re.search(r'rel="next" href="([^"]+)"', client.get(address).content.decode())
    return found[1].replace("&amp;", "&") if found else ""


@pytest.mark.parametrize("rows", [1, 3])
def test_query_count_is_independent_of_the_sessions(
    reader: Client, rows: int, django_assert_num_queries: Queries
) -> None:
    for _ in range(rows):
        session = make_session(status=SessionStatus.NEEDS_REVIEW)
        make_run(session=session)
        make_call(session=session)
    with django_assert_num_queries(15):
        assert len(listed(reader)) == rows


@pytest.mark.parametrize(
    "wanted",
    [
        SessionFilter(),
        SessionFilter(agent="desk"),
        SessionFilter(sort=Sort.COST),
        SessionFilter(among=(Q(pk__gt=0), Q(message_count__gte=0))),
        SessionFilter(agent="desk", among=(ANY, ANY)),
    ],
)
@pytest.mark.parametrize("size", [2, 3])
def test_every_page_shows_the_total(wanted: SessionFilter, size: int) -> None:
    """Also a single page, for which nothing is counted."""
    workspace = make_workspace().pk
    for minute in range(3):
        at(minute, agent="desk", budget_spent_usd=minute)
    first = session_rows.load_session_page(workspace, wanted, size=size)
    assert (len(first.rows), first.total, first.more) == (size, 3, False)
    if first.after is not None:
        assert session_rows.load_session_page(workspace, wanted, after=first.after, size=size).total == 3


def test_search_of_the_list_has_a_key(reader: Client) -> None:
    make_session()
    assert 'id="q" name="q" data-key="/"' in reader.get("/sessions/").content.decode()


def test_newest_activity_is_first(reader: Client) -> None:
    first, third, second = at(3), at(1), at(2)
    assert listed(reader) == [first.pk, second.pk, third.pk]


def test_row_shows_the_session_status(reader: Client) -> None:
    session = make_session(
        session_id="order-17",
        status=SessionStatus.NEEDS_REVIEW,
        latest_version=7,
        message_count=12,
        budget_spent_usd="0.031",
    )
    make_run(session=session, status=RunStatus.WAITING, host="worker-1")
    make_call(session=session)
    assert (
        "Refund for a broken lamp order-17 refund-desk Paused — 1 call needs a decision waiting on worker-1 "
        "7 12 $0.03 just now"
    ) in visible_text(reader.get("/sessions/"))


def test_cost_that_the_agent_never_stated_is_a_dash(reader: Client) -> None:
    make_session(cost_basis=CostBasis.UNKNOWN)
    assert "$" not in reader.get("/sessions/").content.decode().split("<tbody>")[1].split("</tbody>")[0]


def test_awaiting_approval_is_not_shown_as_unknown_outcome(reader: Client) -> None:
    session = make_session(status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session)
    make_call(session=session, status=CallStatus.AWAITING_APPROVAL)
    html = reader.get("/sessions/").content.decode()
    assert f'<tr id="session-{session.pk}" class="waits">' in html
    assert '<span class="chip wait">Paused — 1 call awaits approval</span>' in html
    make_call(session=session, call_id="call_10")
    html = reader.get("/sessions/").content.decode()
    assert f'<tr id="session-{session.pk}" class="unknown">' in html
    assert '<span class="chip unknown">Paused — 2 calls need a decision</span>' in html


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        (timedelta(hours=1), "Running on worker-3"),
        (timedelta(hours=-1), "Orphaned worker-3, last seen just now"),
        (None, "Idle"),
    ],
)
def test_active_session_shows_whether_a_process_drives_it(reader: Client, lease: timedelta | None, words: str) -> None:
    session = make_session()
    if lease is not None:
        make_run(session=session, lease=lease)
    page = visible_text(reader.get("/sessions/"))
    assert words in page
    assert "no process" not in page  # the status says so


def test_filter_by_status(reader: Client) -> None:
    running, stalled, done = make_session(), make_session(), make_session(status=SessionStatus.COMPLETED)
    make_run(session=running)
    make_run(session=stalled, lease=timedelta(hours=-1))
    lost, released, never_run = make_session(), make_session(), make_session()
    make_run(session=lost, owner=False, status=RunStatus.RELEASED)
    make_run(session=lost, owner=False, status=RunStatus.LOST)
    make_run(session=released, owner=False, status=RunStatus.LOST)
    make_run(session=released, owner=False, status=RunStatus.RELEASED)
    assert listed(reader, "/sessions/?status=running") == [running.pk]
    assert set(listed(reader, "/sessions/?status=stalled")) == {stalled.pk, lost.pk}
    assert set(listed(reader, "/sessions/?status=idle")) == {released.pk, never_run.pk}
    html = reader.get("/sessions/").content.decode()
    assert (html.count('chip wait">Orphaned<'), html.count('chip off">Idle<')) == (2, 2)
    assert listed(reader, "/sessions/?status=completed") == [done.pk]


def test_filter_by_agent_matches_the_complete_name(reader: Client) -> None:
    mine = make_session(agent="desk")
    make_session(agent="desk-2")
    assert listed(reader, "/sessions/?agent=desk") == [mine.pk]


@pytest.mark.parametrize(
    "query", ["status=nope", "after=nope", "after=2026-99-99~1", "rows=a,,-1", "agent=%00", "q=%00"]
)
def test_unknown_filter_is_ignored(reader: Client, query: str) -> None:
    session = make_session()
    response = reader.get(f"/sessions/?{query}")
    assert response.status_code == 200
    if "%00" not in query:
        assert f"session-{session.pk}" in response.content.decode()


def test_sessions_of_another_workspace_are_not_listed(reader: Client) -> None:
    make_session(workspace=make_workspace(slug="other"))
    assert listed(reader) == []


def test_pages_have_no_gaps_or_repeats(reader: Client) -> None:
    made = [at(minute).pk for minute in range(session_rows.PAGE + 5)]
    first = listed(reader)
    second = listed(reader, following(reader))
    assert first + second == made[::-1]
    assert following(reader, following(reader)) == ""


@pytest.mark.parametrize("micro", [0, 118_000, 118_001])
def test_pages_of_equal_times_have_no_gaps_or_repeats(micro: int) -> None:
    """SQLite stores times written by Python and by the database in different formats."""
    workspace = make_workspace()
    moment = THEN.replace(microsecond=micro)
    pks = [make_session().pk for _ in range(4)]
    Session.objects.filter(pk__in=pks).update(updated_at=moment)
    seen: list[int] = []
    after = None
    while True:
        page = session_rows.load_session_page(workspace.pk, SessionFilter(), after=after, size=1)
        seen += [row.pk for row in page.rows]
        after = page.after
        if after is None:
            break
    assert seen == pks[::-1]


@pytest.mark.parametrize("sort", [sort for sort in Sort if not sort.is_by_cost])
def test_sessions_of_every_order_of_time_are_read_in_the_order_of_indexes(sort: Sort) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # which sorts an empty table rather than reading an index
            cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off")
    parts = split_into_indexed_querysets(make_workspace().pk, SessionFilter(sort=sort))
    plans = [part.order_by(*get_order_fields(sort)).values("pk")[:2].explain() for part in parts]
    assert [plan for plan in plans if "Sort" in plan or "TEMP B-TREE" in plan] == []


@pytest.mark.parametrize("sort", [Sort.COST, Sort.COST_ASCENDING])
@pytest.mark.parametrize(
    ("condition", "index"),
    [(~Q(cost_basis=CostBasis.UNKNOWN), "session_costliest"), (Q(cost_basis=CostBasis.UNKNOWN), "session_unpriced")],
)
def test_sessions_of_known_and_of_unknown_cost_have_an_index_each(sort: Sort, condition: Q, index: str) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off")
    ended, active = split_into_indexed_querysets(make_workspace().pk, SessionFilter(sort=sort))
    for part, name in ((ended, index), (active, "session_active_costliest")):
        plan = part.filter(condition).order_by(*get_order_fields(sort)).values("pk")[:2].explain()
        assert name in plan
        assert "Sort" not in plan
        assert "TEMP B-TREE" not in plan


def test_filters_are_kept_on_the_next_page(reader: Client) -> None:
    for minute in range(session_rows.PAGE + 1):
        at(minute, agent="desk")
    make_session(agent="other")
    assert len(listed(reader, following(reader, "/sessions/?agent=desk"))) == 1


def test_open_page_keeps_its_order_and_new_sessions_come_to_a_short_list(reader: Client) -> None:
    older, newer = at(1), at(2)
    Session.objects.filter(pk=older.pk).update(updated_at=THEN + timedelta(minutes=9), title="Changed")
    address = f"/sessions/?rows={newer.pk},{older.pk}"
    assert listed(reader, address) == [newer.pk, older.pk]
    assert "Changed" in visible_text(reader.get(address))
    fresh = at(5)
    assert listed(reader, address) == [fresh.pk, newer.pk, older.pk]
    assert "3 sessions" in visible_text(reader.get(address))
    assert "newer activity" not in visible_text(reader.get(address))
    assert listed(reader, f"{address}&sort=started-asc") == [newer.pk, older.pk, fresh.pk]
    assert listed(reader) == [older.pk, fresh.pk, newer.pk]


def test_open_page_of_a_long_list_keeps_its_order_and_counts_newer_sessions(reader: Client) -> None:
    for minute in range(session_rows.PAGE + 1):
        at(minute)
    displayed = listed(reader)
    fresh = at(session_rows.PAGE + 9)
    address = f"/sessions/?rows={','.join(map(str, displayed))}"
    assert listed(reader, address) == displayed
    assert "Show 1 session with newer activity" in visible_text(reader.get(address))
    assert listed(reader)[0] == fresh.pk


def test_open_page_shows_no_session_of_another_workspace(reader: Client) -> None:
    foreign, own = make_session(workspace=make_workspace(slug="other")), make_session()
    assert listed(reader, f"/sessions/?rows={foreign.pk}") == [own.pk]


def test_empty_installation_is_explained(reader: Client) -> None:
    page = visible_text(reader.get("/sessions/"))
    assert "No sessions yet The first session appears here by itself as soon as an agent starts one." in page
    assert "import" not in page


def test_empty_result_is_reported(reader: Client) -> None:
    make_session()
    page = visible_text(reader.get("/sessions/?agent=nowhere"))
    assert "No session matches the filters." in page
    assert "No sessions yet" not in page
    assert "Enter complete names of agents, labels, tools and people." in page
    assert "Export CSV" not in page
    page = visible_text(reader.get("/sessions/?status=failed"))
    assert "No session matches the filters. Changes of the last seconds may be missing." in page


def read_near_names(reader: Client, address: str) -> list[tuple[str, str]]:
    """Read the names that an empty list offers, with their addresses."""
    html = reader.get(address).content.decode()
    return [
        (name, unescape(url)) for url, name in re.findall(r'<a class="btn" href="([^"]+)"><bdi>([^<]+)</bdi>', html)
    ]


def test_names_like_one_that_nothing_has_are_offered(reader: Client) -> None:
    for agent in ("refund-desk", "desk", "mailer"):
        make_session(agent=agent, labels='["vip-customers"]')
    assert read_near_names(reader, "/sessions/?agent=refund&status=failed") == [
        ("refund-desk", "?agent=refund-desk&status=failed")
    ]
    assert [name for name, _ in read_near_names(reader, "/sessions/?agent=DESK")] == ["desk", "refund-desk"]
    assert [name for name, _ in read_near_names(reader, "/sessions/?agent=mialer")] == ["mailer"]
    assert [name for name, _ in read_near_names(reader, "/sessions/?agent=mailer&label=vip")] == ["vip-customers"]
    assert read_near_names(reader, "/sessions/?agent=vip-customers&status=failed") == [
        ("vip-customers", "?status=failed&label=vip-customers")
    ]
    assert read_near_names(reader, "/sessions/?agent=nowhere") == []
    assert read_near_names(reader, "/sessions/?agent=mailer&status=failed") == [], "the name is right"
    assert [name for name, _ in read_near_names(reader, "/sessions/?q=lamp&agent=refund")] == ["refund-desk"]
    text = visible_text(reader.get("/sessions/?agent=refund"))
    assert "Did you mean: refund-desk Agent" in text
    assert "Enter complete names" not in text


def test_label_of_a_session_without_an_agent_does_not_stand_in_its_place(reader: Client) -> None:
    make_session(session_id="order-1", agent="", labels='["langfuse"]')
    make_session(session_id="order-2", agent="desk", labels='["langfuse"]')
    page = visible_text(reader.get("/sessions/"))
    assert "no agent langfuse" in page
    assert "desk langfuse" in page


def test_agent_of_old_sessions_is_offered_from_the_sums_of_its_days(reader: Client) -> None:
    session = make_session(agent="mailer")
    SessionSums.objects.create(
        workspace_id=session.workspace_id,
        start=datetime(2025, 3, 1, tzinfo=UTC),
        hourly=False,
        agent="refund-desk",
        cost=0,
        **dict.fromkeys(SESSION_COUNTS, 0),
    )
    assert [name for name, _ in read_near_names(reader, "/sessions/?agent=refund")] == ["refund-desk"]


@pytest.mark.parametrize("wanted", [SessionFilter(), SessionFilter(among=(ANY, ANY))])
def test_totals_are_counted_up_to_a_limit(wanted: SessionFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = make_workspace()
    for _ in range(3):
        make_session()
    monkeypatch.setattr(session_list_pages, "LIMIT", 2)
    page = session_rows.load_session_page(workspace.pk, wanted, size=1)
    assert (len(page.rows), page.total, page.more) == (1, 2, True)


@pytest.mark.parametrize("session_id", ["a/b:c.d e", "ünï/漢字", "x" * 255, "../..", "%2e%2e"])
def test_session_is_found_by_its_id(reader: Client, session_id: str) -> None:
    session = make_session(session_id=session_id)
    response = reader.get("/sessions/find/", {"id": session_id})
    assert response.headers["Location"] == f"/sessions/{session.pk}/"


@pytest.mark.parametrize("session_id", ["", "order", "\0", "x" * 5000, "<script>"])
def test_unknown_id_is_explained(reader: Client, session_id: str) -> None:
    make_session(session_id="order-17")
    response = reader.get("/sessions/find/", {"id": session_id})
    assert response.status_code == 404
    assert "There is no session with the id" in visible_text(response)


def read_headings(reader: Client, address: str) -> list[tuple[str, str, str]]:
    """Read the words, `aria-sort` and the link of the headings of the list that sort it."""
    head = reader.get(address).content.decode().split("<thead>")[1].split("</thead>")[0]
    pattern = r'(?: aria-sort="(\w+)")?><a class="sort" href="([^"]+)" title="[^"]+">(\w+)</a></th>'
    return [(words, direction, unescape(url)) for direction, url, words in re.findall(pattern, head)]


def test_headings_sort_in_both_directions_and_keep_the_filter(reader: Client) -> None:
    make_session(agent="desk")
    assert read_headings(reader, "/sessions/?agent=desk&after=2999-01-01%2010:00:00~1") == [
        ("Cost", "", "/sessions/?agent=desk&sort=cost"),
        ("Updated", "descending", "/sessions/?agent=desk&sort=updated-asc"),
    ]
    assert read_headings(reader, "/sessions/?sort=cost") == [
        ("Cost", "descending", "/sessions/?sort=cost-asc"),
        ("Updated", "", "/sessions/"),
    ]
    assert read_headings(reader, "/sessions/?sort=started-asc")[1] == (
        "Started",
        "ascending",
        "/sessions/?sort=started",
    )


def test_lowest_cost_and_oldest_activity_come_first(reader: Client) -> None:
    newer, oldest = at(3, budget_spent_usd=1), at(1, budget_spent_usd=2)
    assert listed(reader, "/sessions/?sort=updated-asc") == [oldest.pk, newer.pk]
    assert listed(reader, "/sessions/?sort=cost-asc") == [newer.pk, oldest.pk]
    unknown = at(4, cost_basis=CostBasis.UNKNOWN, status=SessionStatus.COMPLETED)
    free = at(5, budget_spent_usd=0)
    assert listed(reader, "/sessions/?sort=cost-asc") == [free.pk, newer.pk, oldest.pk, unknown.pk]
    assert listed(reader, "/sessions/?sort=cost") == [oldest.pk, newer.pk, free.pk, unknown.pk]
    assert "All agent sessions, the lowest cost first." in visible_text(reader.get("/sessions/?sort=cost-asc"))


@pytest.mark.parametrize("query", ["status=failed", "agent=mail", "first=2026-01-01", "interrupted=1"])
def test_filtered_list_is_not_called_all_sessions(reader: Client, query: str) -> None:
    at(1)
    for sort, words in [("", "the latest activity first."), ("cost", "the highest cost first.")]:
        page = visible_text(reader.get(f"/sessions/?{query}&sort={sort}"))
        assert f"Sessions that match the filters, {words}" in page
        assert "All agent sessions" not in page
