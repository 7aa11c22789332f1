"""Timelines of sessions of each framework whose agent died in a tool, and continued with the result of a person."""

import re

import pytest
from django.test import Client

from checkpoints.models import ToolCall
from tests.adapters.conftest import PlayStory
from tests.support.factories import make_user
from tests.support.page_text import visible_text

EXAMPLES = [
    "langgraph_refunds",
    "openai_agents_refunds",
    "pydantic_ai_refunds",
    "strands_refunds",
    "google_adk_refunds",
    "claude_refunds",
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_stored_result_is_not_drawn_as_work(play_story: PlayStory, client: Client, example: str) -> None:
    play_story(example)
    client.force_login(make_user(name="rita"))
    call = ToolCall.objects.get(tool__endswith="refund")
    response = client.get(f"/sessions/{call.session_id}/timeline/")
    assert re.search(
        r"refund Refund 40 for order 17 Stored result stored result given again, version \d+ saved [\d:.]+ – 3",
        visible_text(response),
    )
    html = response.content.decode()
    mark = (
        rf'<a href="/sessions/{call.session_id}/calls/{call.pk}/" tabindex="-1">'
        r'<title>refund: stored result given again, version \d+ saved [\d:.]+</title><rect class="replay"'
    )
    assert len(re.findall(mark, html)) == 2  # on a wide and on a narrow screen
    assert 'class="tools"' not in html


def test_words_of_the_hook_are_no_words_of_the_agent(play_story: PlayStory, client: Client) -> None:
    """Claude Code stores them with "error", although all went well."""
    play_story("claude_refunds")
    client.force_login(make_user(name="rita"))
    call = ToolCall.objects.get(tool__endswith="refund")
    html = client.get(f"/sessions/{call.session_id}/").content.decode()
    summaries = re.findall(
        r"<summary>.*?Stored result given to the agent.*?refunded 40 for order 17.*?</summary>", html
    )
    assert summaries
    assert html.count("hook error") == len(summaries) + 1  # in the details of each line, and in those of the call
