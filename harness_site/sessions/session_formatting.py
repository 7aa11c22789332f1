"""Formatting of session statuses, amounts, roles and results for the session pages."""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from checkpoints.enums import RunStatus
from checkpoints.formats import parse_json, parse_or_text
from checkpoints.formats.content_blocks import ImagePart, Part, TextPart
from checkpoints.sessions.display_status import Standing
from harness_site.core import formatting
from harness_site.core.masking.masker import MASK, list_masked_fields, mask_text, mask_text_beginning
from harness_site.core.rendering.display_text import fold_text, format_byte_size, get_byte_size, mask_and_reveal_hidden
from harness_site.core.rendering.json_tree import dump_masked_json
from harness_site.core.rendering.safe_text import has_hidden_characters
from harness_site.sessions.selectors.conversation import CallCard
from harness_site.sessions.selectors.message_origins import RunFacts
from harness_site.sessions.selectors.peer_calls import PeerWaitSummary

#: Image types that a page embeds; none of them can contain a script.
DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp|avif));base64,([A-Za-z0-9+/=\s]+)\Z", re.ASCII)

_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")
#: Longer results are not parsed as JSON (characters).
_STRUCTURED = 200_000
#: Largest excerpt, in characters and in lines.
_EXCERPT = 800
_EXCERPT_LINES = 8

_ROLES: Final = {
    "user": ("user", "User"),
    "human": ("user", "User"),
    "assistant": ("agent", "Agent"),
    "model": ("agent", "Agent"),
    "ai": ("agent", "Agent"),
    "system": ("system", "System"),
    "developer": ("system", "Developer"),
    "tool": ("tool", "Tool"),
    "function": ("tool", "Tool"),
}

_SHAPES: Final = {
    Standing.RUNNING: "run",
    Standing.STALLED: "wait",
    Standing.NEEDS_REVIEW: "unknown",
    Standing.READY: "run",
    Standing.PAUSED: "wait",
    Standing.COMPLETED: "ok",
    Standing.FAILED: "bad",
    Standing.CANCELLED: "off",
}


def format_session_status(
    value: Standing | str, undecided: int, awaiting: int = 0, waiting: PeerWaitSummary | None = None
) -> tuple[str, str]:
    """Return the chip shape and label of a session, such as “Paused — 1 call needs a decision”.

    A call that only awaits approval has not run, so its outcome is not shown as unknown.
    An unknown status is shown as it is stored.
    """
    if waiting is not None:
        answers = f"waiting for {waiting.open:,} {'answer' if waiting.open == 1 else 'answers'}"
        return "wait", f"Paused — {'the answers are there' if waiting.ready else answers}"
    if value is Standing.NEEDS_REVIEW and undecided and awaiting == undecided:
        return "wait", f"Paused — {undecided} {'call awaits' if undecided == 1 else 'calls await'} approval"
    if value is Standing.NEEDS_REVIEW and undecided:
        return "unknown", f"Paused — {undecided} {'call needs' if undecided == 1 else 'calls need'} a decision"
    if isinstance(value, Standing):
        return _SHAPES[value], str(value.label)
    return "unknown", f"Unknown status: {mask_and_reveal_hidden(value)}"


def format_role_name(role: str) -> str:
    """Return the label of a message role; an unknown role is returned masked."""
    return _ROLES.get(role.lower(), ("other", role or "Message"))[1]


def get_role_css_kind(role: str) -> str:
    """Return the style class of a role, one of a closed set."""
    return _ROLES.get(role.lower(), ("other", ""))[0]


def mask_safe_link(address: Any) -> str:
    """Return the masked address if it is safe to link to, else an empty string.

    Addresses with hidden characters are refused.
    """
    if not isinstance(address, str) or has_hidden_characters(address):
        return ""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return mask_text(address) if parts.scheme in {"http", "https"} and parts.netloc else ""


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Source of an image: `embedded` data from the message, an external `link`, or a description in `words`."""

    embedded: bool = False
    link: str = ""
    words: str = ""


def build_image_source(image: ImagePart) -> ImageSource:
    if DATA_URL.match(image.url):
        return ImageSource(embedded=True)
    if link := mask_safe_link(image.url):
        return ImageSource(link=link)
    kind = mask_and_reveal_hidden(image.url[:40].split(",")[0].split(";")[0])
    return ImageSource(
        words=f"Image not shown: {kind}, {format_byte_size(get_byte_size(image.url))}. Its message holds it as text."
    )


def format_side_effect(name: str) -> str:
    """Return the label of a tool's side effect; an unknown one is returned as given."""
    return {"read": "reads", "write": "writes", "mutate": "mutates"}.get(name, name)


def format_times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def format_ordinal(number: int) -> str:
    """Format a number as an ordinal: 1st, 2nd, 3rd, 4th."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in {11, 12, 13} else last}"


def format_run_end(run: RunFacts) -> str:
    """Describe how a run ended that another run follows: “lost”, “released the session”, …."""
    descriptions: dict[str, str] = {
        RunStatus.LOST: "lost",
        RunStatus.RELEASED: "released the session",
        RunStatus.COMPLETED: "completed",
        RunStatus.FAILED: "failed",
        RunStatus.CANCELLED: "was cancelled",
    }
    return descriptions.get(run.status, "gave way")


def format_time_without_driver(before: RunFacts, after: RunFacts) -> str:
    """Format the time during which no run owned the session; empty if only the takeover revealed that the run was
    lost."""
    seconds = (after.started_at - (before.ended_at or before.seen_at)).total_seconds()
    return formatting.format_duration(seconds) if seconds >= 1 else ""


def format_count(number: int) -> str:
    return f"{number:,}"


def format_portion(part: int, whole: int) -> str:
    """Format a part with its share of the whole: 12 (0.4 %)."""
    if not part or not whole:
        return format_count(part)
    percent = 100 * part / whole
    return f"{part:,} ({percent:.0f} %)" if percent >= 9.95 else f"{part:,} ({max(percent, 0.1):.1f} %)"


def format_signed_number(number: int) -> str:
    """Format a number with its sign: +3, −2, 0."""
    return f"{'+' if number > 0 else '−' if number < 0 else ''}{abs(number):,}"


def format_money(amount: Decimal | None) -> str:
    """Format an amount in US dollars with two to six decimal places: $0.031."""
    if amount is None:
        return "–"
    rounded = amount.quantize(_MICRO, rounding=ROUND_HALF_UP)
    exact = rounded.normalize()
    if exact == exact.quantize(_CENT, rounding=ROUND_HALF_UP):
        return f"${rounded:,.2f}"
    return f"${exact:,f}"


def format_money_delta(amount: Decimal | None) -> str:
    if amount is None:
        return "–"
    sign = "+" if amount > 0 else "−" if amount < 0 else ""
    return f"{sign}{format_money(abs(amount))}"


def parse_json_container(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or list in a text; None if the text is neither."""
    if len(text) > _STRUCTURED or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) and value else None


def parse_stored_value(stored: str | None) -> Any:
    """Parse stored JSON text; damaged JSON is returned as text."""
    return None if stored is None else parse_or_text(stored)


def format_json_on_one_line(value: Any) -> str:
    """Format a JSON value on one line, an object without its braces: `order 17, amount "40.00"`."""
    if isinstance(value, dict):
        parts = (
            f"{field.name} {dump_masked_json(MASK if field.hidden else field.value)}"
            for field in list_masked_fields(value)
        )
        return ", ".join(parts)
    return "" if value is None else dump_masked_json(value)


def get_call_result_parts(card: CallCard) -> tuple[Part, ...]:
    """Return the result of a call as the model received it, else as the log has it."""
    if card.result is not None:
        return card.result.parts
    if card.record is None or card.record.result is None:
        return ()
    return (TextPart(card.record.result),)


def format_text_beginning(content: str) -> str:
    """Return the beginning of a long text and the size of the rest."""
    beginning = fold_text(content, _EXCERPT, _EXCERPT_LINES)
    if beginning.whole:
        return mask_text(content)
    masked_beginning = mask_text_beginning(content, len(beginning.text))
    return f"{masked_beginning} … {format_byte_size(beginning.size - get_byte_size(beginning.text))} more"
