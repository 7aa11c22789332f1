"""Each number and bar leads to a list of what it counts."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product

import pytest
from django.db.models import F
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from checkpoints.enums import ActorKind, CallStatus, DecisionKind, RunStatus, SessionStatus
from checkpoints.models import Session, ToolCall
from harness_site.core.time_range_parameters import TimeRange
from harness_site.overview import current_session_counts, period_totals, periods
from harness_site.overview.period_totals import SessionTotals
from harness_site.search import recount_session_sums_by_day
from tests.integration.overview.started_sessions_and_settled_calls import load_totals, make_started_session
from tests.integration.search.conftest import complete
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import THEN, make_call, make_decision, make_run, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_numbers_of_sessions_agree_with_the_lists_that_they_link_to(reader: Client) -> None:
    """A quarantined session has no other status in the list, so it is counted under no other."""
    now = datetime.now(UTC)
    for quarantined_at in (None, now):
        for status in set(SessionStatus) - {SessionStatus.ACTIVE, SessionStatus.CANCELLED}:
            make_started_session(0, status=status, quarantined_at=quarantined_at)
        make_run(session=make_started_session(0, quarantined_at=quarantined_at), owner=False, status=RunStatus.LOST)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert [each.number for each in (found.stalled, found.ready, found.paused, found.quarantined)] == [1, 1, 2, 6]
    assert load_totals().total == SessionTotals(sessions=12, completed=1, failed=1, undecided=1, ready=1)
    page = reader.get("/overview/").content.decode()
    assert "6 sessions are quarantined" in page
    main = page[page.index('<div id="overview"') :]
    counts = {"quarantined": 6, "stalled": 1, "ready": 1, "failed": 1}
    links = {f"status={status}": number for status, number in counts.items()}
    for link, number in {**links, "sort=started": 12}.items():
        query = re.findall(rf'href="/sessions/\?({link}[^"]*)"', main)[0]
        assert reader.get("/sessions/?" + query.replace("&amp;", "&")).context["page"].total == number, link


@pytest.mark.parametrize("period", ["period=24h", "period=90d", "first=2026-03-02&last=2026-03-01"])
def test_numbers_and_bars_link_to_what_they_count(reader: Client, period: str) -> None:
    for days in (0, 0.1, 1):
        make_started_session(days, "1.25", agent="desk", status=SessionStatus.FAILED)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get(f"/overview/?{period}").content.decode()
    swap = 'href="?first=2026-03-01&amp;last=2026-03-02">Swap the two days<' in page
    assert swap == ('name="first" value="2026-03-02"' in page) == ("first" in period)
    now, links = datetime.now(UTC), re.findall(r'href="(/sessions/[^"]*status=failed&amp;sort=started[^"]*)"', page)
    first, last = f"{now:%Y-%m-%d}", f"{now:%Y-%m-%d}"
    if "24h" in period:
        first, last = f"{now:%Y-%m-%dT%H}:00", f"{now + timedelta(hours=1):%Y-%m-%dT%H}:00"
    elif "90d" in period:
        first = f"{now - timedelta(days=6):%Y-%m-%d}"
    bar = f"/sessions/?first={first}&amp;last={last}&amp;status=failed&amp;sort=started"
    assert bar in links
    # Before midnight, 24 hours are a whole day, which the link names by its date.
    end = f"{now:%Y-%m-%d}" if "24h" in period and now.hour == 23 else last
    of_period = [link for link in links if link.startswith("/sessions/?status") and link.endswith(f"last={end}")]
    assert of_period
    for link in (bar, *of_period):
        assert "desk" in visible_text(reader.get(link.replace("&amp;", "&")))


def test_the_hour_of_a_bar_selects_what_it_counts(reader: Client) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for title, start in (("before", -1), ("inside", 59), ("after", 60)):
        moment = hour + timedelta(minutes=start)
        session = make_session(title=title, session_id=title)
        Session.objects.filter(pk=session.pk).update(created_at=moment)
        call = make_call(session=session, issued_at=moment, interrupted_at=moment, status=CallStatus.FAILED)
        make_decision(call=call, created_at=moment)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=24h").content.decode()
    first, last = f"{hour:%Y-%m-%dT%H}:00", f"{hour + timedelta(hours=1):%Y-%m-%dT%H}:00"
    bars = re.findall(f'href="([^"]*[?]first={first}&amp;last={last}&amp;[^"]*)" aria-label=', page)
    assert {bar.replace(f"first={first}&amp;last={last}&amp;", "") for bar in bars} == {
        "/sessions/?sort=started",
        "/sessions/?status=failed&amp;sort=started",
        "/calls/?interrupted=1",
        "/review/?tab=decided&amp;by=people",
    }
    for bar in {*bars} - {bar for bar in bars if "status=failed" in bar}:
        listed = reader.get(bar.replace("&amp;", "&")).content.decode()
        assert set(re.findall(r">(before|inside|after)<", listed)) == {"inside"}, bar
        assert re.search(rf'type="datetime-local" id="[a-z-]*first" name="first" value="{first}"', listed)


def test_a_session_without_times_is_in_no_list_of_started_sessions(reader: Client) -> None:
    make_started_session(0, title="imported", has_times=False)
    make_started_session(0, title="known")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert load_totals().total.sessions == 1
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    listed = reader.get(f"/sessions/?sort=started&first={today}&last={today}").content.decode()
    assert re.findall(r'dir="auto">(\w+)</a>', listed) == ["known"]


def test_sessions_and_calls_without_times_are_in_no_period(reader: Client) -> None:
    """The time of an import is no time of what was imported; empty lists lead to it."""
    now = datetime.now(UTC)
    known, imported = make_session(title="known", agent="desk"), make_session(agent="swe", labels='["swe"]')
    for session, tool in ((known, "edit"), (imported, "edit"), (imported, "bash")):
        make_call(
            session=session,
            call_id=tool,
            tool=tool,
            status=CallStatus.FAILED,
            issued_at=now,
            settled_at=now,
            interrupted_at=None,
        )
    Session.objects.filter(pk=imported.pk).update(has_times=False, title="fix of a parser")
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert [(tool.name, tool.failed) for tool in load_totals().tools] == [("edit", 1)]
    today = f"first={now:%Y-%m-%d}&last={now:%Y-%m-%d}"
    for sort in ("", "&sort=started", "&sort=cost"):
        assert set(
            re.findall(r">(known|fix of a parser)<", reader.get(f"/sessions/?{today}{sort}").content.decode())
        ) == {"known"}, sort
        response = reader.get(f"/sessions/?agent=swe&{today}{sort}")
        words = visible_text(response)
        assert "1 session that matches the other filters has no times, because its source has none" in words, sort
        assert "Did you mean" not in words, sort
        (link,) = re.findall(r'<a class="btn" href="([^"]*)">Show them without', response.content.decode())
        assert ">fix of a parser<" in reader.get("/sessions/" + link.replace("&amp;", "&")).content.decode()
    page = visible_text(reader.get(f"/calls/?{today}"))
    assert "fix of a parser" not in page
    assert "edit 1 0 1 (100 %)" in page
    assert "in the last column. 1 call What it does" in page
    response = reader.get(f"/calls/?agent=swe&tool=bash&{today}")
    assert "1 call that matches the other filters has no time, because its source has none" in visible_text(response)
    (link,) = re.findall(r'<a class="btn" href="([^"]*)">Show them without', response.content.decode())
    assert "fix of a parser" in visible_text(reader.get("/calls/" + link.replace("&amp;", "&")))
    yesterday = (now - timedelta(days=1)).date()
    nothing = visible_text(reader.get(f"/sessions/?agent=swe&label=none&first={yesterday}&last={yesterday}"))
    assert "no times, because" not in nothing


def test_the_list_behind_a_bar_of_decisions_has_those_that_were_counted(reader: Client) -> None:
    """Votes, withdrawals and verify hooks have no waiting time; several decisions of one session count one by one."""
    now = datetime.now(UTC)
    session = make_session()
    for number, (kind, actor_kind, fields) in enumerate(
        [
            ("confirm_landed", "person", {}),
            ("approve", "token", {"status": CallStatus.APPROVED, "interrupted_at": None}),
            ("mark_failed", "person", {}),
            ("probe_landed", "hook", {}),
            ("withdraw", "person", {}),
            ("approve_rerun", "person", {}),
        ]
    ):
        times = {"issued_at": now, "interrupted_at": now}
        call = make_call(session=session, step=number, **{"status": CallStatus.COMPLETED, **times, **fields})  # type: ignore[arg-type]
        make_decision(
            call=call,
            kind=DecisionKind(kind),
            actor_kind=ActorKind(actor_kind),
            final=kind != "approve_rerun",
            created_at=now,
        )
    before = make_call(session=session, step=9, status=CallStatus.COMPLETED, interrupted_at=THEN)
    yesterday = make_decision(call=before, created_at=now - timedelta(days=1))
    complete()
    assert load_totals().waits.decisions == 4
    page = reader.get("/overview/").content.decode()
    (bar,) = re.findall(rf'href="(/review/[^"]*first={now:%Y-%m-%d}[^"]*)" aria-label="[^"]*3 decisions', page)
    listed = reader.get(bar.replace("&amp;", "&"))
    assert sorted(row.kind for row in listed.context["decisions"]) == ["approve", "confirm_landed", "mark_failed"]
    assert "Decisions about 3 calls" in visible_text(listed)
    (whole,) = re.findall(r'href="(/review/[?]tab=decided[^"]*)"><small>', page)
    shown = [row.pk for row in reader.get(whole.replace("&amp;", "&")).context["decisions"]]
    assert (len(shown), shown[-1]) == (4, min(yesterday.pk, *shown))


def test_an_interrupted_call_that_ran_again_stays_counted_and_listed(reader: Client) -> None:
    now = datetime.now(UTC)
    session = make_session()
    lost = make_call(session=session, tool="pay", call_id="lost", issued_at=now, interrupted_at=now)
    before = now - timedelta(hours=2)
    other = make_call(session=make_session(), tool="mail", issued_at=before, interrupted_at=before)
    numbers = []
    for status in (CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED, CallStatus.SUPERSEDED):
        ToolCall.objects.filter(pk=lost.pk).update(status=status, revision=F("revision") + 1)
        if status is CallStatus.SUPERSEDED:
            make_call(
                session=session,
                tool="pay",
                attempt=2,
                status=CallStatus.COMPLETED,
                issued_at=now,
                settled_at=now + timedelta(seconds=1),
            )
        complete()
        numbers.append(load_totals().interrupted_call_count)
        page = reader.get("/overview/?period=24h").content.decode()
        (whole,) = re.findall(r'class="small" href="(/calls/[^"]*)">2</a>', page)
        listed = reader.get(whole.replace("&amp;", "&"))
        assert [row.call.record.pk for row in listed.context["rows"]] == [lost.pk, other.pk]
        (of_tool,) = set(re.findall(r'href="(/calls/[?]interrupted=1&amp;tool=pay[^"]*)">1</a>', page))
        listed = reader.get(of_tool.replace("&amp;", "&"))
        assert [row.call.record.pk for row in listed.context["rows"]] == [lost.pk]
    assert numbers == [2, 2, 2]
    (pay,) = (tool for tool in load_totals().tools if tool.name == "pay")
    assert (pay.calls, pay.interrupted) == (2, 1)


@pytest.mark.parametrize(
    ("zone", "days"),
    mark_all_but_each(
        4,
        first=1,
        cases=product(
            ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"],
            [
                ("2026-10-22", "2026-11-03"),  # the clocks are set back in Berlin and New York
                ("2026-09-26", "2026-09-28"),  # and set forward in Auckland
                ("2026-10-25", "2026-10-25"),
                ("2026-09-02", "2026-11-09"),  # in steps of a week
                ("24h", ""),
            ],
        ),
    ),
)
def test_every_number_is_that_of_the_list_behind_it_in_each_zone(zone: str, days: tuple[str, str]) -> None:
    first, last = days
    now = datetime(2026, 10, 25, 22, 10, tzinfo=UTC)
    asked = f"first={first}&last={last}&zone={zone}" if last else "period=24h"
    with timezone.override(zone):
        period, problem = periods.parse_period_and_problem(QueryDict(asked), now)
    assert not problem
    starts = period.preceding_start + timedelta(minutes=17), period.end
    distance = max((starts[1] - starts[0]) / 300, timedelta(minutes=20))
    moments = [starts[0] + number * distance for number in range(-9, 310)]
    session = make_session()
    Session.objects.bulk_create(
        Session(
            workspace=session.workspace,
            session_id=f"at-{number}",
            agent=f"desk-{number % 3}",
            created_at=moment,
            updated_at=moment,
            has_times=True,
            budget_spent_usd=number,
        )
        for number, moment in enumerate(moments)
    )
    for day in {moment.date() for moment in moments}:
        recount_session_sums_by_day.recount_session_sums_of_day(session.workspace_id, day)
    found = period_totals.load_period_totals(session.workspace_id, period)

    def get_numbers_in(query: str) -> set[int]:
        times = TimeRange.parse_query(QueryDict(query))
        assert times.since is not None
        assert times.until is not None
        return {number for number, moment in enumerate(moments) if times.since <= moment < times.until}

    for step, step_totals in found.steps:
        numbers = get_numbers_in(period.build_query_string_of_chart_step(step))
        assert (step_totals.sessions, step_totals.cost) == (len(numbers), Decimal(sum(numbers)))
    of_period = get_numbers_in(period.build_query_string())
    assert (found.total.sessions, found.total.cost) == (len(of_period), Decimal(sum(of_period)))
    assert {each.name: each.totals.sessions for each in found.agents} == Counter(
        f"desk-{each % 3}" for each in of_period
    )
    before = [moment for moment in moments if period.preceding_start <= moment < period.start]
    assert found.preceding.sessions == len(before)
