"""The page about Google ADK is true, the example plays its story, and its sessions read like others."""

import asyncio
from pathlib import Path

from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.adapters.google_adk import HarnessSessionService
from checkpoints.models import Session
from examples.google_adk_refunds.agent import ask, build_runner_and_harness
from tests.adapters.conftest import PlayStory, RunPage
from tests.support.factories import make_user


def test_page_runs(run_page: RunPage) -> None:
    run_page("google-adk")  # it warns of what is experimental


def test_example_refunds_once(play_story: PlayStory) -> None:
    assert play_story("google_adk_refunds") == "Refunds in the end: 1."


def test_the_site_shows_a_conversation_like_a_native_session(
    cp: SyncCheckpointer, effects: Path, client: Client
) -> None:
    runner, _ = build_runner_and_harness(HarnessSessionService(cp), effects)
    asyncio.run(ask(runner, "s", "Please refund order 17."))
    client.force_login(make_user())
    page = client.get(f"/sessions/{Session.objects.get().pk}/")
    assert page.status_code == 200
    shown = page.content.decode()
    for text in (
        "Please refund order 17.",
        "Refund 40 for order 17",
        "order 17: 40 EUR, paid",
        "refunded 40 for order 17",
    ):
        assert text in shown
    for hidden in ("functionCall", "functionResponse", "invocationId"):
        assert hidden not in shown
