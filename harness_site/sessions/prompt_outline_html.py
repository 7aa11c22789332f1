"""HTML of the outline's links to prompts. A template takes four times as long, and an outline has up to 300 prompts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from harness_site.core.rendering.fast_format_html import join_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden, strip_markdown_marks
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.selectors.prompt_outline_and_version_summaries import Prompt
from harness_site.templatetags.harness_tags import render_time_of_day

_LINK: Final = (
    '<li><a href="{}?v={}&amp;at={}#m-{}" data-place="{}"><span dir="auto">{}</span><small>{}{}{}</small></a></li>'
)


def render_prompt_links(prompts: Collection[Prompt], address: str, version: int, *, with_times: bool) -> SafeString:
    """Render a list item with a link for each prompt.

    Args:
        prompts: The prompts in order.
        address: The URL of the transcript.
        version: The version of the session that the links show.
        with_times: Whether the times of the messages are known.
    """
    counts = {count: _format_message_count(count) for count in {prompt.messages for prompt in prompts}}
    rows = (
        (
            address,
            version,
            *(prompt.position,) * 3,
            mask_and_reveal_hidden(strip_markdown_marks(prompt.title)),
            *((render_time_of_day(prompt.at, seconds=True), " · ") if with_times else ("", "")),
            counts[prompt.messages],
        )
        for prompt in prompts
    )
    return join_html("", _LINK, rows)


def _format_message_count(count: int) -> str:
    return ngettext("%(shown)s message", "%(shown)s messages", count) % {"shown": format_count(count)}
