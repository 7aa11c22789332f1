"""The page about the OpenAI Agents SDK is true, the example plays its story, and another version is refused."""

from agents.run import set_default_agent_runner

from tests.adapters.conftest import PlayStory, RunPage


def test_page_runs(run_page: RunPage) -> None:
    assert run_page("openai-agents") == ""


def test_example_refunds_once(play_story: PlayStory) -> None:
    try:
        last_line = play_story("openai_agents_refunds")
    finally:
        set_default_agent_runner(None)
    assert last_line == "Refunds in the end: 1."
