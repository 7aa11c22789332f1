"""What is secret in the text of agents, and showing it only to those who may see it.

Everything that pages and exports show goes through `masked` or `masked_value`, called by the functions of this package
that make text safe to show. Without anybody having said who reads (`reading`), everything secret is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

from harness_site.rendering.linear_patterns import Pattern, compile_pattern

T = TypeVar("T")

#: Stands where something secret stood.
MASK: Final = "‹masked›"
#: Shorter texts hold no secret worth the search.
_SHORTEST = 4
#: Longer ones are looked through each time: remembering thousands of them would fill the memory.
_LONGEST: Final = 50_000

#: A field is secret when its name ends like one of these, without regard to case, spaces, `-` and `_`.
ENDINGS: Final = (
    "accesskey",
    "apikey",
    "authorization",
    "cardnumber",
    "cookie",
    "credential",
    "credentials",
    "cvc",
    "cvv",
    "passphrase",
    "privatekey",
    "secretkey",
    "ssn",
    "token",
)
#: … or holds one of these.
PARTS: Final = ("passwd", "password", "secret")

#: What well-known secrets look like. Each expression is tried only on a text that holds one of its hints.
_SHAPES: Final = (
    (("PRIVATE KEY",), r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    (("k_", "k-"), r"\b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct)?[-_\w]{16,}"),
    (("gh", "glpat-"), r"\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"),
    (("xox",), r"\bxox[abeoprs]-[\w-]{10,}"),
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    (("AIza", "ya29."), r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"),
    (("harness_", "invite_", "whsec_"), r"\b(?:harness|invite|whsec)_[\w-]{32,}"),
    (("://",), r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),  # name and password in an address
    (("earer ", "asic ", "EARER ", "ASIC "), r"(?i:(?<=\bbearer )|(?<=\bbasic ))[\w.~+/=-]{8,}"),
)
#: JSON web tokens. Python's engine would read the rest of a long word from every `eyJ` in it.
_WEB_TOKEN: Final = compile_pattern(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*")
_USUAL_SHAPES: Final[tuple[tuple[tuple[str, ...], Pattern], ...]] = (
    *((hints, re.compile(shape)) for hints, shape in _SHAPES),
    (("eyJ",), _WEB_TOKEN),
)
#: Card numbers in the groups people write; the check digit decides.
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
#: A name and its value inside a text: `key=value`, `key: value`, `"key": "value"`, and that inside quoted text.
_PAIR = re.compile(
    r"""
    (?P<quote>\\{0,8}["'])? (?<![\w.-]) (?P<name>[A-Za-z_][\w.-]*+) (?(quote)(?P=quote))
    [ \t]* [:=]{1,2} [ \t]*
    (?P<value>
        "(?:[^"\\]++|\\.)*+" | '(?:[^'\\]++|\\.)*+'
        | (?P<inner>\\{1,8}["']) .*? (?P=inner)
        | (?:(?:Bearer|Basic)[ ])? [^\s,;&"'{}\[\]()\\<>‹›]{1,64}
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Where there is a pair, there is one of these; most texts have few.
_SIGN = re.compile("[:=]")
#: What may stand before it, from there backwards.
_BLANKS, _QUOTES = " \t".__contains__, "\"'\\".__contains__
_LETTERS = re.compile(r"[\w.-]").match
#: The rest of a long value that stands without quotes.
_REST = re.compile(r"""[^\s,;&"'{}\[\]()\\<>‹›]*""")
_NOISE = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Rules:
    """What is secret. `names` are exact names of fields beside the usual ones; `words` finds the words of a workspace
    in text; `usual` says whether what is secret everywhere counts too."""

    names: frozenset[str]
    words: re.Pattern[str] | None
    usual: bool

    @cached_property
    def told(self) -> str:
        """All of them, to tell them from others by; the name of a pattern is cut off where it is long."""
        return repr((sorted(self.names), self.words and self.words.pattern, self.usual))

    def secret_name(self, name: str) -> bool:
        bare = _NOISE.sub("", name).lower()
        if bare in self.names:
            return True
        return self.usual and (bare.endswith(ENDINGS) or any(part in bare for part in PARTS))


@lru_cache(maxsize=64)
def rules(names: tuple[str, ...] = (), words: tuple[str, ...] = (), *, usual: bool = True) -> Rules:
    """Rules of a workspace: `names` of fields, and `words` in which `*` stands for any letters."""
    bare = frozenset(_NOISE.sub("", name).lower() for name in names)
    own = re.compile("|".join(_wildcard(word) for word in words)) if words else None
    return Rules(bare - {""}, own, usual)


def _wildcard(word: str) -> str:
    """Nothing in it is tried twice, so that no word makes a page slow."""
    first, *others = word.split("*")
    return re.escape(first) + "".join(
        rf"(?>[^\s\"']{{0,200}}?{re.escape(part)})" if part else r"[^\s\"']*+" for part in others
    )


USUAL: Final = rules()
_reader: ContextVar[Rules | None] = ContextVar("masking_rules", default=USUAL)


@contextmanager
def reading(wanted: Rules | None) -> Iterator[None]:
    """Show what follows under these rules; None masks nothing."""
    before = _reader.set(wanted)
    try:
        yield
    finally:
        _reader.reset(before)


def kept(pieces: Iterable[T]) -> Iterator[T]:
    """The same pieces, each made under the rules that hold now: for what is made while it is sent, long after the page
    that began it has returned."""
    return _under(_reader.get(), iter(pieces))


def _under(wanted: Rules | None, pieces: Iterator[T]) -> Iterator[T]:
    while True:
        with reading(wanted):
            try:
                piece = next(pieces)
            except StopIteration:
                return
        yield piece


def rules_in_force() -> Rules | None:
    """The rules that hold for who reads now."""
    return _reader.get()


def masks() -> bool:
    """Whether anything is masked for who reads now."""
    return _reader.get() is not None


def masked(text: str) -> str:
    """`text` with everything in it that is secret to who reads now replaced by `MASK`."""
    found = spans(text)
    if not found:
        return text
    parts, end = [], 0
    for start, stop in found:
        parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])


def masked_value(value: Any) -> Any:
    """A JSON value with what is secret in it replaced: by the names of its fields, and by what its texts look like."""
    found = _reader.get()
    return value if found is None else _masked_value(value, found)


def _masked_value(value: Any, found: Rules) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list | tuple):
        return [_masked_value(inner, found) for inner in value]
    if not isinstance(value, dict):
        return value
    return {key: MASK if _hides(key, inner, found) else _masked_value(inner, found) for key, inner in value.items()}


def _hides(key: Any, value: Any, found: Rules) -> bool:
    """That there is nothing is no secret."""
    return value not in (None, "", [], {}) and not isinstance(value, bool) and found.secret_name(str(key))


def restored(edited: Any, original: Any) -> Any:
    """What somebody meant who changed a JSON value that was shown to them masked: where they left a mask standing, the
    original value, found at the same place, comes back."""
    if edited == MASK:
        return original
    if isinstance(edited, str) and MASK in edited and isinstance(original, str) and edited == masked(original):
        return original
    if isinstance(edited, dict) and isinstance(original, dict):
        return {key: restored(inner, original[key]) if key in original else inner for key, inner in edited.items()}
    if isinstance(edited, list) and isinstance(original, list) and len(edited) == len(original):
        return [restored(inner, before) for inner, before in zip(edited, original, strict=True)]
    return edited


def spans(text: str) -> tuple[tuple[int, int], ...]:
    """Where in `text` something is secret to who reads now: places in order, none inside another."""
    found = _reader.get()
    if found is None or len(text) < _SHORTEST:
        return ()
    return _spans(text, found) if len(text) > _LONGEST else _known_spans(text, found)


@lru_cache(maxsize=2048)
def _known_spans(text: str, found: Rules) -> tuple[tuple[int, int], ...]:
    return _spans(text, found)


def _spans(text: str, found: Rules) -> tuple[tuple[int, int], ...]:
    return _merged(sorted({*_by_shape(text, found), *_by_name(text, found)}))


def _by_shape(text: str, found: Rules) -> Iterator[tuple[int, int]]:
    shapes: list[Pattern] = [] if found.words is None else [found.words]
    if found.usual:
        shapes += [shape for hints, shape in _USUAL_SHAPES if any(hint in text for hint in hints)]
        yield from (match.span() for match in _CARD.finditer(text) if _card(match.group()))
    for shape in shapes:
        yield from (match.span() for match in shape.finditer(text))


def _by_name(text: str, found: Rules) -> Iterator[tuple[int, int]]:
    at = 0
    while sign := _SIGN.search(text, at):
        match = _pair_at(text, at, sign.start())
        if match is None:
            at = sign.end()
            continue
        start, end = match.span("value")
        if not found.secret_name(match["name"]):
            # The value may be a pair itself: `curl: token=…`.
            at = start
            continue
        quote = match["inner"] or (text[start] if text[start] in "\"'" else "")
        if not quote:
            end = _whole(text, end)
        at = end
        if end - start > 2 * len(quote):
            yield start + len(quote), end - len(quote)


def _pair_at(text: str, at: int, sign: int) -> re.Match[str] | None:
    """The pair whose sign stands there. Only what can belong to its name is looked at, back to `at`."""
    start = sign
    for belongs in (_BLANKS, _QUOTES, _LETTERS, _QUOTES):
        while start > at and belongs(text[start - 1]):
            start -= 1
    return next(filter(None, (_PAIR.match(text, place) for place in range(start, sign))), None)


def _whole(text: str, end: int) -> int:
    """Where an unquoted value ends that the expression has cut off."""
    rest = _REST.match(text, end)
    return end if rest is None else rest.end()


def _card(written: str) -> bool:
    """Luhn's check; a number of one digit throughout is nobody's card."""
    digits = [int(each) for each in written if each.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def _merged(found: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in found:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
