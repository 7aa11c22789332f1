"""How the session pages say things: states, amounts, who did what."""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from checkpoints.enums import RunStatus
from checkpoints.queries.blocks import Image, Part, Text
from checkpoints.queries.conversation import CallCard
from checkpoints.queries.origins import RunFacts
from checkpoints.queries.peers import Waiting
from checkpoints.queries.standing import Standing
from checkpoints.serde import parse, parse_or_text
from harness_site import wording
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.masking import MASK, fields_of, masked, masked_beginning
from harness_site.rendering.safe_text import hides
from harness_site.rendering.text import byte_size, fold, size, visible

#: The images a page shows: pictures that hold no script.
DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp|avif));base64,([A-Za-z0-9+/=\s]+)\Z", re.ASCII)

_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")
#: Longer results are not searched for structure.
_STRUCTURED = 200_000
#: Characters and lines of an excerpt.
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


def standing(value: Standing, undecided: int, awaiting: int = 0, waiting: Waiting | None = None) -> tuple[str, str]:
    """Shape and words: “Paused — 1 call needs a decision”. Of what only awaits approval, nothing is unknown."""
    if waiting is not None:
        answers = f"waiting for {waiting.open:,} {'answer' if waiting.open == 1 else 'answers'}"
        return "wait", f"Paused — {'the answers are there' if waiting.ready else answers}"
    if value is Standing.NEEDS_REVIEW and undecided and awaiting == undecided:
        return "wait", f"Paused — {undecided} {'call awaits' if undecided == 1 else 'calls await'} approval"
    if value is Standing.NEEDS_REVIEW and undecided:
        return "unknown", f"Paused — {undecided} {'call needs' if undecided == 1 else 'calls need'} a decision"
    return _SHAPES[value], str(value.label)


def role_name(role: str) -> str:
    """The word for who speaks; an unknown role as it is."""
    return _ROLES.get(role.lower(), ("other", role or "Message"))[1]


def role_kind(role: str) -> str:
    """One of a closed set, for styling."""
    return _ROLES.get(role.lower(), ("other", ""))[0]


def safe_link(address: Any) -> str:
    """The address, masked, where it is one that may become a link, else nothing. What hides has no place in one."""
    if not isinstance(address, str) or hides(address):
        return ""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return masked(address) if parts.scheme in {"http", "https"} and parts.netloc else ""


@dataclass(frozen=True, slots=True)
class ImageSource:
    """How an image is shown: `embedded` from the message itself, as a `link` elsewhere, or in `words`."""

    embedded: bool = False
    link: str = ""
    words: str = ""


def image_source(image: Image) -> ImageSource:
    if DATA_URL.match(image.url):
        return ImageSource(embedded=True)
    if link := safe_link(image.url):
        return ImageSource(link=link)
    kind = visible(image.url[:40].split(",")[0].split(";")[0])
    return ImageSource(words=f"Image not shown: {kind}, {size(byte_size(image.url))}. Its message holds it as text.")


def effect(name: str) -> str:
    """The word for what a tool does to the world; its own word where it brought another one."""
    return {"read": "reads", "write": "writes", "mutate": "mutates"}.get(name, name)


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in {11, 12, 13} else last}"


def run_end(run: RunFacts) -> str:
    """“lost”, “released the session”, …: what became of a run that another one follows."""
    return {
        RunStatus.LOST: "lost",
        RunStatus.RELEASED: "released the session",
        RunStatus.COMPLETED: "completed",
        RunStatus.FAILED: "failed",
        RunStatus.CANCELLED: "was cancelled",
    }.get(RunStatus(run.status), "gave way")


def gap(before: RunFacts, after: RunFacts) -> str:
    """How long nobody drove the session; nothing where the end was only noticed by taking over."""
    seconds = (after.started_at - (before.ended_at or before.seen_at)).total_seconds()
    return wording.duration(seconds) if seconds >= 1 else ""


def count(number: int) -> str:
    return f"{number:,}"


def portion(part: int, whole: int) -> str:
    """12 (0.4 %): a part with what it is of the whole."""
    if not part or not whole:
        return count(part)
    percent = 100 * part / whole
    return f"{part:,} ({percent:.0f} %)" if percent >= 9.95 else f"{part:,} ({max(percent, 0.1):.1f} %)"


def signed(number: int) -> str:
    """+3, −2, 0."""
    return f"{'+' if number > 0 else '−' if number < 0 else ''}{abs(number):,}"


def money(amount: Decimal | None) -> str:
    """US dollars: whole cents at least, six places at most: $0.031."""
    if amount is None:
        return "–"
    rounded = amount.quantize(_MICRO, rounding=ROUND_HALF_UP)
    exact = rounded.normalize()
    if exact == exact.quantize(_CENT, rounding=ROUND_HALF_UP):
        return f"${rounded:,.2f}"
    return f"${exact:,f}"


def money_delta(amount: Decimal | None) -> str:
    if amount is None:
        return "–"
    sign = "+" if amount > 0 else "−" if amount < 0 else ""
    return f"{sign}{money(abs(amount))}"


def structured(text: str) -> dict[str, Any] | list[Any] | None:
    """The JSON object or list that a text is, else None."""
    if len(text) > _STRUCTURED or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) and value else None


def stored_value(stored: str | None) -> Any:
    """Stored JSON text as a value; a damaged one as the text it is."""
    return None if stored is None else parse_or_text(stored)


def on_a_line(value: Any) -> str:
    """A JSON value without the braces of an object: `order 17, amount "40.00"`."""
    if isinstance(value, dict):
        parts = (f"{field.name} {dumped(MASK if field.hidden else field.value)}" for field in fields_of(value))
        return ", ".join(parts)
    return "" if value is None else dumped(value)


def result_parts(card: CallCard) -> tuple[Part, ...]:
    """What came back of a call: as the model was told, else as the log has it."""
    if card.result is not None:
        return card.result.parts
    if card.record is None or card.record.result is None:
        return ()
    return (Text(card.record.result),)


def beginning(content: str) -> str:
    """The beginning of a long text, with how much more there is."""
    folded = fold(content, _EXCERPT, _EXCERPT_LINES)
    if folded.whole:
        return masked(content)
    shown = masked_beginning(content, len(folded.text))
    return f"{shown} … {size(folded.size - byte_size(folded.text))} more"
