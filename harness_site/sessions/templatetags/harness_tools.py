"""Tags of tool calls that are shown as what they did, and of texts with tags of programs."""

from typing import Any

from django import template
from django.template import Context

from checkpoints.formats.parse_message_parts import Part
from harness_site.sessions import program_tags_in_messages
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.program_tags_in_messages import TextPiece
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.tool_views import tool_view_registry
from harness_site.sessions.tool_views.claude_code_notices_between_messages import parse_claude_code_record_or_none
from harness_site.sessions.tool_views.tool_view_types import ToolView

register = template.Library()
register.simple_tag(parse_claude_code_record_or_none)


@register.simple_tag
def build_tool_view(card: CallCard, whole: Any = False) -> ToolView | None:
    """Build the view of a call; None if it is shown as its arguments and its result."""
    return tool_view_registry.build_first_fitting_tool_view(card, is_whole=bool(whole))


@register.simple_tag
def list_result_parts_not_in_view(card: CallCard, view: ToolView | None) -> tuple[Part, ...]:
    """List the parts of the result that the view of the call does not display."""
    parts = card.result_parts
    if view is None or not view.has_result:
        return parts
    return tuple(part for part in parts if part.kind != "text")


@register.simple_tag
def split_text_at_tags_or_empty(text: str) -> list[TextPiece]:
    """Split a text at the tags of programs; empty if it has none."""
    return (
        program_tags_in_messages.split_tagged_text(text)
        if program_tags_in_messages.has_program_written_text(text)
        else []
    )


@register.simple_tag(takes_context=True)
def get_subagent_session_pk_of_call(context: Context, card: CallCard) -> int | None:
    """Return the key of the session that a call started as a subagent; None if none is known."""
    links: dict[str, int] | None = context.get("subagents")
    return links.get(card.call.call_id) if links else None


@register.simple_tag(takes_context=True)
def get_permission_mode_if_changed(context: Context) -> str:
    """Return the permission mode of a message with calls, if those before had another; else an empty text."""
    by_position: dict[int, str] = context.get("permissions_by_position") or {}
    entry = context.get("entry")
    return by_position.get(entry.position, "") if entry else ""


@register.filter
def format_count_or_dash(number: int | None) -> str:
    return "–" if number is None else format_count(number)


@register.filter
def format_share_or_dash(share: float | None) -> str:
    """Format a share as a percentage; a dash if it is unknown. Only the whole is 100 %, and only nothing is 0 %."""
    if share is None:
        return "–"
    if 0.995 <= share < 1:
        return "> 99 %"
    return "< 1 %" if 0 < share <= 0.005 else f"{100 * share:.0f} %"
