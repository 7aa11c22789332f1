"""Sums of costs and tokens, by agent and model, and how they are shown."""

import csv
import re
import tomllib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from time import sleep

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.enums import CostBasis, Phase, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from harness_site.overview.templatetags import harness_overview
from harness_site.search import recount_session_sums_by_day
from harness_site.search.models import ModelSums
from harness_site.sessions.money_and_count_formatting import render_rounded_money
from harness_site.sessions.selectors import session_list_pages
from tests.integration.overview.started_sessions_and_settled_calls import load_totals, make_started_session
from tests.integration.search.conftest import complete
from tests.support.factories import make_checkpoint, make_message, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_costs_are_summed_by_model_and_link_to_their_sessions(reader: Client) -> None:
    """The model is named by messages, usage or a phase; a cost is divided only if the parts are stated."""
    imported = make_started_session(0, "1", title="imported")
    make_message(session=imported, body={"role": "user", "source": {"context": {"model": "large-1"}}})
    make_message(session=make_started_session(3, "2", title="answered"), body={"role": "assistant", "model": "large-1"})
    make_message(session=make_started_session(0, "16", title="quoted"), body={"role": "user", "model": "no-model"})
    usage = {"by_model": {"large-1": {"cost_usd": "3"}, "small-1": {"cost_usd": 0.5, "output_tokens": 9}}}
    make_checkpoint(
        session=make_started_session(0, "4", title="routed", total_tokens=2_000_000), usage=to_canonical_json(usage)
    )
    phased, mixed = make_started_session(0, "32", title="phased"), make_started_session(0, "64", title="mixed")
    make_checkpoint(session=phased, phase=Phase.POST_LLM, payload='{"details":{"finish_reason":"","model":"small-1"}}')
    make_checkpoint(session=phased, phase=Phase.PRE_LLM, payload='{"details":{"model":"asked-for"}}')
    for model in ("large-1", "small-1"):
        make_checkpoint(session=mixed, usage=to_canonical_json({"model": model}), payload="not JSON")
        recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert load_totals().models == ()  # the messages have not been read yet
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(datetime.now(UTC))
    rows = {("several" if row.several else row.name): (row.sessions, row.cost) for row in load_totals().models}
    assert rows == {
        "large-1": (3, Decimal(6)),
        "small-1": (2, Decimal("32.5")),
        "several": (2, Decimal("64.5")),
        "": (1, Decimal(16)),
    }
    assert {("several" if row.several else row.name): row.tokens for row in load_totals().models} == {
        "large-1": 0,
        "small-1": 9,
        "several": 1_999_991,
        "": 0,
    }
    page = reader.get("/overview/").content.decode()
    assert '<span title="1,999,991">2.0 M</span>' in page
    for link, titles in {
        "model=large-1": {"imported", "answered", "routed", "mixed"},
        "model=small-1": {"routed", "mixed", "phased"},
        "models=undivided": {"routed", "mixed"},
        "models=unknown": {"quoted"},
    }.items():
        (query,) = re.findall(rf'href="/sessions/\?([^"]*{link})"', page)
        listed = reader.get("/sessions/?" + query.replace("&amp;", "&")).content.decode()
        assert set(re.findall(r'dir="auto">(\w+)</a>', listed)) == titles


def test_list_of_a_model_says_which_part_of_the_sums_is_its_own(reader: Client) -> None:
    """The sums of a list are those of whole sessions, of which the overview counts a part for each model."""
    usage = {
        "by_model": {
            "large-1": {"cost_usd": "3", "output_tokens": 70},
            "small-1": {"cost_usd": "0.5", "output_tokens": 30},
        }
    }
    routed = make_started_session(0, "3.5", title="routed", agent="desk", total_tokens=100)
    make_checkpoint(session=routed, usage=to_canonical_json(usage))
    alone = make_started_session(1, "2", title="alone", total_tokens=40)
    make_checkpoint(session=alone, usage=to_canonical_json({"model": "small-1"}))
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=14d")
    assert "small-1 2 70 $2.50" in visible_text(page)
    (query,) = re.findall(r'href="/sessions/\?([^"]*model=small-1)"', page.content.decode())
    address = "/sessions/?" + unescape(query)
    assert "Cost $5.50, of which small-1 $2.50 Tokens 140, of which small-1 70" in visible_text(reader.get(address))
    of_agent = visible_text(reader.get(f"{address}&agent=desk"))
    assert "Cost $3.50, of which small-1 $0.50 Tokens 100, of which small-1 30" in of_agent
    whole = "Cost $5.50 Tokens 140 also of the other models of these sessions"
    for further in ("&least=0", "&most=100"):
        assert whole in visible_text(reader.get(address + further)), further
    assert whole in visible_text(reader.get("/sessions/?model=small-1"))
    assert "other models" not in visible_text(reader.get("/sessions/"))


def test_rest_of_rounded_costs_makes_no_row_of_several_models(reader: Client) -> None:
    """Sessions are among those of several models while nothing divides a part of their cost."""
    usage = {"by_model": {"large-1": {"cost_usd": "0.008303"}, "small-1": {"cost_usd": "0.004034"}}}
    session = make_started_session(0, "0.012338", title="rounded")
    make_checkpoint(session=session, usage=to_canonical_json(usage))
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    costs = {(row.name, row.several): row.cost for row in load_totals().models}
    assert costs == {("large-1", False): Decimal("0.008304"), ("small-1", False): Decimal("0.004034")}
    assert "several models" not in visible_text(reader.get("/overview/"))
    assert "rounded" not in visible_text(reader.get("/sessions/?models=undivided"))
    assert "rounded" in visible_text(reader.get("/sessions/?models=several"))
    for cost, is_listed in (("0.5", True), ("0.012338", False)):
        Session.objects.filter(pk=session.pk).update(budget_spent_usd=cost)
        recount_session_sums_by_day.recount_changed_days_and_record_models(None)
        assert ("several models" in visible_text(reader.get("/overview/"))) == is_listed
        assert ("rounded" in visible_text(reader.get("/sessions/?models=undivided"))) == is_listed


def test_what_a_fork_has_copied_is_not_spent_twice(cp: SyncCheckpointer, reader: Client) -> None:
    """A fork is a session of its own. Its past, which its original has paid, counts there alone."""
    registry = ToolRegistry()

    @registry.tool(side_effects={"write"})
    def mail(to: str) -> str:
        # SQLite stores milliseconds, and a call without a duration has no mean.
        sleep(0.01)
        return f"sent to {to}"

    def spend(session_id: str, cost: str, **usage: object) -> None:
        with cp.session(session_id, "", agent="desk", registry=registry) as session:
            session.append([{"role": "user", "content": "more"}], budget_spent_usd=Decimal(cost), usage=usage)

    with cp.session("origin", "", agent="desk", registry=registry) as session:
        session.append([{"role": "user", "content": "hello"}])
        session.dispatch("mail", {"to": "ana"}, call_id="c1")
    spend("origin", "4", model="large-1", total_tokens=1_000_000)
    for name in ("idle", "busy", "pruned", "counts anew", "of two"):
        cp.fork_session("origin", name)
    spend("busy", "4.5", model="large-1", total_tokens=1_200_000)
    spend("pruned", "6", model="large-1", total_tokens=1_400_000)
    cp.prune("pruned", keep_last=1)
    spend("counts anew", "0.25", model="large-1", total_tokens=20_000)
    spend("of two", "5", by_model={"large-1": {"cost_usd": 4}, "small-1": {"cost_usd": 1}}, total_tokens=1_000_500)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    found = load_totals()
    assert (found.total.sessions, found.total.tokens) == (6, 1_000_000 + 200_000 + 400_000 + 20_000 + 500)
    assert found.total.cost == Decimal(4) + Decimal("0.5") + 2 + Decimal("0.25") + 1
    assert found.total == load_totals("period=24h").total
    assert {(row.name, row.several): (row.sessions, row.tokens, row.cost) for row in found.models} == {
        ("large-1", False): (5, 1_620_000, Decimal("6.75")),
        ("", True): (1, 500, Decimal(1)),
    }
    assert [(tool.name, tool.calls) for tool in found.tools] == [("mail", 1)]
    words = visible_text(reader.get("/sessions/?sort=cost"))
    assert "6 sessions Cost $7.75 Tokens 1,620,500" in words
    for cost in ("$4.00", "$0.00 + $4.00 copied", "$0.50 + $4.00 copied", "$2.00 + $4.00 copied", "$0.25"):
        assert re.search(rf" {re.escape(cost)} (?![+])", words), cost
    exported = list(csv.DictReader(b"".join(reader.get("/sessions/export/")).decode().splitlines()))
    assert sum(Decimal(row["cost_usd"]) for row in exported) == found.total.cost
    assert sum(int(row["tokens"] or 0) for row in exported) == found.total.tokens
    copied = {row["session"]: (row["copied_cost_usd"], row["copied_tokens"]) for row in exported}
    assert {copied[name] for name in ("idle", "busy", "pruned", "of two")} == {("4.000000", "1000000")}
    assert {copied[name] for name in ("origin", "counts anew")} == {("", "")}
    busy = Session.objects.get(session_id="busy").pk
    words = visible_text(reader.get(f"/sessions/{busy}/"))
    assert "Cost $0.50 + $4.00 copied from the original" in words
    assert "Tokens 200,000 + 1,000,000 copied from the original" in words
    words = visible_text(reader.get(f"/sessions/{busy}/costs/"))
    assert "Cost $0.50 + $4.00 copied from the original" in words
    assert "What a fork has copied counts for its original." in words
    page = visible_text(reader.get("/overview/"))
    assert "Sessions started6" in page
    assert "Cost$7.75" in page
    assert "Slowest tools Tool Finished Failed Mean mail 1 " in page
    assert "Cost by model Model Sessions Tokens Cost large-1 5 1.6 M $6.75 several models 1 500 $1.00" in page
    ModelSums.objects.update(cost=0)
    page = visible_text(reader.get("/overview/"))
    assert "Tokens by model Model Sessions Tokens large-1 5 1.6 M several models 1 500" in page
    ModelSums.objects.update(tokens=0)
    page = visible_text(reader.get("/overview/"))
    assert re.search("Sessions by model Model Sessions large-1 5 several models 1(?! –)", page)


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (0, "–"),
        (999, "999"),
        (27_566, '<span title="27,566">28 k</span>'),
        (999_499, '<span title="999,499">999 k</span>'),
        (999_500, '<span title="999,500">1.0 M</span>'),
    ],
)
def test_large_numbers_of_tokens_are_rounded(tokens: int, shown: str) -> None:
    assert harness_overview.render_token_sum(tokens) == shown


def test_a_cost_says_what_is_estimated_and_what_is_missing(reader: Client) -> None:
    make_session(agent="desk", budget_spent_usd="2", cost_basis=CostBasis.ESTIMATED)
    make_session(agent="mail", budget_spent_usd="3")
    for _ in range(2):
        make_session(agent="mail", budget_spent_usd="0", cost_basis=CostBasis.UNKNOWN)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/")
    assert "2 have no known cost" in visible_text(page)
    html = page.content.decode()
    assert '<abbr title="A part of this is an estimate from the price table">≈</abbr> $5.00' in html
    assert '<abbr title="An estimate from the price table">≈</abbr> $2.00' in html
    assert '<td class="number" title="2 have no known cost">$3.00</td>' in html
    assert "neither their agents nor a price table" not in visible_text(page)  # half of the costs are known


def test_unknown_costs_of_most_sessions_lead_to_the_price_table(reader: Client, client: Client) -> None:
    make_session(agent="desk", budget_spent_usd="2")
    for _ in range(2):
        make_session(agent="mail", budget_spent_usd="0", cost_basis=CostBasis.UNKNOWN)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    sentence = "The cost of 2 of 3 sessions is unknown: neither their agents nor a price table state it."
    page = visible_text(reader.get("/overview/"))
    assert f"{sentence} An admin sees under Settings, System how to set up a price table." in page
    assert "2 have no known cost" in visible_text(reader.get("/overview/?agent=mail"))
    client.force_login(make_user(name="root", role=Role.ADMIN))
    html = client.get("/overview/").content.decode()
    assert 'href="/settings/system/#prices">Set up a price table</a>' in html
    system = client.get("/settings/system/").content.decode()
    assert 'id="prices"' in system
    table = re.search(r'<pre[^>]*id="price-table"[^>]*><code>(.*?)</code>', system, re.DOTALL)
    assert table is not None
    assert list(tomllib.loads(unescape(table[1]))["models"]) == ["my-model-*"]


def test_a_cost_of_zero_is_known_and_that_of_sessions_without_any_is_not(reader: Client) -> None:
    make_started_session(0, agent="desk", cost_basis=CostBasis.UNKNOWN)
    make_started_session(0, agent="free")
    make_started_session(0, "0.25", agent="paid")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = visible_text(reader.get("/overview/"))
    assert "desk 1 0 of 1 0 –" in page
    assert "free 1 0 of 1 0 $0.00" in page
    assert re.search(r"free\b.{0,60}\$0\.00", visible_text(reader.get("/sessions/?agent=free")))
    of_desk = visible_text(reader.get("/overview/?agent=desk"))
    assert re.search(r"Cost ?– ?1 has no known cost", of_desk)
    newest_step = of_desk.partition("The numbers of the charts as a table")[2].partition("Cost")[2]
    assert re.match(r" \S+ 1 0 0 0 0 0 1 – ", newest_step)


def test_model_without_a_cost_has_zero_if_a_session_states_it_and_none_otherwise(reader: Client) -> None:
    unknown = {"cost_basis": CostBasis.UNKNOWN}
    for model, cost, fields in (
        ("paid-1", "1", {}),
        ("free-1", "0", {}),
        ("unpriced-1", "0", unknown),
        (None, "0", unknown),
    ):
        usage = None if model is None else to_canonical_json({"model": model})
        make_checkpoint(session=make_started_session(0, cost, **fields), usage=usage)
    complete()
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert {row.name: row.known_cost for row in load_totals().models} == {
        "paid-1": Decimal(1),
        "free-1": Decimal(0),
        "unpriced-1": None,
        "": None,
    }
    words = visible_text(reader.get("/overview/"))
    models = words.partition("Cost by model")[2]
    assert "free-1 1 $0.00" in models
    assert "unpriced-1 1 –" in models
    make_started_session(0, "0")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert {row.name: row.known_cost for row in load_totals().models}[""] == Decimal(0)


def test_cost_by_agent_is_known_as_soon_as_one_session_states_it(reader: Client) -> None:
    make_started_session(0, agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    make_started_session(0, "0.5", agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert "desk 2 0 of 2 0 $0.50" in visible_text(reader.get("/overview/"))
    # As with tools, a share is stated from three on.
    make_started_session(0, "0.5", agent="desk")
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    assert "desk 3 0 % 0 $1.00" in visible_text(reader.get("/overview/"))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("0.0000004", '<span title="$0.00">&lt; $0.01</span>'),
        ("0.004", '<span title="$0.004">&lt; $0.01</span>'),
        ("0.009705", '<span title="$0.009705">$0.01</span>'),
        ("12.5", "$12.50"),
        ("1234.567", '<span title="$1,234.567">$1,234.57</span>'),
    ],
)
def test_amounts_are_rounded_to_cents_and_exact_on_hover(amount: str, shown: str) -> None:
    assert render_rounded_money(Decimal(amount)) == shown


def test_tokens_stand_where_the_cost_is_unknown(reader: Client) -> None:
    make_session(agent="desk", budget_spent_usd="0", cost_basis=CostBasis.UNKNOWN, total_tokens=1_234_567)
    make_session(agent="mail", budget_spent_usd="2", total_tokens=8)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    for address in ("/overview/", "/sessions/"):
        response = reader.get(address)
        assert "1.2 M tokens" in visible_text(response)
        assert 'title="1,234,567 tokens, the cost is unknown"' in response.content.decode()
        assert "8 tokens" not in visible_text(response)


def test_list_behind_the_cost_of_a_period_has_the_same_sums(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sessions are added up one by one, and many from the sums of their hours and days where these are the same."""
    make_started_session(0, "1.5", agent="desk", total_tokens=100)
    make_started_session(0, "0.25", agent="mailer", total_tokens=10)
    make_started_session(3, "2", agent="desk", total_tokens=1_000)
    make_started_session(3, "0", agent="desk", total_tokens=5, cost_basis=CostBasis.UNKNOWN)
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    page = reader.get("/overview/?period=14d").content.decode()
    period = "/sessions/?" + unescape(re.findall(r'href="/sessions/\?(sort=started[^"]*)"', page)[0])

    def read_sums(address: str, limit: int) -> str:
        monkeypatch.setattr(session_list_pages, "LIMIT", limit)
        words = visible_text(reader.get(address))
        (found,) = re.findall(r"sessions? (Cost .*? Tokens [\d,]+)", words) or [""]
        return str(found)

    assert {read_sums(period, limit) for limit in (1_000, 1)} == {"Cost $3.75 (unknown for 1) Tokens 1,115"}
    of_agent = f"{period}&agent=desk"
    assert {read_sums(of_agent, limit) for limit in (1_000, 1)} == {"Cost $3.50 (unknown for 1) Tokens 1,105"}
    assert "including deleted sessions" not in visible_text(reader.get(period))
    for further in ("least=0", "status=idle", "first=", "last=", "last=2030-01-01T10:30"):
        address = f"{period}&{further}"
        assert (bool(read_sums(address, 1_000)), read_sums(address, 1)) == (True, ""), further


def test_list_says_that_sums_of_old_days_include_deleted_sessions(
    reader: Client, cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [make_started_session(20, cost, agent="desk", total_tokens=100) for cost in ("1", "2", "4")]
    recount_session_sums_by_day.recount_changed_days_and_record_models(None)
    cp.delete_session(sessions[2].session_id)
    start = datetime.now(UTC).date() - timedelta(days=30)
    period = f"/sessions/?sort=started&first={start}T00:00&last={start + timedelta(days=25)}T00:00"
    assert "2 sessions Cost $3.00 Tokens 200" in visible_text(reader.get(period))
    assert "including deleted sessions" not in visible_text(reader.get(period))
    monkeypatch.setattr(session_list_pages, "LIMIT", 1)
    words = visible_text(reader.get(period))
    assert "More than 1 sessions Cost $7.00 Tokens 300 including deleted sessions" in words
