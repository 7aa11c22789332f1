"""Values that are secret because of their names, in JSON fields, headers, command options and running text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from harness_site.core.linear_regex import LinearPattern, Match, compile_pattern
from harness_site.core.masking.escape_decoding import decode_escapes
from harness_site.core.masking.secret_shapes import Span

#: Predicate of secret names.
IsSecret: TypeAlias = Callable[[str], bool]

#: Endings of secret field names, ignoring case, spaces, `-` and `_`.
ENDINGS: Final = (
    "accesskey",
    "accountkey",
    "apikey",
    "authkey",
    "authorization",
    "authtoken",
    "becomepass",
    "bearer",
    "cardno",
    "cardnumber",
    "clientkey",
    "connectionstring",
    "contrasena",
    "contraseña",
    "cookie",
    "creditcard",
    "credential",
    "cvc",
    "cvv",
    "dbpass",
    "encryptionkey",
    "hasło",
    "heslo",
    "hmackey",
    "jsessionid",
    "jwt",
    "kennwort",
    "licensekey",
    "masterkey",
    "mnemonic",
    "motdepasse",
    "onetimecode",
    "otp",
    "passcode",
    "passphrase",
    "phpsessid",
    "privatekey",
    "pswd",
    "pwd",
    "recoverycode",
    "secretkey",
    "seedphrase",
    "senha",
    "signingkey",
    "sshkey",
    "sshpass",
    "ssn",
    "token",
    "wachtwoord",
    "пароль",
    "비밀번호",
    "パスワード",
    "密码",
    "密碼",
)
#: Parts of secret field names, unless one of the harmless words occurs.
PARTS: Final = ("passwd", "password", "passwort", "secret")
_HARMLESS: Final = ("secretar",)
#: Suffixes after a secret name: `api_key_prod`, `access_token_2`, `tokenValue`.
_NAME_SUFFIX: Final = re.compile(
    r"(?<=[a-z]{3})(?:[0-9]{1,3}|value|header|string|plain|raw|old|new|prod|live|test|staging|dev|backup)\Z"
)
#: Complete secret names that have other meanings too: numbers under them are not masked.
WORDS: Final = ("auth", "pass", "psw", "pw")
#: Plural endings that usually name a count: `max_tokens: 4096`.
_COUNT_SUFFIXES: Final = ("tokens", "cookies", "otps")
#: Headers whose value is the rest of the line.
_LINES: Final = ("cookie", "setcookie")
_SCHEMES: Final = re.compile(r"(?:bearer|basic|token|apikey|negotiate|ntlm)[ \t]+", re.IGNORECASE | re.ASCII)
_WHOLE_SCHEMES: Final = re.compile(r"(?:digest|aws4-hmac-sha256|hawk|signature)[ \t]", re.IGNORECASE | re.ASCII)
_NON_WORD: Final = re.compile(r"[\W_]+")

#: Every usual name contains one of these, so most names need no further check.
_HINTS: Final = (
    *("key", "auth", "bearer", "card", "connection", "cookie", "cred", "cvc", "cvv", "jwt", "mnemonic", "code", "otp"),
    *("pass", "phrase", "psw", "pw", "secret", "token", "ssn", "kennwort"),
    *("jsessionid", "phpsessid", "contrase", "contraseñ", "hasło", "heslo", "senha", "wachtwoord"),
    *("пароль", "비밀번호", "パスワード", "密码", "密碼"),
)


@dataclass(frozen=True)
class SecretPatterns:
    """Patterns of secret names, each with the place of the value.

    A pair (`key=value`), a command option (`--key value`), the name in another field (`{"name": "key", "value":
    "value"}`, in any order), an element (`<key>value</key>`), an attribute beside another (`name="key" value="value"`),
    a name before a quoted value (`PASSWORD 'value'`, `setPassword("value")`), and a table cell (`| key | value |`).
    An element named by an attribute or by the element before it (`<string name="key">value</string>`,
    `<key>key</key><string>value</string>`). A pair of arguments (`("key", "value")`, `"--key", "value"`), or of lines
    (`name: key`, `value: value`).
    """

    hint: LinearPattern
    pair: LinearPattern
    option: LinearPattern
    named: LinearPattern
    named_before: LinearPattern
    element: LinearPattern
    named_element: LinearPattern
    listed: LinearPattern
    lines: LinearPattern
    open_element: LinearPattern
    attribute: LinearPattern
    quoted: LinearPattern
    cell: LinearPattern


@lru_cache(maxsize=64)
def build_secret_patterns(names: frozenset[str], *, usual: bool) -> SecretPatterns:
    """Build the patterns for the normalized `names` of a workspace, and for the `usual` ones."""
    own = ["[ ._-]?".join(map(re.escape, name)) for name in sorted(names)]
    hint = rf"(?i:{'|'.join([*(_HINTS if usual else ()), *own])})"
    name = rf"(?P<name>[\pL\pN_.\-]*{hint}[\pL\pN_.\-]*)"
    quote = r"\\{0,8}[\"']"
    name_field = rf"[\"'](?i:name|key|k|id|header|field|variable){quote}\s*:\s*{quote}{name}"
    return SecretPatterns(
        hint=compile_pattern(hint),
        pair=compile_pattern(rf"{name}(?P<close>(?:\\{{0,8}}[\"'`])?)\]?\)?[ \t]*(?P<sign>[:=]{{1,3}}>?|->)[ \t]*"),
        option=compile_pattern(rf"(?:(?:^|[\s\"'`(\[])--?|\b(?:setx|setenv|ENV|ARG)[ \t]+){name}[ \t]+"),
        named=compile_pattern(
            rf"{name_field}{quote}(?:\s*,\s*{quote}\w{{1,20}}{quote}\s*:\s*[^{{}},]{{1,60}}){{0,3}}?"
            rf"\s*,\s*{quote}(?i:value|val|v|content|text){quote}\s*:\s*"
        ),
        named_before=compile_pattern(rf",\s*\\{{0,8}}{name_field}{quote}"),
        element=compile_pattern(
            rf"<(?:\w{{1,40}}:)?{name}(?:\s[^<>]*)?>(?:<!\[CDATA\[)?(?P<value>[^<>\]]+)(?:\]\]>)?</"
        ),
        named_element=compile_pattern(
            rf"(?:\b(?i:name|key|id)=[\"']|<key>){name}(?:[\"'][^<>]{{0,100}}>|</key>\s{{0,100}}<\w{{1,20}}>)"
            r"(?P<value>[^<>]+)(?:<|\z)"
        ),
        listed=compile_pattern(rf"(?:\(\s{{0,20}}{quote}|{quote}-){name}{quote}\s{{0,20}},\s{{0,20}}"),
        lines=compile_pattern(
            rf"(?m:^)[ \t-]{{0,40}}name:[ \t]{{0,20}}[\"']?{name}[\"']?[ \t]{{0,20}}\r?\n"
            r"[ \t]{0,40}value:[ \t]{0,20}"
        ),
        open_element=compile_pattern(
            rf"<(?:\w{{1,40}}:)?{name}(?:\s[^<>]*)?>(?:<!\[CDATA\[)?(?P<value>[^<>\]]*)(?:\]\]?>?)?<?\z"
        ),
        attribute=compile_pattern(
            rf"\b(?i:name|key|id|type)=\\{{0,8}}[\"']{name}\\{{0,8}}[\"']"
            r"(?:[^<>\n]{0,100}?\s(?i:value|content)=|(?:\r?\n[^\n\r]{1,100}){0,3}\r?\n\r?\n)"
        ),
        quoted=compile_pattern(rf"{name}(?:[ \t]+|\()\\{{0,8}}[\"'`]"),
        cell=compile_pattern(rf"\|[ \t*`]*{name}[ \t*`]*\|[ \t*`]*"),
    )


#: Groups of these patterns; access by name is many times slower.
_NAME, _CLOSE, _SIGN = 1, 2, 3
_VALUE_BEFORE: Final = re.compile(r"""(?:value|val|content|text)\\{0,8}["']\s{0,20}:\s{0,20}""", re.IGNORECASE)
#: Maximum distance of a value before its name.
_MAX_DISTANCE: Final = 500
#: Text between a sign and the value: a type, string prefixes, a block indicator, a line break, a mask. Each repeated
#: group is atomic: Python before 3.11.5 keeps what the last, failed repetition of another one has read.
_BEFORE_VALUE: Final = re.compile(
    r"""(?:(?>
        (?:str|string|String|bytes|Optional\[str\])[ \t]{0,10}=[ \t]{0,10}
        | [|>][+-]?(?=[ \t]*\n)
        | ‹masked›
        | [ \t]{0,40}\r?\n[ \t]{1,40}(?:-[ \t]{1,10})?(?![\w.-]{1,60}[ \t]*[:=]|[-*#])
        | (?:\$|[fFrRbBuU]{1,2})(?=["'])
        | (?:\"\"(?=\")|''(?='))
    ))*+""",
    re.VERBOSE,
)
#: An unknown authentication scheme before the credentials.
_UNKNOWN_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z-]{1,30} (?=[\w.~+/:-]{0,30}[0-9])(?=[\w.~+/:-]{6})")
#: The items of a YAML list, from within the first one.
_YAML_LIST: Final = re.compile(r"[^\n]{1,300}(?:(?>\n[ \t]{1,40}-[ \t][^\n]{1,300}))++")
#: Names of passwords that people type.
_PASSWORD_NAMES: Final = ("password", "passwort", "passphrase", "passcode", "pwd", "passwd")
_SHORT_PASSWORD_NAMES: Final = frozenset({"pw", "psw"})
_CELL: Final = re.compile(r"[^|\n`*\s]*+")
_BRACKETS: Final = re.compile(r"[\[\]{}]")
#: Maximum length of a list or object masked as a value in a text.
_MAX_NESTED_LENGTH: Final = 20_000
_OPENING_QUOTE: Final = re.compile(r"(\\{0,8})([\"'`])")
#: No alternative may start within another, so that nothing is scanned twice.
_UNQUOTED: Final = re.compile(
    r"""(?:(?>
        [^\s,;&"'`{}\[\]()\\<>‹›]++
        | [({\[] [^\s,;&"'`{}\[\]()\\<>‹›]*+ [)}\]]     # p@ss(word)
        | [({\[<] (?=[^\s/A-Za-z,;&"'`])
        | \\ (?![nrtu"'`\\])
    ))*+""",
    re.VERBOSE,
)
_IN_DOUBLE: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_IN_SINGLE: Final = re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL)
_LINE: Final = re.compile(r"""[^\n"'`]*+""")
_LINE_WITH_QUOTES: Final = re.compile(r"[^\n'`]*+")
#: Fields that hold a name, and fields that hold its value.
_NAME_FIELDS: Final = frozenset(
    {"name", "key", "k", "id", "header", "headername", "field", "fieldname", "variable", "variablename", "parameter"}
)
_VALUE_FIELDS: Final = frozenset({"value", "val", "v", "content", "text", "headervalue", "fieldvalue"})
#: Words that may belong to the name after them: “API key: …”.
_WORDS_BEFORE: Final = re.compile(r"((?:[A-Za-z]{2,20} ){1,2})\Z")


def normalize_field_name(name: str) -> str:
    """Normalize a name for comparison: without case, blanks and punctuation."""
    return _NON_WORD.sub("", name).lower()


@lru_cache(maxsize=4096)
def is_usual_secret_name(name: str) -> bool:
    """Return whether a field of this name is secret in every workspace."""
    decoded = decode_escapes(name)
    compared = normalize_field_name(decoded.text if decoded is not None else name)
    singular = compared.removesuffix("s")
    if compared in WORDS or compared.endswith(ENDINGS) or singular.endswith(ENDINGS):
        return True
    if _NAME_SUFFIX.sub("", compared).endswith((*ENDINGS, "auth")):
        return _NAME_SUFFIX.search(compared) is not None
    return any(part in compared for part in PARTS) and not any(word in compared for word in _HARMLESS)


def is_secret_field(name: str, value: Any, is_secret: IsSecret) -> bool:
    """Return whether the JSON value of a field is secret. Empty values and booleans are not."""
    if value in (None, "", [], {}) or isinstance(value, bool) or not is_secret(name):
        return False
    return not (_is_count_name(name) and _holds_only_numbers(value))


def find_secret_object_keys(value: Mapping[str, Any], is_secret: IsSecret) -> frozenset[str]:
    """Return the keys of a JSON object whose values are secret.

    Either by their own names, or by the name in another field, as in `{"name": "Authorization", "value": …}`.
    """
    secret_keys = {key for key, inner in value.items() if is_secret_field(str(key), inner, is_secret)}
    name = next((inner for key, inner in value.items() if _does_field_hold_name_of_another(str(key))), None)
    if isinstance(name, str) and len(name) <= 200 and is_secret(name):
        values = (key for key in value if normalize_field_name(str(key)) in _VALUE_FIELDS)
        secret_keys |= {key for key in values if is_secret_field(name, value[key], is_secret)}
    return frozenset(secret_keys)


@lru_cache(maxsize=4096)
def _does_field_hold_name_of_another(name: str) -> bool:
    """Return whether a field of this name holds the name of the value in another field."""
    return normalize_field_name(name) in _NAME_FIELDS


def find_indexes_of_secret_list_items(value: Sequence[Any], is_secret: IsSecret) -> frozenset[int]:
    """Return the indexes of the secret items of a JSON list: after a command option, or in a pair of name and value."""
    secret_places = set()
    for place, (before, item) in enumerate(pairwise(value), 1):
        if not isinstance(before, str) or not isinstance(item, str) or not item or len(before) > 200:
            continue
        is_option = before.startswith("-") and "=" not in before and is_secret(before) and not item.startswith("--")
        is_login = before in {"-u", "-U", "--user", "--proxy-user"} and ":" in item
        is_pair = (len(value) == 2 and is_secret(before)) or _is_secret_header_name(before)
        if is_option or is_login or is_pair:
            secret_places.add(place)
    return frozenset(secret_places)


def iterate_spans_of_secret_values_by_name(text: str, known: SecretPatterns, is_secret: IsSecret) -> Iterator[Span]:
    """Yield the spans of the values of secret names in `text`."""
    if ":" in text or "=" in text or "->" in text:
        yield from _iterate_spans_of_values_after_matches(text, known.pair, _find_pair_value_span, is_secret)
    if "-" in text or "set" in text or "ENV" in text or "ARG" in text:
        yield from _iterate_spans_of_values_after_matches(text, known.option, _find_option_value_span, is_secret)
    if "</" in text:
        for pattern in (known.element, known.named_element):
            yield from (match.span(2) for match in pattern.finditer(text) if is_secret(match[_NAME]))
    if ":" in text and ("'" in text or '"' in text):
        yield from _iterate_spans_of_values_after_matches(text, known.named, _find_named_field_value_span, is_secret)
        yield from _iterate_spans_of_values_after_matches(
            text, known.named_before, _find_value_span_before_name, is_secret
        )
    if "'" in text or '"' in text or "`" in text:
        yield from _iterate_spans_of_values_after_matches(
            text, known.attribute, _find_named_field_value_span, is_secret
        )
        yield from _iterate_spans_of_values_after_matches(
            text, known.quoted, _find_span_of_quoted_value_after_name, is_secret
        )
        yield from _iterate_spans_of_values_after_matches(
            text, known.listed, _find_value_span_after_quoted_name, is_secret
        )
    if "value:" in text:
        yield from _iterate_spans_of_values_after_matches(text, known.lines, _find_named_field_value_span, is_secret)
    if "|" in text:
        yield from _iterate_spans_of_values_after_matches(text, known.cell, _find_table_cell_value_span, is_secret)


def iterate_unclosed_xml_secret_starts(text: str, known: SecretPatterns, is_secret: IsSecret) -> Iterator[int]:
    """Yield the start of the value of a secret XML element that continues after the end of `text`."""
    if "<" in text:
        yield from (match.start(2) for match in known.open_element.finditer(text) if is_secret(match[_NAME]))


def is_unclosed_value(text: str, span: Span) -> bool:
    """Return whether the value at `span` begins with a quote or a bracket that is not closed in `text`."""
    start, end = span
    if text[start] in "[{" and text[end - 1] not in "]}":
        return True
    return start > 0 and text[start - 1] in "\"'`" and text[end : end + 1] in ("\n", "")


_Reader: TypeAlias = Callable[[str, Match, IsSecret], Span | None]


def _iterate_spans_of_values_after_matches(
    text: str, pattern: LinearPattern, find_value: _Reader, is_secret: IsSecret
) -> Iterator[Span]:
    """Yield the spans that `find_value` finds for the matches of a pattern.

    Matches inside of a value are skipped, so that no text is scanned twice.
    """
    end = 0
    for match in pattern.finditer(text):
        if match.start(1) < end:
            continue
        span = find_value(text, match, is_secret)
        if span is not None and span[1] > span[0]:
            yield span
            end = span[1]


def _find_pair_value_span(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    name = _find_secret_name_of_pair_or_empty(text, match, is_secret)
    if not name:
        return None
    start = _find_value_start(text, match.end())
    quoted = _find_quoted_span(text, start)
    if quoted is not None:
        return quoted
    if text.startswith("`", match.start(_CLOSE)):  # a list of field descriptions: “`token`: the key of …”
        return None
    if text[start : start + 1] in ("{", "["):
        return start, _find_end_of_closing_bracket(text, start)
    compared = normalize_field_name(name)
    if compared.endswith(_LINES):
        return start, _find_match_end(_LINE, text, start)
    list_items = _YAML_LIST.match(text, start) if text.endswith("- ", 0, start) else None
    end = list_items.end() if list_items is not None else _find_unquoted_value_end(text, start, compared)
    value = text[start : _find_end_before_punctuation(text, start, end)]
    return (start, start + len(value)) if _is_unquoted_value_secret(compared, value, match) else None


def _find_value_start(text: str, start: int) -> int:
    """Return the start of the value whose sign ends at `start`.

    Skips string prefixes, line breaks and masks in the text.
    """
    before = _BEFORE_VALUE.match(text, start)
    return start if before is None else before.end()


def _find_span_of_quoted_value_after_name(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    """Find a quoted value directly after a name: `ALTER USER shop PASSWORD 'value'`, `setPassword("value")`."""
    name = normalize_field_name(match[_NAME])
    before_quote = match[0].rstrip("\"'`").rstrip("\\")
    if not is_secret(match[_NAME]) or not name.endswith(_PASSWORD_NAMES):
        return None
    if before_quote.endswith("(") and not name.startswith("set"):
        return None
    return _find_quoted_span(text, match.start() + len(before_quote))


def _find_table_cell_value_span(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    if not is_secret(match[_NAME]) or normalize_field_name(match[_NAME]) in WORDS:
        return None
    start = match.end()
    end = _find_match_end(_CELL, text, start)
    value = text[start:end]
    is_secret_value = any(character.isdigit() for character in value) and value.strip("0123456789.,") != ""
    return (start, end) if is_secret_value else None


def _is_unquoted_value_secret(compared: str, value: str, match: Match) -> bool:
    """Return whether an unquoted text after a name is its value, and not a number, a path or prose."""
    if compared in WORDS:
        return ("=" in match[_SIGN] or compared in _SHORT_PASSWORD_NAMES) and not value.isdecimal()
    if compared.endswith(_COUNT_SUFFIXES):
        return len(value) >= 8 and not value.isalpha() and not value.replace(".", "").isdecimal()
    if compared == "pwd":
        return not value.startswith(("/", "~"))
    return bool(value.strip("*_~|>#"))


def _find_option_value_span(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    if not is_secret(match[_NAME]) or normalize_field_name(match[_NAME]) == "auth":
        return None
    start = match.end()
    if text.startswith("--", start):
        return None
    return _find_quoted_span(text, start) or (
        start,
        _find_end_before_punctuation(text, start, _find_match_end(_UNQUOTED, text, start)),
    )


def _find_named_field_value_span(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    if not is_secret(match[_NAME]):
        return None
    start = match.end()
    return _find_quoted_span(text, start) or (start, _find_match_end(_UNQUOTED, text, start))


def _find_value_span_after_quoted_name(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    """Find a quoted value after a quoted name: `("key", "value")`, `"--key", "value"`."""
    return _find_quoted_span(text, match.end()) if is_secret(match[_NAME]) else None


def _find_value_span_before_name(text: str, match: Match, is_secret: IsSecret) -> Span | None:
    """Find a value before its name."""
    if not is_secret(match[_NAME]):
        return None
    first = max(0, match.start() - _MAX_DISTANCE)
    starts = [field.end() for field in _VALUE_BEFORE.finditer(text, first, match.start())]
    return (_find_quoted_span(text, starts[-1]) or (starts[-1], match.start())) if starts else None


def _find_secret_name_of_pair_or_empty(text: str, match: Match, is_secret: IsSecret) -> str:
    """Return the name of a pair if it is secret, extended by the words before it if only these make it secret; else
    empty."""
    name: str = match[_NAME]
    name = name[-300:]
    # Of `order.customer.password` and `-password` only the end counts, which `is_secret` checks anyway.
    if is_secret(name):
        return name
    start = match.start(1)
    before = _WORDS_BEFORE.search(text[max(0, start - 42) : start])
    if before is None or match[_CLOSE]:
        return ""
    words = before[1].split()
    for number in range(1, len(words) + 1):
        whole = "".join([*words[-number:], name])
        compared = normalize_field_name(whole)
        if is_secret(whole) and (compared.endswith(ENDINGS) or not any(part in compared for part in PARTS)):
            return whole
    return ""


def _find_quoted_span(text: str, start: int) -> Span | None:
    """Return the span between the quotes that open at `start`, up to the end of the line if they are not closed."""
    opening = _OPENING_QUOTE.match(text, start)
    if opening is None:
        return None
    begin, escapes, quote = opening.end(), opening[1], opening[2]
    if escapes or quote == "`":
        end = text.find(opening[0], begin, begin + 10_000)
    else:
        end = _find_match_end(_IN_DOUBLE if quote == '"' else _IN_SINGLE, text, begin, begin + 1_000_000)
        end = end if text.startswith(quote, end) else -1
    if end < 0:
        line = text.find("\n", begin)
        end = len(text) if line < 0 else line
    return begin, end


def _find_end_of_closing_bracket(text: str, start: int) -> int:
    """Return the end of the bracket at `start`, or of the searched range."""
    depth = 0
    for bracket in _BRACKETS.finditer(text, start, start + _MAX_NESTED_LENGTH):
        depth += 1 if bracket[0] in "[{" else -1
        if depth == 0:
            return bracket.end()
    return min(len(text), start + _MAX_NESTED_LENGTH)


def _find_unquoted_value_end(text: str, start: int, compared: str) -> int:
    """Return the end of a value without quotes.

    “Bearer abc” is one value; a login with several parts extends to the end of the line.
    """
    head = text[start : start + 40]
    if _WHOLE_SCHEMES.match(head):
        return _find_match_end(_LINE_WITH_QUOTES, text, start)
    known_scheme = _SCHEMES.match(head)
    scheme = (
        _UNKNOWN_SCHEME.match(head) if known_scheme is None and compared.endswith("authorization") else known_scheme
    )
    return _find_match_end(_UNQUOTED, text, start + (scheme.end() if scheme else 0))


def _find_end_before_punctuation(text: str, start: int, end: int) -> int:
    """Exclude the punctuation at the end of a sentence."""
    while end > start and text[end - 1] in ".:!?" and end - start > 1:
        end -= 1
    return end


def _find_match_end(pattern: re.Pattern[str], text: str, start: int, upto: int | None = None) -> int:
    match = pattern.match(text, start) if upto is None else pattern.match(text, start, upto)
    return start if match is None else match.end()


def _holds_only_numbers(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, int | float) or (bool(inner) and all(isinstance(item, int | float) for item in inner))


def _is_count_name(name: str) -> bool:
    compared = normalize_field_name(name)
    return compared.endswith(_COUNT_SUFFIXES) or compared in WORDS


def _is_secret_header_name(name: str) -> bool:
    return normalize_field_name(name) in {
        "authorization",
        "proxyauthorization",
        "cookie",
        "setcookie",
        "xapikey",
        "xauthtoken",
    }
