import json
import re
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CostBasis
from checkpoints.models import Session
from tests.support.factories import make_checkpoint, make_messages, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def read_costs_page(client: Client, cost_basis: CostBasis) -> str:
    client.force_login(make_user(name="alice"))
    session = make_session(total_tokens=4200, cost_basis=cost_basis)
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    return visible_text(client.get(f"/sessions/{session.pk}/costs/"))


def test_totals_are_shown_where_no_version_states_its_usage(client: Client) -> None:
    page = read_costs_page(client, CostBasis.UNKNOWN).partition("History")[2]
    assert "Cost– Tokens4,200 Input– Output–" in page
    assert "The cost is unknown: neither the agent nor a price table states it." in page
    assert "Usage is not recorded by turn." in page
    assert "By turn" not in page


def test_turns_are_listed_where_a_version_states_its_cost(client: Client) -> None:
    page = read_costs_page(client, CostBasis.STATED)
    assert "Cost$0.00 Tokens4,200 Input– Output–" in page.partition("History")[2]
    assert "By turn" in page
    assert "Usage is not recorded by turn." not in page


@pytest.mark.parametrize(
    ("costs", "shown"),
    [
        (("0.0032106", "0.0025217"), ("$0.003210", "$0.002522")),  # rounded, they are a millionth more than the total
        (("0.0032104", "0.0025214"), ("$0.003211", "$0.002521")),  # and here a millionth less
    ],
)
def test_costs_of_models_add_up_to_the_cost_of_the_session(
    client: Client, costs: tuple[str, str], shown: tuple[str, str]
) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.005732")
    make_messages(session=session, texts=["a"])
    by_model = {
        name: {"input_tokens": tokens, "cost_usd": cost}
        for name, tokens, cost in zip(("large-1", "small-1"), (9, 7), costs, strict=True)
    }
    total = str(sum(map(Decimal, costs)))
    make_checkpoint(
        session=session,
        budget_spent_usd=f'"{total}"',
        usage=json.dumps({"input_tokens": 16, "by_model": by_model}),
    )
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/"))
    assert "Cost$0.005732" in page
    assert f"large-1 9 – 9 {shown[0]} small-1 7 – 7 {shown[1]}" in page.partition("By model")[2]


def test_columns_of_unknown_costs_are_left_out(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.UNKNOWN)
    make_messages(session=session, texts=["a"])
    usage = '{"input_tokens":7,"output_tokens":5,"by_model":{"small-1":{"input_tokens":7,"output_tokens":5}}}'
    make_checkpoint(session=session, usage=usage)
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("By model")[2]
    assert "Model Input Output Total small-1 7 5 12 By turn" in page
    assert "Version Input Output Total v1" in page
    assert "Cost" not in page


def test_turns_have_their_cost_and_the_total_without_columns_for_unknown_tokens(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.05")
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session, budget_spent_usd="0.02", usage='{"model":"small-1"}')
    make_checkpoint(session=session, budget_spent_usd="0.05", usage='{"model":"large-1"}')
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("History")[2]
    assert "Cost$0.05 Versions2 Cost per version$0.025" in page
    assert "Running totals by version Cost $0.05" in page
    assert (
        "By turn Most expensive: v2, $0.03 (60 % of all) The bars compare the cost. Version Model Cost Cost so far v2"
        in page
    )
    assert "large-1 $0.03 $0.05 v1" in page


@pytest.mark.parametrize(
    ("usage", "cells"),
    [
        (
            {
                "input_tokens": 100,
                "output_tokens": 10,
                "cache_read_input_tokens": 900,
                "cache_creation_input_tokens": 50,
            },
            "100 10 900 50 86 % 1,060",
        ),
        (
            {"input_tokens": 1050, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 900}},
            "150 10 900 86 % 1,060",
        ),
    ],
)
def test_kinds_of_tokens_add_up_to_the_total_with_the_cache(client: Client, usage: dict[str, Any], cells: str) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.UNKNOWN)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session, usage=json.dumps({**usage, "by_model": {"small-1": usage}}))
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("History")[2]
    input_tokens, output, read, *written, _share, _sign, total = cells.split()
    written_card, written_column = (f"Cache write{written[0]} ", "Cache write ") if written else ("", "")
    cards = (
        f"Tokens{total} Input{input_tokens}without the cache Output{output} "
        f"Cache read{read}86 % of all input {written_card}"
    )
    assert cards in page
    assert f"Model Input Output Cache read {written_column}Cache share Total small-1 {cells} By turn" in page
    assert page.partition("By turn")[2].count(cells) == 1


def test_tokens_of_unstated_kind_have_a_column(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.UNKNOWN)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session, usage='{"input_tokens":7,"output_tokens":5,"total_tokens":20}')
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("History")[2]
    assert "Tokens20 Input7 Output5 Other tokens8only in the total" in page
    assert "Version Input Output Other tokens Total v1" in page
    assert "7 5 8 20" in page


def test_tokens_stated_only_by_model_are_added_up_for_the_session_and_its_turns(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.UNKNOWN)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session, usage='{"by_model":{"large-1":{"input_tokens":7,"output_tokens":5}}}')
    two = {"large-1": {"input_tokens": 9, "output_tokens": 5}, "small-1": {"input_tokens": 4}}
    make_checkpoint(session=session, usage=json.dumps({"by_model": two}))
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("History")[2]
    assert "Cost– Tokens18 Input13 Output5" in page
    assert "Running totals by version Tokens 18" in page
    assert "Version Input Output Total v2" in page
    assert "6 0 6 v1" in page


def test_most_expensive_turn_is_none_that_cost_as_much_as_another_or_that_a_fork_copied(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.06")
    make_messages(session=session, texts=["a"])
    for spent in ("0.02", "0.04", "0.06"):
        make_checkpoint(session=session, budget_spent_usd=spent, usage='{"model":"small-1"}')
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("History")[2]
    assert "By turn small-1 The bars compare the cost. Version Cost Cost so far v3" in page
    fork = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.07", forked_from=session, forked_version=3)
    make_messages(session=fork, texts=["a"])
    for spent in ("0.06", "0.07"):
        make_checkpoint(session=fork, budget_spent_usd=spent)
    page = visible_text(client.get(f"/sessions/{fork.pk}/costs/"))
    assert "Most expensive: v2, $0.01 (100 % of its own runs)" in page
    assert "Own runs $0.01 Copied from the original $0.06 In all $0.07" in page


def test_fork_has_rows_of_its_own_and_of_copied_amounts_that_add_up(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.06", total_tokens=4500)
    make_messages(session=session, texts=["a"])
    copied = '{"input_tokens": 4041, "output_tokens": 459, "cache_read_input_tokens": 0}'
    make_checkpoint(session=session, budget_spent_usd="0.06", usage=copied)
    fork = make_session(
        cost_basis=CostBasis.STATED, budget_spent_usd="0.06", total_tokens=4500, forked_from=session, forked_version=1
    )
    make_messages(session=fork, texts=["a"])
    make_checkpoint(session=fork, budget_spent_usd="0.06", usage=copied)
    rows = read_rows_of_whole_session(client, fork)
    assert rows == [
        "Own runs 0 0 0 – 0 $0.00",
        "Copied from the original 4,041 459 0 0 % 4,500 $0.06",
        "In all 4,041 459 0 0 % 4,500 $0.06",
    ]
    usage = '{"input_tokens": 5041, "output_tokens": 559, "cache_read_input_tokens": 1000}'
    make_checkpoint(session=fork, budget_spent_usd="0.08", usage=usage)
    Session.objects.filter(pk=fork.pk).update(budget_spent_usd="0.08", total_tokens=6600)
    rows = read_rows_of_whole_session(client, fork)
    assert rows == [
        "Own runs 1,000 100 1,000 50 % 2,100 $0.02",
        "Copied from the original 4,041 459 0 0 % 4,500 $0.06",
        "In all 5,041 559 1,000 17 % 6,600 $0.08",
    ]
    page = client.get(f"/sessions/{fork.pk}/costs/")
    assert "v1 copied from the original" in visible_text(page)
    assert page.content.decode().count('<meter class="share"') == 1, "the copied version is compared with no turn"
    assert "Own runs" not in visible_text(client.get(f"/sessions/{session.pk}/costs/"))


def read_rows_of_whole_session(client: Client, session: Session) -> list[str]:
    """Return the text of each row of the table of own and copied amounts."""
    table = (
        client.get(f"/sessions/{session.pk}/costs/").content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
    )
    return [" ".join(re.sub("<[^>]+>", " ", row).split()) for row in table.split("</tr>")[:-1]]


def test_most_expensive_turn_is_none_whose_earlier_versions_are_deleted(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.53", latest_version=9)
    make_messages(session=session, texts=["a"])

    def show(version: int, spent: str) -> str:
        session.latest_version = version - 1
        make_checkpoint(session=session, budget_spent_usd=spent)
        return visible_text(client.get(f"/sessions/{session.pk}/costs/"))

    show(10, "0.10")
    assert "Most expensive" not in show(20, "0.50")
    assert "Most expensive: v21, $0.03 (6 % of all)" in show(21, "0.53")


def test_turn_whose_totals_went_down_has_dashes_and_later_ones_count_from_there(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.06")
    make_messages(session=session, texts=["a"])
    for input_tokens, output, spent in ((900, 120, "0.02"), (1000, 30, "0.05"), (1010, 45, "0.06"), (2, 1, "0.01")):
        usage = json.dumps({"input_tokens": input_tokens, "output_tokens": output})
        make_checkpoint(session=session, budget_spent_usd=spent, usage=usage)
    response = client.get(f"/sessions/{session.pk}/costs/")
    rows = visible_text(response).partition("Cost so far")[2]
    assert re.search(r"v4 .* – – – – \$0\.01 v3 .* 10 15 25 \$0\.01 \$0\.06 v2 .* – – – \$0\.03 \$0\.05 v1", rows)
    assert "Where the agent’s totals went down, what the version used is unknown" in rows
    assert response.content.decode().count("so what it used is unknown.") == 2
    assert "−" not in rows
    assert "– tokens" in visible_text(client.get(f"/sessions/{session.pk}/versions/"))


def test_headline_has_the_last_total_and_the_sum_of_the_versions_where_the_total_went_down(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.03")
    make_messages(session=session, texts=["a"])
    for spent in ("0.02", "0.05"):
        make_checkpoint(session=session, budget_spent_usd=spent)
    assert "Sum of the versions" not in visible_text(client.get(f"/sessions/{session.pk}/costs/"))
    for spent in ("0.01", "0.03"):
        make_checkpoint(session=session, budget_spent_usd=spent)
    for query in ("", "?before=3"):
        page = visible_text(client.get(f"/sessions/{session.pk}/costs/{query}")).partition("History")[2]
        assert "Cost$0.03stated last Sum of the versions$0.07at least Versions4 The agent’s total went down" in page
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/"))
    assert "Most expensive: v2, $0.03 (43 % of all)" in page


def test_versions_before_the_first_that_used_something_are_not_listed(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.STATED, budget_spent_usd="0.02")
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session, budget_spent_usd="0.00")
    make_checkpoint(session=session, budget_spent_usd="0.02", usage='{"input_tokens":7}')
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/")).partition("By turn")[2]
    assert "v2 " in page
    assert "v1 " not in page
    assert "1 version used no tokens and is not listed." in page


def test_estimate_shows_its_prices_and_their_table(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    rates = {"input": "3", "output": "15.50"}
    mark = {
        "estimate": {"small-1": {"input": "0.000021", "output": "0.000078"}},
        "prices": {"table": "prices.toml", "models": {"small-1": rates, "bad": 3, "none": {"input": "NaN"}}},
    }
    session = make_session(
        cost_basis=CostBasis.ESTIMATED, budget_spent_usd="0.000099", metadata=json.dumps({"import": mark})
    )
    make_messages(session=session, texts=["a"])
    counts = {"input_tokens": 7, "output_tokens": 5}
    make_checkpoint(session=session, usage=json.dumps({**counts, "by_model": {"small-1": counts}}))
    page = visible_text(client.get(f"/sessions/{session.pk}/costs/"))
    assert "The cost is an estimate from the price table prices.toml." in page
    assert "Prices of the estimate in US dollars for a million tokens, from prices.toml" in page
    assert "Model Input Output Cache read Cache write small-1 $3.00 $15.50 – –" in page
    assert "none – – – –" in page


def test_page_says_that_the_usage_is_incomplete_in_the_source(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(cost_basis=CostBasis.UNKNOWN)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session, usage='{"input_tokens":7,"output_tokens":2}')
    assert "incomplete" not in visible_text(client.get(f"/sessions/{session.pk}/costs/"))
    make_checkpoint(session=session, usage='{"input_tokens":7,"output_tokens":4,"is_incomplete":true}')
    assert "The usage is incomplete in the source" in visible_text(client.get(f"/sessions/{session.pk}/costs/"))
