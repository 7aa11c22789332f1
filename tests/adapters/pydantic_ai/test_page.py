"""The page about Pydantic AI is true, the example plays its story, and other versions are refused."""

import asyncio
from importlib import metadata
from pathlib import Path

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from checkpoints.adapters.require_framework_version import require_version
from checkpoints.exceptions import FrameworkNotSupported
from checkpoints.models import Session
from examples.pydantic_ai_refunds.agent import POLICIES, build_agent, run_and_save_turn
from tests.adapters.conftest import PlayStory, RunPage
from tests.support.factories import make_user


def test_page_runs(run_page: RunPage) -> None:
    assert run_page("pydantic-ai") == ""


def test_example_refunds_once(play_story: PlayStory) -> None:
    assert play_story("pydantic_ai_refunds") == "Refunds in the end: 1."


def test_the_site_shows_a_conversation_like_a_native_session(
    cp: SyncCheckpointer, effects: Path, client: Client
) -> None:
    store = HarnessConversationStore(cp)
    agent = build_agent(Harness(store, POLICIES), effects)
    asyncio.run(run_and_save_turn(store, agent, "s", "Please refund order 17."))
    client.force_login(make_user())
    page = client.get(f"/sessions/{Session.objects.get().pk}/")
    assert page.status_code == 200
    shown = page.content.decode()
    for text in ("Please refund order 17.", "Refund 40 for order 17", "order 17: 40 EUR, paid"):
        assert text in shown
    assert "part_kind" not in shown
    assert "function:answer:" not in shown


@pytest.mark.parametrize("installed", ["2.67.9", "3.0.0", "", "unknown"])
def test_a_version_outside_the_range_is_refused(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    def get_version(package: str) -> str:
        if not installed:
            raise metadata.PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(metadata, "version", get_version)
    with pytest.raises(FrameworkNotSupported, match=r"pydantic-ai-slim>=2\.68,<3\.0"):
        require_version("pydantic-ai-slim", at_least=(2, 68), below=(3, 0))
