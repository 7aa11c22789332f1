"""Calls of each framework about which a person decides in a real browser; the site runs in a process of its own."""

import importlib
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from playwright.sync_api import Page, expect

from checkpoints.adapters.langgraph import HarnessSaver
from tests.adapters.langgraph import reviewed_agents
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
    template,
    template_database,
)
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.site_process import Site

#: Seconds to wait for an agent or a decision.
PATIENCE = 200
PAGE_TIMEOUT_MS = 120_000
EXAMPLES = [
    "langgraph_refunds",
    "claude_refunds",
    "google_adk_refunds",
    "pydantic_ai_refunds",
    "openai_agents_refunds",
    "strands_refunds",
]
#: What a person enters for each decision of `reviewed_agents`.
ANSWERS = {"approve": "Approve", "edit": "Edit", "reject": "Reject", "respond": "Respond instead"}


# The stories without a browser are among the tests of each framework.
@pytest.mark.parametrize("example", mark_all_but_each(len(EXAMPLES), EXAMPLES, first=3))
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
        playing = pool.submit(story.play_killed_agent_and_confirmed_refund, private_site.database, effects)
        while asked.empty() and not playing.done():
            page.wait_for_timeout(100)
        if playing.done():
            playing.result()
        session_id = asked.get_nowait()
        _open_call(page, session_id, "Did this happen?")
        page_actions.fill_in_decision(page, "It happened", f"The bank statement of {example} has the payment.")
        page_actions.record_decision(page, "It happened")
        expect(page.locator("form[data-decide]")).to_have_count(0, timeout=PAGE_TIMEOUT_MS)
        decided.set()
        playing.result(PATIENCE)
    assert len(effects.read_text().splitlines()) == 1


def _open_call(page: Page, session_id: str, heading: str, text: str = "") -> None:
    """Open the card of a call that waits, from the queue."""
    page.set_default_timeout(PAGE_TIMEOUT_MS)
    page.goto(f"/review/?tab={'awaiting' if heading.startswith('May') else 'interrupted'}")
    row = page.get_by_role("listitem").filter(has_text=session_id).filter(has_text=text)
    row.locator("a[href*='/review/calls/']").first.click()
    expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
    page.wait_for_load_state()  # the scripts of a page run after its text is displayed


def run_in_child(database: str, mode: str, command: str) -> str:
    """Run a line of `run_agent` in a process of its own, and return what it prints."""
    code = (
        f"from tests.adapters.test_decided_in_browser import run_agent; run_agent({database!r}, {mode!r}, {command!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout


def run_agent(database: str, mode: str, command: str) -> None:
    """Ask the agent, or resume it as was decided, and print what its messages say."""
    thread: Any = {"configurable": {"thread_id": f"letters-{mode}"}}
    with HarnessSaver.open(database) as saver:
        agent = reviewed_agents.build_agent(saver, [], mode)
        given: Any = reviewed_agents.QUESTION if command == "ask" else saver.build_resume(thread)
        assert command == "ask" or isinstance(given, Command)
        print(reviewed_agents.tell(agent.invoke(given, thread)))


def _decide(page: Page, decision: dict[str, Any]) -> None:
    answer = ANSWERS[decision["type"]]
    if answer == "Edit":
        page_actions.choose_answer(page, "Edit")
        page.get_by_role("radio", name="JSON").check()
        page.get_by_role("textbox", name="Arguments").fill('{"to": "bill"}')
        page_actions.reason_field(page).fill("Misspelt.")
        expect(page.locator("#change")).to_contain_text("bill", timeout=PAGE_TIMEOUT_MS)  # what is recorded is shown
        page_actions.record_decision(page, "Edit")
        changed = page.get_by_role("heading", level=1, name="You changed the arguments")
        expect(changed).to_be_visible(timeout=PAGE_TIMEOUT_MS)
        page.reload()
        expect(page.get_by_text("bill").filter(visible=True).first).to_be_visible(timeout=PAGE_TIMEOUT_MS)
        _decide(page, {"type": "approve"})
        return
    page_actions.choose_answer(page, answer)
    if answer == "Approve":
        page_actions.reason_field(page).fill("Read.")
    else:
        page.locator("form[data-decide]").get_by_role("textbox").first.fill(decision["message"])
    page_actions.record_decision(page, answer)
    expect(page.locator("form[data-decide]")).to_have_count(0, timeout=PAGE_TIMEOUT_MS)


@pytest.mark.parametrize("mode", mark_all_but_each(2, ["per_call", "batched"]))
def test_interrupts_of_a_graph_are_resumed_as_decided(open_page: OpenPage, site: Site, mode: str) -> None:  # noqa: F811
    run_in_child(site.database, mode, "ask")
    page = open_page("alice")
    for name, decision in zip(reviewed_agents.NAMES, reviewed_agents.DECISIONS, strict=True):
        _open_call(page, f"letters-{mode}", "May this happen?", name)
        _decide(page, decision)
    expected, _ = reviewed_agents.run_in_memory(mode)
    assert run_in_child(site.database, mode, "resume").strip() == str(expected)
