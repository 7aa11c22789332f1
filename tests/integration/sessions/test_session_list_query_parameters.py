"""Filters and orders of the session list in its URL."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models import Q
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.enums import ActorKind, CallStatus, CostBasis, SessionStatus
from checkpoints.models import Session
from checkpoints.sessions import agent_and_label_suggestions
from checkpoints.sessions.session_list_filters_and_sorting import (
    SessionFilter,
    Sort,
    get_order_fields,
    select_sessions_by_filter,
)
from harness_site.saved_views.list_filter_normalization import FILTERS
from harness_site.search import indexer
from harness_site.search.models import Fact, Progress
from harness_site.sessions.selectors import session_list_pages, session_rows
from harness_site.sessions.session_list_query_parameters import parse_session_filter
from tests.integration.search.conftest import complete
from tests.integration.sessions.test_session_list import following, listed
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
DAY = datetime(2025, 3, 4, tzinfo=UTC)


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def made(*, created: float = 0, updated: float = 0, **fields: object) -> int:
    """A session with its times in days from `DAY`."""
    session = make_session(**fields)  # type: ignore[arg-type]
    times = {"created_at": DAY + timedelta(days=created), "updated_at": DAY + timedelta(days=updated)}
    Session.objects.filter(pk=session.pk).update(**times)
    return session.pk


def test_filters_by_label_tool_decision_and_interruption(reader: Client) -> None:
    plain = make_session()
    labelled = make_session(labels='["vip","late"]')
    called = make_call(session=make_session(), tool="send_mail", status=CallStatus.COMPLETED)
    decided = make_decision(call=make_call(session=make_session()), actor="bob")
    make_decision(
        call=make_call(session=plain, tool="x", status=CallStatus.FAILED), actor="sweep", actor_kind=ActorKind.MACHINE
    )
    complete()
    assert listed(reader, "/sessions/?label=vip") == [labelled.pk]
    assert listed(reader, "/sessions/?label=vi") == []
    assert listed(reader, "/sessions/?tool=send_mail") == [called.session_id]
    assert listed(reader, "/sessions/?by=bob") == [decided.session_id]
    assert listed(reader, "/sessions/?by=sweep") == []
    assert listed(reader, "/sessions/?interrupted=1") == [decided.session_id]
    assert listed(reader, "/sessions/?interrupted=1&tool=send_mail") == []


@pytest.mark.parametrize("sort", Sort.values)
def test_combined_filters_keep_the_order(sort: str) -> None:
    for number in range(8):
        label = f'["label-{number % 2}"]'
        made(created=number, budget_spent_usd=number, agent=f"desk-{number // 4}", labels=label)
    complete()
    workspace, found = make_workspace().pk, []
    days = "&first=2025-03-05&last=2025-03-12" if Sort(sort).is_by_start else ""
    for asked in ("agent=desk-0&label=label-1&least=2", "agent=desk-1&label=label-0&least=5"):
        filters = parse_session_filter(workspace, QueryDict(f"{asked}&sort={sort}{days}"))
        anew = (
            select_sessions_by_filter(workspace, filters)
            .order_by(*get_order_fields(filters.sort))
            .values_list("pk", flat=True)
        )
        assert [row.pk for row in session_list_pages.load_partial_sessions_after_cursor(workspace, filters, 9)] == list(
            anew
        )
        assert session_list_pages.count_sessions_up_to_limit(workspace, filters) == len(anew)
        found.append(len(anew))
    assert found == [1, 1]


def test_count_by_one_trait_reads_no_sessions_and_other_conditions_count_too() -> None:
    for number in range(6):
        session = make_session(labels='["vip"]', agent=f"desk-{number % 2}", budget_spent_usd=number)
        make_call(session=session, tool=f"tool-{number % 3}", status=CallStatus.COMPLETED)
    complete()
    workspace, numbers = make_workspace().pk, []
    for asked in ("", "&agent=desk-1", "&status=running", "&status=failed", "&least=4", "&tool=tool-2", "&decided=1"):
        wanted = parse_session_filter(workspace, QueryDict(f"label=vip{asked}"))
        with CaptureQueriesContext(connection) as queries:
            numbers.append(session_list_pages.count_sessions_up_to_limit(workspace, wanted))
        assert any('"checkpoints_session"' in query["sql"] for query in queries) == bool(asked)
    assert numbers == [6, 3, 6, 0, 2, 2, 0]


def test_incomplete_index_finds_the_newest_with_a_note(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # A web process of another test may have indexed the store before it was emptied.
    Progress.objects.all().delete()
    monkeypatch.setattr(indexer, "STEP", 1)
    old, new = (make_session(labels='["vip"]') for _ in range(2))
    make_message(session=old, created_at=DAY)
    indexer.index_next_batch_of_each_kind()
    assert listed(reader, "/sessions/?label=vip") == [new.pk]
    page = visible_text(reader.get("/sessions/?label=vip"))
    assert f"The search index is incomplete: {old.pk:,} older text" in page
    for others in ("agent=desk", "tool=send_mail", "sort=started&first=2025-03-04"):
        assert "The search index is incomplete" not in visible_text(reader.get(f"/sessions/?{others}"))
    assert "The search index is incomplete" in visible_text(reader.get("/sessions/?first=2025-03-04"))
    complete()
    assert listed(reader, "/sessions/?label=vip") == [new.pk, old.pk]
    assert "The search index is incomplete" not in visible_text(reader.get("/sessions/?label=vip"))


def test_later_interruption_is_found_after_indexing(reader: Client) -> None:
    call = make_call(session=make_session(), status=CallStatus.ISSUED)
    complete()
    assert listed(reader, "/sessions/?interrupted=1") == []
    type(call).objects.filter(pk=call.pk).update(interrupted_at=DAY, status="interrupted", revision=2)
    complete()
    assert listed(reader, "/sessions/?interrupted=1") == [call.session_id]


def test_session_is_found_on_every_day_with_activity(reader: Client) -> None:
    talked, called, decided, quiet = (made(created=-9, updated=30) for _ in range(4))
    other = made(created=-9, updated=0)
    at = DAY + timedelta(hours=23.99)
    make_message(session=Session.objects.get(pk=talked), created_at=at)
    make_call(session=Session.objects.get(pk=called), issued_at=DAY - timedelta(days=1), settled_at=at)
    make_decision(call=make_call(session=Session.objects.get(pk=decided), issued_at=DAY - timedelta(2)), created_at=at)
    complete()
    assert set(listed(reader, "/sessions/?first=2025-03-04&last=2025-03-04")) == {talked, called, decided}
    assert listed(reader, "/sessions/?first=2025-03-04&last=2025-03-04&sort=cost&by=alice") == [decided]
    assert listed(reader, "/sessions/?first=2025-03-05") == []
    assert listed(reader, "/sessions/?first=2025-03-03&last=2025-03-03") == [called]
    assert set(listed(reader, "/sessions/?last=2025-02-23")) == {talked, called, decided, quiet, other}


def test_result_by_day_opens_at_that_day_and_links_to_its_calls(reader: Client) -> None:
    session = make_session(agent="refund desk")
    for number in range(3):
        make_message(session=session, created_at=DAY + timedelta(days=number))
    make_checkpoint(session=session)
    complete()
    html = reader.get("/sessions/?first=2025-03-05&last=2025-03-05&agent=refund+desk").content.decode()
    place = f"/sessions/{session.pk}/jump/?to=day&amp;day=2025-03-05T00:00"
    assert f'<a data-row href="{place}"' in html
    assert 'href="/calls/?first=2025-03-05&amp;last=2025-03-05&amp;zone=UTC&amp;agent=refund%20desk"' in html
    led = reader.get(place.replace("&amp;", "&")).headers["Location"]
    assert led == f"/sessions/{session.pk}/?v=1&at=1#m-1"
    assert reader.get(led).status_code == 200
    late = reader.get(f"/sessions/{session.pk}/jump/?to=day&day=2025-03-09").headers["Location"]
    assert late == f"/sessions/{session.pk}/?v=1&at=2#m-2"
    assert reader.get(f"/sessions/{session.pk}/jump/?to=day&day=x").status_code == 302


def test_list_by_start_filters_days_of_the_start(reader: Client) -> None:
    early, late = made(created=-3, updated=0.999), made(created=-1, updated=1)
    assert listed(reader, "/sessions/?sort=started&first=2025-03-02") == [late]
    assert listed(reader, "/sessions/?sort=started&last=2025-03-02") == [early]


def test_list_accepts_times_beside_days(reader: Client) -> None:
    early, late = made(created=0.5), made(created=0.75)
    for pk, minute in ((early, 1), (late, 59)):
        make_message(session=Session.objects.get(pk=pk), created_at=DAY + timedelta(hours=40, minutes=minute))
    make_message(session=Session.objects.get(pk=late), created_at=DAY + timedelta(hours=41))
    complete()
    assert listed(reader, "/sessions/?sort=started&first=2025-03-04T12:00&last=2025-03-04T18:00") == [early]
    assert listed(reader, "/sessions/?sort=started&first=2025-03-04T12:00:01&last=2025-03-04") == [late]
    assert set(listed(reader, "/sessions/?first=2025-03-05T16:00&last=2025-03-05T17:00")) == {early, late}
    assert listed(reader, "/sessions/?first=2025-03-05T17:00&last=2025-03-05T18:00Z") == [late]
    page = reader.get("/sessions/?first=2025-03-05T17:00&last=2025-03-05").content.decode()
    assert 'type="datetime-local" id="first" name="first" value="2025-03-05T17:00"' in page
    assert 'type="date" id="last" name="last" value="2025-03-05"' in page
    assert f"/sessions/{late}/jump/?to=day&amp;day=2025-03-05T17:00" in page


def test_decisions_of_people_are_found_with_and_without_a_time(reader: Client) -> None:
    decided = make_decision(call=make_call(session=make_session()), actor="bob", created_at=DAY)
    make_decision(call=make_call(session=make_session()), actor="hook", actor_kind=ActorKind.MACHINE, created_at=DAY)
    complete()
    assert listed(reader, "/sessions/?decided=1") == [decided.session_id]
    assert listed(reader, "/sessions/?decided=1&first=2025-03-04T00:00&last=2025-03-04T01:00") == [decided.session_id]
    assert listed(reader, "/sessions/?decided=1&first=2025-03-04T01:00") == []


def test_filters_suggest_the_values_of_sessions_of_the_workspace(reader: Client) -> None:
    session, other = make_session(), make_session(workspace=make_workspace(slug="elsewhere"))
    make_call(session=session, tool="send_mail", step=2)
    make_decision(call=make_call(session=session, tool="refund_card"), actor="bob")
    make_call(session=other, tool="ship_parcel")
    make_message(session=session, body={"role": "assistant", "content": "Done.", "model": "small-1"})
    complete()
    page = reader.get("/sessions/").content.decode()
    suggested = {
        name: re.findall(r'<option value="([^"]*)">', rest.partition("</datalist>")[0])
        for name, rest in re.findall(r'<datalist id="known-(\w+)">(.*)', page)
    }
    assert suggested == {
        "tool": ["refund_card", "send_mail"],
        "by": ["bob"],
        "project": [],
        "branch": [],
        "model": ["small-1"],
        "program": [],
    }


def test_cost_filter_has_two_bounds(reader: Client) -> None:
    cheap, dear = made(budget_spent_usd="0.031"), made(budget_spent_usd="12.5")
    assert listed(reader, "/sessions/?least=0.031&most=1") == [cheap]
    assert listed(reader, "/sessions/?least=$12.50") == [dear]
    assert listed(reader, "/sessions/?least=12,5") == [dear]
    assert set(listed(reader, "/sessions/?least=-1&most=a")) == {cheap, dear}


@pytest.mark.parametrize("agent", ["", "desk"])
@pytest.mark.parametrize("sort", mark_all_but_each(2, Sort.values))
@pytest.mark.parametrize("conditions", [(), (Q(pk__gt=0), Q(parent_session_id=""))])
@pytest.mark.parametrize("counted", [4, 1000])
def test_pages_of_every_order_have_no_gaps_or_repeats(
    sort: str, agent: str, conditions: tuple[Q, ...], counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_list_pages, "LIMIT", counted)
    workspace = make_workspace()
    untimed, unpriced = {1, 5, 6}, {0, 2, 6}  # those without times come last in an order of time, the others of cost
    pks = [
        made(
            created=n // 2,
            updated=-(n // 2),
            budget_spent_usd=Decimal(0) if n in unpriced else (Decimal(n // 3) / 7).quantize(Decimal("0.000001")),
            cost_basis=CostBasis.UNKNOWN if n in unpriced else CostBasis.STATED,
            agent="desk",
            status=("active", "completed", "paused")[n % 3],
            has_times=n not in untimed,
        )
        for n in range(7)
    ]
    order = SessionFilter(sort=Sort(sort), agent=agent, among=conditions)
    seen: list[int] = []
    after = None
    while True:
        page = session_rows.load_session_page(workspace.pk, order, after=after, size=2)
        seen += [row.pk for row in page.rows]
        if page.after is None:
            break
        after = session_list_pages.parse_page_cursor(str(page.after), order.sort)
    assert sorted(seen) == pks
    ranks = {"updated": [-(n // 2) for n in range(7)], "started": [n // 2 for n in range(7)]}
    key = ranks.get(sort.removesuffix("-asc"), [0 if n in unpriced else n // 3 for n in range(7)])
    last = unpriced if order.sort.is_by_cost else untimed
    ordered = sorted(range(7), key=lambda n: (key[n], n), reverse=not order.sort.is_ascending)
    assert seen == [pks[n] for n in sorted(ordered, key=lambda n: n in last)]


def test_next_page_keeps_filters_and_order(reader: Client) -> None:
    made(budget_spent_usd=5, agent="other")
    pks = [made(budget_spent_usd=number, agent="desk") for number in range(session_rows.PAGE + 1)]
    address = "/sessions/?agent=desk&sort=cost"
    assert listed(reader, address) == pks[:0:-1]
    assert listed(reader, following(reader, address)) == [pks[0]]


@pytest.mark.parametrize("rows", [1, 3])
def test_query_count_is_independent_of_rows_and_filters(
    reader: Client, rows: int, django_assert_num_queries: Queries
) -> None:
    for _ in range(rows):
        make_call(session=make_session(labels='["vip"]', agent="desk", budget_spent_usd=3))
    complete()
    with django_assert_num_queries(15):
        address = (
            "/sessions/?label=vip&agent=desk&tool=refund_card&interrupted=1&least=1&most=9&sort=cost&status=running"
            "&first=2025-03-04"
        )
        page = reader.get(address).content.decode()
        assert len(re.findall('<tr id="session-', page)) == rows


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        ("first=x&last=9999-12-31", ["“x” is not a day", "“9999-12-31” is not a day"]),
        ("least=1e9&most=.", ["“1e9” is not an amount", "“.” is not an amount"]),
        ("least=1,500", ["“1,500” is not an amount"]),
        ("least=" + "9" * 30, ["9” is not an amount"]),
        (
            "sort=nope&status=nix&models=x",
            ["“nope” is not an order", "“nix” is not a status", "“x” is not a number of models"],
        ),
        ("sort=cost&after=2025-01-01~1", []),
        ("label=%00", []),
    ],
)
def test_invalid_filter_is_ignored_and_named(reader: Client, query: str, sentences: list[str]) -> None:
    pk = made()
    page = reader.get(f"/sessions/?{query}").content.decode()
    assert f'id="session-{pk}"' in page
    assert page.count('aria-invalid="true"') == sum("a day" not in sentence for sentence in sentences)
    assert page.count('class="errorlist"') == bool(sentences)
    assert [sentence for sentence in sentences if sentence not in page] == []
    assert ("Save this view" in page) is (query == "sort=cost&after=2025-01-01~1")


def test_error_of_a_cost_is_below_the_range_of_costs(reader: Client) -> None:
    made()
    page = reader.get("/sessions/?least=1,500&status=nix").content.decode()
    top, below = page.split('<details class="more-filters"')
    assert re.findall("“(.*?)” is not", top) == ["nix"]
    assert re.findall("“(.*?)” is not", below) == ["1,500"]
    assert 'name="least"' in below.partition('aria-describedby="cost-errors"')[0].rpartition("<input")[2]
    assert 'id="cost-errors"' in below


def test_every_list_filter_is_saved_in_views() -> None:
    page = {"rows", "after", "newest", "then", "before", "within"}
    asked = QueryDict("&".join(f"{name}=1" for name in FILTERS["sessions"]))
    assert parse_session_filter(1, asked)
    assert not page & set(FILTERS["sessions"])


def test_labels_link_to_sessions_with_them(reader: Client) -> None:
    make_session(labels='["v & p","<i>"]', agent="desk")
    page = reader.get("/sessions/?agent=desk").content.decode()
    assert 'href="?agent=desk&amp;label=v+%26+p">v &amp; p</a>' in page
    assert "&lt;i&gt;</a>" in page


def test_agents_of_finished_sessions_of_any_age_are_suggested(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_and_label_suggestions, "_RECENT_SESSIONS", 1)
    for agent in ("gemini-cli", "codex", "codex", ""):
        make_session(agent=agent, status=SessionStatus.COMPLETED)
    make_session(agent="elsewhere", status=SessionStatus.FAILED, workspace=make_workspace(slug="other"))
    make_session(agent="desk")
    page = reader.get("/sessions/").content.decode()
    suggestions = page.partition('<datalist id="agents">')[2].partition("</datalist>")[0]
    assert re.findall(r'<option value="([^"]*)">', suggestions) == ["codex", "desk", "gemini-cli"]


def test_values_of_deleted_sessions_are_not_suggested(reader: Client) -> None:
    session = make_session(labels='["vip"]')
    complete()
    session.head_segment = None
    session.save()
    session.segments.all().delete()
    session.delete()
    assert not Fact.objects.exists()


@pytest.mark.parametrize(
    ("query", "folded"),
    [
        ("", "<summary>Filter and sort"),
        ("?q=lamp", "<summary>Filter and sort"),
        ("?status=failed", "<summary>Change 1 filter<"),
        ("?q=lamp&status=failed&tool=mail&first=2025-03-01&last=2025-03-02", "<summary>Change 3 filters<"),
    ],
)
def test_filters_are_folded_on_a_phone_and_counted(reader: Client, query: str, folded: str) -> None:
    make_session()
    assert f'<details class="phone-fold">{folded}' in reader.get(f"/sessions/{query}").content.decode()


def test_filters_with_an_error_are_not_folded(reader: Client) -> None:
    make_session()
    page = reader.get("/sessions/?status=lost-and-found").content.decode()
    assert '<details class="phone-fold" open><summary>Change 1 filter<' in page
