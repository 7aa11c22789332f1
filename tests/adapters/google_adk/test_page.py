"""The page about Google ADK is true, the example plays its story, and its sessions read like others."""

import asyncio
from pathlib import Path

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.adapters.google_adk import HarnessSessionService
from checkpoints.models import Session
from examples.google_adk_refunds.__main__ import play_killed_agent_and_confirmed_refund
from examples.google_adk_refunds.agent import ask, build_runner_and_harness
from tests.docs.test_pages import run
from tests.support.factories import make_user
from tests.support.processes import ROOT, database_url


def test_page_runs(tmp_path: Path) -> None:
    done = run(ROOT / "docs" / "google-adk.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_example_refunds_once(workspace: object, effects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play_killed_agent_and_confirmed_refund(database_url(), effects)
    assert capsys.readouterr().out.splitlines()[-1] == "Refunds in the end: 1."


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
