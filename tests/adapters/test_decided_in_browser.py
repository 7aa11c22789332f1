"""Calls of each framework about which a person decides in a real browser; the site runs in a process of its own."""

import importlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import page_actions
from tests.e2e.conftest import (  # noqa: F401 - fixtures
    OpenPage,
    browser,
    open_page,
    page_monitors,
    playwright,
    private_site,
    sign_in_state,
    site,
    template_database,
)
from tests.support.site_process import Site

#: Seconds to wait for an agent or a decision.
PATIENCE = 200
PAGE_TIMEOUT_MS = 120_000
EXAMPLES = ["langgraph_refunds", "claude_refunds", "pydantic_ai_refunds", "openai_agents_refunds"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_killed_agent_continues_as_a_person_decided(
    open_page: OpenPage,  # noqa: F811
    private_site: Site,  # noqa: F811
    effects: Path,
    monkeypatch: pytest.MonkeyPatch,
    django_db_blocker: Any,
    example: str,
) -> None:
    story = importlib.import_module(f"examples.{example}.__main__")
    asked: queue.Queue[str] = queue.Queue()
    decided = threading.Event()

    def wait_for_decision(checkpointer: object, session_id: str) -> None:
        asked.put(session_id)
        assert decided.wait(PATIENCE)

    monkeypatch.setattr(story, "confirm_refund", wait_for_decision)
    page = open_page("alice", private_site)
    with django_db_blocker.unblock(), ThreadPoolExecutor(1) as pool:  # the browser keeps the loop of this thread
        playing = pool.submit(story.play, private_site.database, effects)
        while asked.empty() and not playing.done():
            page.wait_for_timeout(100)
        if playing.done():
            playing.result()
        session_id = asked.get_nowait()
        _open_call(page, session_id)
        page_actions.fill_in_decision(page, "It happened", f"The bank statement of {example} has the payment.")
        page_actions.record_decision(page, "It happened")
        expect(page.locator("form[data-decide]")).to_have_count(0, timeout=PAGE_TIMEOUT_MS)
        decided.set()
        playing.result(PATIENCE)
    assert len(effects.read_text().splitlines()) == 1


def _open_call(page: Page, session_id: str) -> None:
    """Open the card of an interrupted call, from the queue."""
    page.set_default_timeout(PAGE_TIMEOUT_MS)
    page.goto("/review/?tab=interrupted")
    row = page.get_by_role("listitem").filter(has_text=session_id)
    row.locator("a[href*='/review/calls/']").first.click()
    expect(page.get_by_role("heading", level=1, name="Did this happen?")).to_be_visible()
