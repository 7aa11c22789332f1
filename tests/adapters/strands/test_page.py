"""The page about Strands is true, the example plays its story, and its sessions read like others."""

from pathlib import Path

from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.adapters.strands import HarnessSessionRepository
from checkpoints.models import Session
from examples.strands_refunds.agent import build_agent_and_harness
from tests.adapters.conftest import PlayStory, RunPage
from tests.support.factories import make_user


def test_page_runs(run_page: RunPage) -> None:
    assert run_page("strands") == ""


def test_example_refunds_once(play_story: PlayStory) -> None:
    assert play_story("strands_refunds") == "Refunds in the end: 1."


def test_the_site_shows_a_conversation_like_a_native_session(
    cp: SyncCheckpointer, effects: Path, client: Client
) -> None:
    agent, _ = build_agent_and_harness(HarnessSessionRepository(cp), "s", effects)
    agent("Please refund order 17.")
    client.force_login(make_user())
    page = client.get(f"/sessions/{Session.objects.get().pk}/")
    assert page.status_code == 200
    shown = page.content.decode()
    for text in ("Please refund order 17.", "Refund 40 for order 17", "order 17: 40 EUR, paid"):
        assert text in shown
    for hidden in ("toolUseId", "toolResult", "tracking_id"):
        assert hidden not in shown
