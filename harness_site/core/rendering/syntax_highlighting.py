"""Syntax highlighting with a closed set of classes.

Code is scanned once with a pattern that does not backtrack; an unterminated string or comment extends to the end of its
line or of the code. The grammars of general highlighters take seconds for a few kilobytes of crafted code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from harness_site.core.masking.masker import mask_text
from harness_site.core.rendering.safe_display_text import reveal_hidden_characters

_PREFIX = "hl-"
#: Comments, keywords, strings, numbers, and names of fields and tags; in a diff, added and deleted lines and headers.
CLASSES: Final = frozenset(_PREFIX + name for name in ("c", "k", "s", "m", "nt", "gi", "gd", "gh"))
#: Longer code is not highlighted (characters).
LIMIT = 20_000

_DOUBLE: Final = r'"(?:[^"\\\n]++|\\[\s\S])*+"?'
_SINGLE: Final = r"'(?:[^'\\\n]++|\\[\s\S])*+'?"
_BACKQUOTED: Final = r"`(?:[^`\\]++|\\[\s\S])*+`?"
_TRIPLE: Final = r'"""[\s\S]*?(?:"""|\Z)|' + r"'''[\s\S]*?(?:'''|\Z)"
_HASH: Final = r"#[^\n]*+"
_SLASHES: Final = r"//[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)"
_DASHES: Final = r"--[^\n]*+"
_ARROWS: Final = r"<!--[\s\S]*?(?:-->|\Z)"
_NUMBER: Final = r"(?<![\w.])\d[\w.]*+"


@dataclass(frozen=True, slots=True)
class _Grammar:
    """A language: `comments`, `strings` and `names` are patterns without groups; `keywords` are whole words."""

    comments: str = ""
    strings: str = ""
    names: str = ""
    keywords: frozenset[str] = frozenset()
    ignore_case: bool = False

    def compile_token_pattern(self) -> re.Pattern[str]:
        kinds = {"c": self.comments, "nt": self.names, "s": self.strings, "m": _NUMBER, "w": r"[^\W\d]\w*+"}
        return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items() if pattern))


def _parse_keywords(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_LIKE: Final = _parse_keywords(
    "abstract as async await auto bool boolean break byte case catch char class const continue debugger def default "
    "defer delete do double else enum export extends extern false final finally float fn for from func function go "
    "goto if impl implements import in instanceof int interface is let long loop match mod module mut namespace new "
    "nil null nullptr override package private protected pub public range readonly return self short signed sizeof "
    "static string struct super switch this throw throws trait true try type typedef typeof undefined union unsafe "
    "unsigned use using val var virtual void volatile when where while with yield"
)
_PYTHON: Final = _parse_keywords(
    "False None True and as assert async await break case class continue def del elif else except finally for from "
    "global if import in is lambda match nonlocal not or pass raise return self try while with yield"
)
_SHELL: Final = _parse_keywords(
    "break case cd continue do done echo elif else esac eval exec exit export false fi for function if in local "
    "return set shift source sudo then true unset until while"
)
_SQL: Final = _parse_keywords(
    "add all alter and as asc begin between by case check column commit constraint create cross default delete desc "
    "distinct drop else end exists false foreign from full group having in index inner insert into is join key left "
    "like limit not null offset on or order outer primary references returning right rollback select set table then "
    "true union unique update using values view when where with"
)
_RUBY: Final = _parse_keywords(
    "and begin break case class def do else elsif end ensure false for if in module next nil not or puts raise "
    "require rescue return self then true unless until when while yield"
)
_CONSTANTS: Final = _parse_keywords("true false null yes no on off")

_JSON: Final = _Grammar(strings=_DOUBLE, names=r'"(?:[^"\\\n]++|\\.)*+"(?=\s*+:)', keywords=_CONSTANTS)
_CODE: Final = _Grammar(_SLASHES, f"{_DOUBLE}|{_SINGLE}|{_BACKQUOTED}", keywords=_C_LIKE)
_GRAMMARS: Final[dict[str, _Grammar]] = {
    **dict.fromkeys(("json", "jsonc", "json5", "jsonl", "ndjson"), _JSON),
    **dict.fromkeys(
        ("python", "py", "python3", "pycon"), _Grammar(_HASH, f"{_TRIPLE}|{_DOUBLE}|{_SINGLE}", keywords=_PYTHON)
    ),
    **dict.fromkeys(
        ("bash", "sh", "shell", "zsh", "console", "shell-session", "dockerfile", "docker", "makefile", "make"),
        _Grammar(r"(?<![^\s;])#[^\n]*+", f"{_DOUBLE}|{_SINGLE}", keywords=_SHELL),
    ),
    **dict.fromkeys(
        ("yaml", "yml", "toml", "ini", "cfg", "properties"),
        _Grammar(r"(?<!\S)[#;][^\n]*+", f"{_DOUBLE}|{_SINGLE}", r"(?<![\w.-])[\w.-]++(?=[ \t]?[:=])", _CONSTANTS),
    ),
    "sql": _Grammar(f"{_DASHES}|{_SLASHES}", f"{_SINGLE}|{_DOUBLE}", keywords=_SQL, ignore_case=True),
    **dict.fromkeys(("ruby", "rb"), _Grammar(_HASH, f"{_DOUBLE}|{_SINGLE}", keywords=_RUBY)),
    **dict.fromkeys(("html", "xml", "svg", "xhtml"), _Grammar(_ARROWS, _DOUBLE, r"</?[\w:-]++")),
    "css": _Grammar(_SLASHES, f"{_DOUBLE}|{_SINGLE}", r"(?<![\w-])[a-z-]++(?=:)"),
    **dict.fromkeys(
        (
            *(
                "javascript",
                "js",
                "jsx",
                "typescript",
                "ts",
                "tsx",
                "go",
                "rust",
                "rs",
                "java",
                "kotlin",
                "kt",
                "scala",
            ),
            *("c", "h", "cpp", "c++", "csharp", "cs", "c#", "swift", "php", "dart", "protobuf", "proto", "graphql"),
        ),
        _CODE,
    ),
}
_PATTERNS: Final = {grammar: grammar.compile_token_pattern() for grammar in set(_GRAMMARS.values())}
_DIFF: Final = re.compile(
    r"^(?:(?P<gh>(?:diff |index |--- |\+\+\+ |@@)[^\n]*+)|(?P<gi>\+[^\n]*+)|(?P<gd>-[^\n]*+))", re.MULTILINE
)
_DIFFS: Final = frozenset({"diff", "patch", "udiff"})


@dataclass(frozen=True, slots=True)
class CodeToken:
    """Coloured characters `start` to `stop` (exclusive) of a code, with their class."""

    start: int
    stop: int
    css_class: str


def list_colored_code_tokens(code: str, language: str) -> list[CodeToken]:
    """List the coloured tokens of a text that is masked and free of hidden characters; none of long code."""
    grammar = _GRAMMARS.get(language.lower())
    if grammar is None or len(code) > LIMIT:
        return []
    return [CodeToken(start, stop, _PREFIX + kind) for start, stop, kind in _iterate_colored_tokens(code, grammar)]


def mask_and_highlight_code(code: str, language: str) -> SafeString:
    """Render the content of a `<pre>`. Unknown languages and long code are only escaped."""
    code = mask_text(code)
    return escape(reveal_hidden_characters(code)) if len(code) > LIMIT else _build_highlighted_html(code, language)


def highlight_code_without_masking(code: str, language: str) -> SafeString:
    """Render the content of a `<pre>` for a program of this site, which is not masked: it has no secrets."""
    return _build_highlighted_html(code, language)


@lru_cache(maxsize=512)
def _build_highlighted_html(code: str, language: str) -> SafeString:
    # Cached for all readers, as masking is done before.
    code, language = reveal_hidden_characters(code), language.lower()
    grammar = _GRAMMARS.get(language)
    if grammar is None and language not in _DIFFS:
        return escape(code)
    parts, end = [], 0
    for start, stop, kind in _iterate_colored_tokens(code, grammar):
        parts += [escape(code[end:start]), f'<span class="{_PREFIX}{kind}">{escape(code[start:stop])}</span>']
        end = stop
    return mark_safe("".join([*parts, escape(code[end:])]))  # noqa: S308 - a closed set of classes around escaped text


def _iterate_colored_tokens(code: str, grammar: _Grammar | None) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and class of each coloured token; without a grammar, of a diff."""
    pattern = _DIFF if grammar is None else _PATTERNS[grammar]
    for match in pattern.finditer(code):
        kind = str(match.lastgroup)
        if kind == "w":
            word = match.group().lower() if grammar and grammar.ignore_case else match.group()
            if grammar is None or word not in grammar.keywords:
                continue
            kind = "k"
        yield match.start(), match.end(), kind
