"""Code with its words coloured by class; the classes are a closed set of our own.

One pass over the code, with a pattern in which nothing is tried twice: whatever opens and never closes reaches to the
end of its line or of the code. General grammars of hundreds of languages are not like that; a few kilobytes made for
them take seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from harness_site.rendering.masking import masked
from harness_site.rendering.text import uncovered

_PREFIX = "hl-"
#: Comments, keywords, strings, numbers, names of fields and tags; in a diff what was added, deleted, and its heads.
CLASSES: Final = frozenset(_PREFIX + name for name in ("c", "k", "s", "m", "nt", "gi", "gd", "gh"))
#: Longer code is shown without colours.
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
    """`comments`, `strings` and `names` are patterns without groups; `keywords` are whole words."""

    comments: str = ""
    strings: str = ""
    names: str = ""
    keywords: frozenset[str] = frozenset()
    ignore_case: bool = False

    def compiled(self) -> re.Pattern[str]:
        kinds = {"c": self.comments, "nt": self.names, "s": self.strings, "m": _NUMBER, "w": r"[^\W\d]\w*+"}
        return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items() if pattern))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_LIKE: Final = _words(
    "abstract as async await auto bool boolean break byte case catch char class const continue debugger def default "
    "defer delete do double else enum export extends extern false final finally float fn for from func function go "
    "goto if impl implements import in instanceof int interface is let long loop match mod module mut namespace new "
    "nil null nullptr override package private protected pub public range readonly return self short signed sizeof "
    "static string struct super switch this throw throws trait true try type typedef typeof undefined union unsafe "
    "unsigned use using val var virtual void volatile when where while with yield"
)
_PYTHON: Final = _words(
    "False None True and as assert async await break case class continue def del elif else except finally for from "
    "global if import in is lambda match nonlocal not or pass raise return self try while with yield"
)
_SHELL: Final = _words(
    "break case cd continue do done echo elif else esac eval exec exit export false fi for function if in local "
    "return set shift source sudo then true unset until while"
)
_SQL: Final = _words(
    "add all alter and as asc begin between by case check column commit constraint create cross default delete desc "
    "distinct drop else end exists false foreign from full group having in index inner insert into is join key left "
    "like limit not null offset on or order outer primary references returning right rollback select set table then "
    "true union unique update using values view when where with"
)
_RUBY: Final = _words(
    "and begin break case class def do else elsif end ensure false for if in module next nil not or puts raise "
    "require rescue return self then true unless until when while yield"
)
_CONSTANTS: Final = _words("true false null yes no on off")

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
_PATTERNS: Final = {grammar: grammar.compiled() for grammar in set(_GRAMMARS.values())}
_DIFF: Final = re.compile(
    r"^(?:(?P<gh>(?:diff |index |--- |\+\+\+ |@@)[^\n]*+)|(?P<gi>\+[^\n]*+)|(?P<gd>-[^\n]*+))", re.MULTILINE
)
_DIFFS: Final = frozenset({"diff", "patch", "udiff"})


def highlight(code: str, language: str) -> SafeString:
    """The inside of a `<pre>`. A language nobody knows, and very long code, are escaped text."""
    code = masked(code)
    return escape(uncovered(code)) if len(code) > LIMIT else _highlight(code, language)


@lru_cache(maxsize=512)
def _highlight(code: str, language: str) -> SafeString:
    # What depends on the reader has happened: this remembers for everybody.
    code, language = uncovered(code), language.lower()
    grammar = _GRAMMARS.get(language)
    if grammar is None and language not in _DIFFS:
        return escape(code)
    parts, end = [], 0
    for start, stop, kind in _tokens(code, grammar):
        parts += [escape(code[end:start]), f'<span class="{_PREFIX}{kind}">{escape(code[start:stop])}</span>']
        end = stop
    return mark_safe("".join([*parts, escape(code[end:])]))  # noqa: S308 - a closed set of classes around escaped text


def _tokens(code: str, grammar: _Grammar | None) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and class of what has a colour; without a grammar, of a diff."""
    pattern = _DIFF if grammar is None else _PATTERNS[grammar]
    for match in pattern.finditer(code):
        kind = str(match.lastgroup)
        if kind == "w":
            word = match.group().lower() if grammar and grammar.ignore_case else match.group()
            if grammar is None or word not in grammar.keywords:
                continue
            kind = "k"
        yield match.start(), match.end(), kind
