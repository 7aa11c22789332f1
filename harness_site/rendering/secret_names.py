"""Values that are secret because of the name that stands before them: in fields of JSON, in headers, in options of
commands, and in running text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from harness_site.rendering.decoding import decode
from harness_site.rendering.linear_patterns import LinearPattern, Match, compile_pattern
from harness_site.rendering.secret_shapes import Span

#: Tells whether a name is one of a secret.
IsSecret: TypeAlias = Callable[[str], bool]

#: A field is secret when its name ends like one of these, without regard to case, spaces, `-` and `_`.
ENDINGS: Final = (
    "accesskey",
    "accountkey",
    "apikey",
    "authkey",
    "authorization",
    "authtoken",
    "bearer",
    "cardno",
    "cardnumber",
    "clientkey",
    "connectionstring",
    "cookie",
    "creditcard",
    "credential",
    "cvc",
    "cvv",
    "encryptionkey",
    "jwt",
    "kennwort",
    "licensekey",
    "masterkey",
    "mnemonic",
    "onetimecode",
    "otp",
    "passcode",
    "passphrase",
    "privatekey",
    "pswd",
    "pwd",
    "recoverycode",
    "secretkey",
    "seedphrase",
    "signingkey",
    "sshkey",
    "ssn",
    "token",
)
#: … or holds one of these, unless one of the others stands there.
PARTS: Final = ("passwd", "password", "passwort", "secret")
_HARMLESS: Final = ("secretar",)
#: What may follow a name of a secret: `api_key_prod`, `access_token_2`, `tokenValue`.
_FOLLOWING: Final = re.compile(
    r"(?<=[a-z]{3})(?:[0-9]{1,3}|value|header|string|plain|raw|old|new|prod|live|test|staging|dev|backup)\Z"
)
#: … or is one of these. They are words of other meanings too: numbers under them are shown.
WORDS: Final = ("auth", "pass", "psw", "pw")
#: Endings in the plural that are counted more often than listed: `max_tokens: 4096`.
_COUNTED: Final = ("tokens", "cookies", "otps")
#: Headers whose whole line is the value.
_LINES: Final = ("cookie", "setcookie")
_SCHEMES: Final = compile_pattern(r"^(?i:bearer|basic|token|apikey|negotiate|ntlm)[ \t]+")
_WHOLE_SCHEMES: Final = compile_pattern(r"^(?i:digest|aws4-hmac-sha256|hawk|signature)[ \t]")
_NOISE: Final = re.compile(r"[\W_]+")

#: One of these stands in each usual name: most names in a text need no further look.
_HINTS: Final = (
    *("key", "auth", "bearer", "card", "connection", "cookie", "cred", "cvc", "cvv", "jwt", "mnemonic", "code", "otp"),
    *("pass", "phrase", "psw", "pw", "secret", "token", "ssn", "kennwort"),
)


@dataclass(frozen=True)
class Patterns:
    """Where a name may stand that is secret, with its value behind it: as a pair (`key=value`), as an option of a
    command (`--key value`), as the name of another field (`{"name": "key", "value": "value"}`), and as an element
    (`<key>value</key>`), as an attribute beside another (`name="key" value="value"`), before a quoted value
    (`PASSWORD 'value'`, `setPassword("value")`), and as a cell of a table (`| key | value |`)."""

    hint: LinearPattern
    pair: LinearPattern
    option: LinearPattern
    named: LinearPattern
    named_before: LinearPattern
    element: LinearPattern
    attribute: LinearPattern
    quoted: LinearPattern
    cell: LinearPattern


@lru_cache(maxsize=64)
def patterns(names: frozenset[str], *, usual: bool) -> Patterns:
    """Return the patterns for the `names` of a workspace, as `bare` makes them, and the `usual` ones."""
    own = ["[ ._-]?".join(map(re.escape, name)) for name in sorted(names)]
    hint = rf"(?i:{'|'.join([*(_HINTS if usual else ()), *own])})"
    name = rf"(?P<name>[\pL\pN_.\-]*{hint}[\pL\pN_.\-]*)"
    quote = r"\\{0,8}[\"']"
    named = rf"[\"'](?i:name|key|k|id|header|field|variable){quote}\s*:\s*{quote}{name}"
    return Patterns(
        hint=compile_pattern(hint),
        pair=compile_pattern(rf"{name}(?P<close>(?:\\{{0,8}}[\"'`])?)\]?\)?[ \t]*(?P<sign>[:=]{{1,3}}>?|->)[ \t]*"),
        option=compile_pattern(rf"(?:(?:^|[\s\"'`(\[])--?|\b(?:setx|setenv|ENV|ARG)[ \t]+){name}[ \t]+"),
        named=compile_pattern(
            rf"{named}{quote}(?:\s*,\s*{quote}\w{{1,20}}{quote}\s*:\s*[^{{}},]{{1,60}}){{0,3}}?"
            rf"\s*,\s*{quote}(?i:value|val|v|content|text){quote}\s*:\s*"
        ),
        named_before=compile_pattern(rf",\s*\\{{0,8}}{named}{quote}"),
        element=compile_pattern(
            rf"<(?:\w{{1,40}}:)?{name}(?:\s[^<>]*)?>(?:<!\[CDATA\[)?(?P<value>[^<>\]]+)(?:\]\]>)?</"
        ),
        attribute=compile_pattern(
            rf"\b(?i:name|key|id)=\\{{0,8}}[\"']{name}\\{{0,8}}[\"']"
            r"(?:[^<>\n]{0,100}?\s(?i:value|content)=|(?:\r?\n[^\n\r]{1,100}){0,3}\r?\n\r?\n)"
        ),
        quoted=compile_pattern(rf"{name}(?:[ \t]+|\()\\{{0,8}}[\"'`]"),
        cell=compile_pattern(rf"\|[ \t*`]*{name}[ \t*`]*\|[ \t*`]*"),
    )


_VALUE_BEFORE: Final = re.compile(r"""(?:value|val|content|text)\\{0,8}["']\s{0,20}:\s{0,20}""", re.IGNORECASE)
#: A value stands no further before its name.
_BEFORE: Final = 500
#: What may stand between a sign and the value: a type, marks of strings, the sign of a block, a line break, a mask.
_BEFORE_VALUE: Final = re.compile(
    r"""(?:
        (?:str|string|String|bytes|Optional\[str\])[ \t]{0,10}=[ \t]{0,10}
        | [|>][+-]?(?=[ \t]*\n)
        | ‹masked›
        | [ \t]{0,40}\r?\n[ \t]{1,40}(?:-[ \t]{1,10})?(?![\w.-]{1,60}[ \t]*[:=]|[-*#])
        | (?:\$|[fFrRbBuU]{1,2})(?=["'])
        | (?:\"\"(?=\")|''(?='))
    )*+""",
    re.VERBOSE,
)
#: A scheme that is not known, before a login.
_UNKNOWN_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z-]{1,30} (?=[\w.~+/:-]{0,30}[0-9])(?=[\w.~+/:-]{6})")
#: The items of a list of YAML, of which the first one has begun.
_LISTED: Final = re.compile(r"[^\n]{1,300}(?:\n[ \t]{1,40}-[ \t][^\n]{1,300})++")
#: Names of what people type.
_TYPED: Final = ("password", "passwort", "passphrase", "passcode", "pwd", "passwd")
_SHORT: Final = frozenset({"pw", "psw"})
_CELL: Final = re.compile(r"[^|\n`*\s]*+")
_BRACKETS: Final = re.compile(r"[\[\]{}]")
#: A list or an object as a value in a text is masked so far at most.
_NESTED: Final = 5_000
_OPENED: Final = re.compile(r"(\\{0,8})([\"'`])")
#: No part of it may begin where another could go on, so that nothing is read twice.
_UNQUOTED: Final = re.compile(
    r"""(?:
        [^\s,;&"'`{}\[\]()\\<>‹›]++
        | [({\[] [^\s,;&"'`{}\[\]()\\<>‹›]*+ [)}\]]     # p@ss(word)
        | [({\[<] (?=[^\s/A-Za-z,;&"'`])
        | \\ (?![nrtu"'`\\])
    )*+""",
    re.VERBOSE,
)
_IN_DOUBLE: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_IN_SINGLE: Final = re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL)
_LINE: Final = re.compile(r"""[^\n"'`]*+""")
_LINE_WITH_QUOTES: Final = re.compile(r"[^\n'`]*+")
#: Fields that hold a name, and those that hold what it names.
_NAME_FIELDS: Final = frozenset(
    {"name", "key", "k", "id", "header", "headername", "field", "fieldname", "variable", "variablename", "parameter"}
)
_VALUE_FIELDS: Final = frozenset({"value", "val", "v", "content", "text", "headervalue", "fieldvalue"})
#: Words before a name that may belong to it: “API key: …”.
_WORDS_BEFORE: Final = re.compile(r"((?:[A-Za-z]{2,20} ){1,2})\Z")


def bare(name: str) -> str:
    """Return `name` as it is compared: without case, blanks and signs."""
    return _NOISE.sub("", name).lower()


@lru_cache(maxsize=4096)
def usual_secret(name: str) -> bool:
    """Whether a field of this name is secret everywhere."""
    read = decode(name)
    compared = bare(read.text if read is not None else name)
    one = compared.removesuffix("s")
    if compared in WORDS or compared.endswith(ENDINGS) or one.endswith(ENDINGS):
        return True
    if _FOLLOWING.sub("", compared).endswith((*ENDINGS, "auth")):
        return _FOLLOWING.search(compared) is not None
    return any(part in compared for part in PARTS) and not any(word in compared for word in _HARMLESS)


def hides_value(name: str, value: Any, is_secret: IsSecret) -> bool:
    """Whether `value`, a JSON value in a field called `name`, is secret. That there is nothing is no secret."""
    if value in (None, "", [], {}) or isinstance(value, bool) or not is_secret(name):
        return False
    return not (_counts(name) and _only_numbers(value))


def hidden_fields(value: Mapping[str, Any], is_secret: IsSecret) -> frozenset[str]:
    """Return the keys of a JSON object whose values are secret: by their own names, or by the name that stands in
    another field, as in `{"name": "Authorization", "value": …}`."""
    hidden = {key for key, inner in value.items() if hides_value(str(key), inner, is_secret)}
    named = next((inner for key, inner in value.items() if bare(str(key)) in _NAME_FIELDS), None)
    if isinstance(named, str) and len(named) <= 200 and is_secret(named):
        values = (key for key in value if bare(str(key)) in _VALUE_FIELDS)
        hidden |= {key for key in values if hides_value(named, value[key], is_secret)}
    return frozenset(hidden)


def hidden_items(value: Sequence[Any], is_secret: IsSecret) -> frozenset[int]:
    """Return the places in a JSON list whose values are secret: behind an option of a command (`--password`), and in a
    pair of a name and a value."""
    hidden = set()
    for place, (before, item) in enumerate(pairwise(value), 1):
        if not isinstance(before, str) or not isinstance(item, str) or not item or len(before) > 200:
            continue
        option = before.startswith("-") and "=" not in before and is_secret(before) and not item.startswith("--")
        login = before in {"-u", "-U", "--user", "--proxy-user"} and ":" in item
        pair = (len(value) == 2 and is_secret(before)) or _is_header(before)
        if option or login or pair:
            hidden.add(place)
    return frozenset(hidden)


def find_named_values(text: str, known: Patterns, is_secret: IsSecret) -> Iterator[Span]:
    """Yield where `text` holds the value of a secret name."""
    if ":" in text or "=" in text or "->" in text:
        yield from _find(text, known.pair, _pair_value, is_secret)
    if "-" in text or "set" in text or "ENV" in text or "ARG" in text:
        yield from _find(text, known.option, _option_value, is_secret)
    if "</" in text:
        yield from (match.span(2) for match in known.element.finditer(text) if is_secret(match["name"]))
    if ":" in text and ("'" in text or '"' in text):
        yield from _find(text, known.named, _named_value, is_secret)
        yield from _find(text, known.named_before, _value_before, is_secret)
    if "'" in text or '"' in text or "`" in text:
        yield from _find(text, known.attribute, _named_value, is_secret)
        yield from _find(text, known.quoted, _quoted_value, is_secret)
    if "|" in text:
        yield from _find(text, known.cell, _cell_value, is_secret)


_Reader: TypeAlias = Callable[[str, Match, IsSecret], Span | None]


def _find(text: str, pattern: LinearPattern, read: _Reader, is_secret: IsSecret) -> Iterator[Span]:
    """What begins inside a value belongs to it. A value is read to its end once: no text is gone through twice."""
    done = 0
    for match in pattern.finditer(text):
        if match.start(1) < done:
            continue
        span = read(text, match, is_secret)
        if span is not None and span[1] > span[0]:
            yield span
            done = span[1]


def _pair_value(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    name = _secret_name(text, match, is_secret)
    if not name:
        return None
    start = _value_start(text, match.end())
    quoted = _quoted(text, start)
    if quoted is not None:
        return quoted
    if match["close"] == "`":  # a list of what fields mean: “`token`: the key of …”
        return None
    if text[start : start + 1] in ("{", "["):
        return start, _nested_end(text, start)
    compared = bare(name)
    if compared.endswith(_LINES):
        return start, _end(_LINE, text, start)
    listed = _LISTED.match(text, start)
    end = listed.end() if listed is not None and text.endswith("- ", 0, start) else _after_scheme(text, start, compared)
    value = text[start : _trimmed(text, start, end)]
    return (start, start + len(value)) if _unquoted_counts(compared, value, match["sign"]) else None


def _value_start(text: str, start: int) -> int:
    """Where the value of a pair begins whose sign ends at `start`: behind marks of the language it is written in, on
    one of the next lines, behind a mask that somebody wrote."""
    before = _BEFORE_VALUE.match(text, start)
    return start if before is None else before.end()


def _quoted_value(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    """What stands in quotes right behind a name: `ALTER USER shop PASSWORD 'value'`, `setPassword("value")`."""
    name = bare(match["name"])
    opened = match[0].rstrip("\"'`").rstrip("\\")
    if not is_secret(match["name"]) or not name.endswith(_TYPED):
        return None
    if opened.endswith("(") and not name.startswith("set"):
        return None
    return _quoted(text, match.start() + len(opened))


def _cell_value(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    if not is_secret(match["name"]) or bare(match["name"]) in WORDS:
        return None
    start = match.end()
    end = _end(_CELL, text, start)
    value = text[start:end]
    said = any(each.isdigit() for each in value) and value.strip("0123456789.,") != ""
    return (start, end) if said else None


def _unquoted_counts(compared: str, value: str, sign: str) -> bool:
    """Whether what stands without quotes behind this name is one of its values, and not a number, a path or prose."""
    if compared in WORDS:
        return ("=" in sign or compared in _SHORT) and not value.isdecimal()
    if compared.endswith(_COUNTED):
        return len(value) >= 8 and not value.isalpha() and not value.replace(".", "").isdecimal()
    if compared == "pwd":
        return not value.startswith(("/", "~"))
    return bool(value.strip("*_~|>#"))


def _option_value(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    if not is_secret(match["name"]) or bare(match["name"]) == "auth":
        return None
    start = match.end()
    if text.startswith("--", start):
        return None
    return _quoted(text, start) or (start, _trimmed(text, start, _end(_UNQUOTED, text, start)))


def _named_value(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    if not is_secret(match["name"]):
        return None
    start = match.end()
    return _quoted(text, start) or (start, _end(_UNQUOTED, text, start))


def _value_before(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    """The value that stands before its name."""
    if not is_secret(match["name"]):
        return None
    first = max(0, match.start() - _BEFORE)
    ends = [field.end() for field in _VALUE_BEFORE.finditer(text, first, match.start())]
    return (_quoted(text, ends[-1]) or (ends[-1], match.start())) if ends else None


def _secret_name(text: str, match: Match, is_secret: IsSecret) -> str:
    """The name of a pair where it is a secret one: with the words before it, where only these make it one."""
    name: str = match["name"]
    name = name[-300:]
    # Of `order.customer.password` and `-password` only the end counts, which `is_secret` sees anyway.
    if is_secret(name):
        return name
    start = match.start(1)
    before = _WORDS_BEFORE.search(text[max(0, start - 42) : start])
    if before is None or match["close"]:
        return ""
    words = before[1].split()
    for number in range(1, len(words) + 1):
        whole = "".join([*words[-number:], name])
        compared = bare(whole)
        if is_secret(whole) and (compared.endswith(ENDINGS) or not any(part in compared for part in PARTS)):
            return whole
    return ""


def _quoted(text: str, start: int) -> Span | None:
    """What stands between the quotes that open at `start`; to the end of the line where none closes them."""
    opened = _OPENED.match(text, start)
    if opened is None:
        return None
    begin, escapes, quote = opened.end(), opened[1], opened[2]
    if escapes or quote == "`":
        end = text.find(opened[0], begin, begin + 10_000)
    else:
        end = _end(_IN_DOUBLE if quote == '"' else _IN_SINGLE, text, begin, begin + 1_000_000)
        end = end if text.startswith(quote, end) else -1
    if end < 0:
        line = text.find("\n", begin)
        end = len(text) if line < 0 else line
    return begin, end


def _nested_end(text: str, start: int) -> int:
    """Where the bracket at `start` is closed, or as far as it is looked for."""
    depth = 0
    for bracket in _BRACKETS.finditer(text, start, start + _NESTED):
        depth += 1 if bracket[0] in "[{" else -1
        if depth == 0:
            return bracket.end()
    return min(len(text), start + _NESTED)


def _after_scheme(text: str, start: int, compared: str) -> int:
    """The end of a value without quotes: “Bearer abc” is one, and of a login with several parts all of the line."""
    head = text[start : start + 40]
    if _WHOLE_SCHEMES.search(head):
        return _end(_LINE_WITH_QUOTES, text, start)
    known = _SCHEMES.search(head)
    scheme = _UNKNOWN_SCHEME.match(head) if known is None and compared.endswith("authorization") else known
    return _end(_UNQUOTED, text, start + (scheme.end() if scheme else 0))


def _trimmed(text: str, start: int, end: int) -> int:
    """Without the full stop of a sentence."""
    while end > start and text[end - 1] in ".:!?" and end - start > 1:
        end -= 1
    return end


def _end(pattern: re.Pattern[str], text: str, start: int, upto: int | None = None) -> int:
    match = pattern.match(text, start) if upto is None else pattern.match(text, start, upto)
    return start if match is None else match.end()


def _only_numbers(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, int | float) or (bool(inner) and all(isinstance(each, int | float) for each in inner))


def _counts(name: str) -> bool:
    compared = bare(name)
    return compared.endswith(_COUNTED) or compared in WORDS


def _is_header(name: str) -> bool:
    return bare(name) in {"authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "xauthtoken"}
