"""The page about the OpenAI Agents SDK is true, and the example plays its story."""

from tests.adapters.conftest import PlayStory, RunPage


def test_page_runs(run_page: RunPage) -> None:
    assert run_page("openai-agents") == ""


def test_example_refunds_once(play_story: PlayStory) -> None:
    assert play_story("openai_agents_refunds") == "Refunds in the end: 1."
