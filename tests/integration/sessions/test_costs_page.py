import pytest
from django.test import Client

from checkpoints.enums import CostBasis
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
