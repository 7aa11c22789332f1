"""Patterns of well-known secrets in any text: service tokens, private keys, card numbers.

The rules of `detect-secrets` are not suitable: they expect source code line by line, need backreferences and
lookaround, which no linear-time engine supports, and take ordinary words for keys (`AP` and eight characters count as
an Artifactory password).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from harness_site.core.linear_regex import Match, compile_pattern

#: Start and end of a part of a text.
Span: TypeAlias = tuple[int, int]

_PEM: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,60}-----|\z)"
#: Unambiguous prefixes, with the minimum of what follows them.
_TOKEN_PREFIXES: Final = (
    r"(?:sk|pk|rk)[-_](?:live|test|prod)[-_][\w-]{8,}",  # Stripe, and services with the same format
    r"\bsk-(?:proj|ant|or|svcacct|admin)-[\w-]{10,}",  # OpenAI, Anthropic, OpenRouter
    r"\bsk[-_][A-Za-z0-9]{20,}",
    r"gh[pousr]_\w{20,}|github_pat_\w{20,}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt)-[\w-]{16,}|GR1348941[\w-]{16,}",
    r"xox[abceoprs]-[\w-]{10,}|\bxapp-\d-[\w-]{16,}",
    r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)[\w/-]{16,}",
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b",
    r"AIza[\w-]{30,}|\bya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}",
    r"\bnpm_\w{20,}|\bhf_[A-Za-z0-9]{20,}|\bSG\.[\w-]{12,}\.[\w-]{12,}",
    r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*){0,3}",  # JSON web tokens
    r"\b(?:harness|invite|whsec)_[\w-]{32,}",
    r"\b(?:dop|doo|dor)_v1_\w{32,}|\bdckr_pat_[\w-]{20,}|\bshp(?:at|ss|ca|pa)_\w{20,}|\blin_api_\w{20,}",
    r"\bhvs\.[\w-]{20,}|\bglsa_\w{20,}|\bsbp_\w{32,}|\bATATT3[\w=-]{20,}|\brubygems_\w{32,}|\btskey-[\w-]{16,}",
    r"\b(?:gsk|r8)_\w{30,}|\bPMAK-[\w-]{20,}|\bAGE-SECRET-KEY-\w{20,}|\bdapi[0-9a-f]{32}\b|\bkey-[0-9a-f]{32}\b",
    r"\b(?:bot)?\d{8,10}:AA[\w-]{30,}",  # Telegram bots
    r"\bsq0[a-z]{3}-[\w-]{20,}|\bntn_\w{30,}|\bsecret_[A-Za-z0-9]{40,}|\bfig[dou]_[\w-]{30,}",
    r"\bpscale_(?:tkn|pw|oauth)_[\w.-]{20,}|\bdp\.[a-z]{2,5}\.[A-Za-z0-9]{40,}|\bHRKU-[\w-]{30,}",
    r"\bxai-\w{40,}|\bpplx-\w{40,}|\bf[mo][12]_[\w/+=-]{20,}|\bsntry[su]_[\w/+=-]{20,}|\bNRA[KA]-\w{20,}",
    r"\btvly-[\w-]{20,}|\bcsk-\w{30,}|\bfw_[A-Za-z0-9]{20,}|\bjina_\w{30,}|\blsv2_(?:pt|sk)_\w{20,}|\bnvapi-[\w-]{30,}",
    r"\b[ps]k-lf-[\w-]{16,}|\bph[cx]_\w{30,}|\bSK[0-9a-f]{32}\b|\bEAA[A-Za-z0-9]{30,}|\bAAAA[\w-]{7}:APA91b[\w-]{50,}",
    r"\bpat-[a-z]{2}\d-[0-9a-f-]{30,}",
    r"\bpul-[0-9a-f]{40}\b|\boy2[a-z0-9]{43}\b|\bAKCp\w{60,}",
)
#: Ambiguous prefixes, which may also begin a word, so that the characters after them decide.
_AMBIGUOUS_PREFIXES: Final = (
    r"\bpypi-(?P<pypi>[\w-]{16,})",
    r"(?i:\b(?:bearer|basic))[ \t]+(?P<scheme>[\w.~+/=-]{8,})",
)
#: Their groups; access by name is many times slower.
_PYPI, _SCHEME = 1, 2
_TOKENS: Final = compile_pattern("|".join((_PEM, *_TOKEN_PREFIXES)))
_AMBIGUOUS_TOKENS: Final = compile_pattern("|".join(_AMBIGUOUS_PREFIXES))
#: User name and password in a URL; the name may be empty, and the password may contain an `@`.
_URL_CREDENTIALS: Final = compile_pattern(r"://(?P<login>[^\s/:@\"'<>]*:[^\s/\"'<>]+)@")
#: A token as the only login in a URL: `https://token@host`.
_ADDRESS_TOKEN: Final = compile_pattern(r"://(?P<login>[A-Za-z0-9_-]{20,})@")
#: The beginning of a login in a URL at the end of a text.
_OPEN_LOGIN: Final = compile_pattern(r"://(?P<login>[^\s/\"'<>@]*)@?\z")
#: `-u name:password` of curl; `-u 1000:1000` is a user and a group.
_LOGIN_OPTION: Final = compile_pattern(
    r"(?:^|[\s\"'])(?:-[A-Za-z]{0,8}u|-U|--user|--proxy-user|-a)[ =]?[\"']?"
    r"(?P<login>(?:[^\s:\"'/-][^\s:\"'/]*)?:[^\s\"':=][^\s\"']*)"
)
#: Commands with a password option `-p`.
_PASSWORD_OPTION: Final = compile_pattern(
    r"\b(?:sshpass|redis-cli|mysql\w{0,10}|mariadb\w{0,10}|mongo\w{0,10}|(?:docker|podman|helm|oras|registry) login)\b"
    r"[^\n|;&]{0,150}?\s(?:-p|-w|-a)[ =]?(?P<password>\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s\"'-][^\s\"']{0,200})"
)
_SIGNATURE: Final = compile_pattern(
    r"[?&](?i:sig|signature|x-amz-signature|x-goog-signature)=(?P<value>[\w%/+=-]{16,})"
)
#: Database accounts in SQL and `.netrc`.
_STATEMENT: Final = compile_pattern(
    r"(?i)(?:\bidentified[ \t]+by[ \t]+|\brequirepass[ \t]+|-pass(?:in|out)?[ \t]+pass:"
    r"|\blogin[ \t\n]+\S{1,100}[ \t\n]+password[ \t]+)"
    r"(?P<password>\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s\"';]{1,200})"
)
_DOTTED_CARD: Final = compile_pattern(r"\b\d{4}(?:\.\d{4}){3}\b")
_DIGITS: Final = compile_pattern(r"\d(?:[ -]?\d){12,}")
#: First digits of each card issuer, and the lengths of its numbers.
_ISSUERS: Final = (
    (range(4, 5), 1, frozenset({13, 16, 19})),  # Visa
    (range(51, 56), 2, frozenset({16})),  # Mastercard
    (range(2221, 2721), 4, frozenset({16})),
    (range(34, 35), 2, frozenset({15})),  # American Express
    (range(37, 38), 2, frozenset({15})),
    (range(6011, 6012), 4, frozenset(range(16, 20))),  # Discover
    (range(644, 660), 3, frozenset(range(16, 20))),
    (range(62, 63), 2, frozenset(range(16, 20))),  # UnionPay
    (range(300, 306), 3, frozenset(range(14, 20))),  # Diners Club
    (range(36, 37), 2, frozenset(range(14, 20))),
    (range(38, 40), 2, frozenset(range(14, 20))),
    (range(3528, 3590), 4, frozenset(range(16, 20))),  # JCB
    (range(2200, 2205), 4, frozenset(range(16, 20))),  # Mir
    *((range(each, each + 1), 4, frozenset(range(13, 20))) for each in (5018, 5020, 5038, 5893, 6304, 6759, 6761)),
)
_GROUP: Final = re.compile("[0-9]+")
_IBAN_START: Final = re.compile(r"\b[A-Z]{2}[0-9]{2}")
#: Length of an international bank account number (IBAN, ISO 13616) → countries, as in the registry of SWIFT.
_IBAN_COUNTRIES: Final = {
    15: "NO",
    16: "BE",
    18: "DK FI NL",
    19: "MK SI",
    20: "AT BA EE KZ LT LU XK",
    21: "CH HR LI LV",
    22: "BG BH DE GB GE IE ME RS VA",
    23: "AE GI IL",
    24: "AD CZ ES MD PK RO SA SE SK TN",
    25: "PT",
    26: "IS TR",
    27: "FR GR IT MC SM",
    28: "AL AZ BY CY DO HU LB PL",
    29: "BR EG QA UA",
    30: "JO KW MU",
    31: "MT",
}
_IBAN_LENGTHS: Final = {country: length for length, names in _IBAN_COUNTRIES.items() for country in names.split()}
#: Longest IBAN in groups of four.
_LONGEST_IBAN: Final = 31 + 7
#: The lengths of card numbers by their first four digits.
_LENGTHS: Final = tuple(
    frozenset[int]().union(*(lengths for first, size, lengths in _ISSUERS if prefix // 10 ** (4 - size) in first))
    for prefix in range(10_000)
)
SHORTEST_CARD: Final = 13
_LONGEST_CARD: Final = 19
#: Digit → sum of the digits of its double.
_LUHN_DOUBLE: Final = str.maketrans("0123456789", "0246813579")
#: Minimum digits of a group except for the last. Cards are not written in smaller groups, and lists of small numbers
#: are common.
_SHORTEST_GROUP: Final = 4


def iterate_secret_token_spans(text: str) -> Iterator[Span]:
    """Yield the spans of tokens, keys and logins of well-known kinds."""
    yield from _TOKENS.iterate_spans(text)
    for match in _AMBIGUOUS_TOKENS.finditer(text):
        if span := _find_secret_span_of_ambiguous_match(match):
            yield span
    if "://" in text:
        yield from (match.span(1) for match in _URL_CREDENTIALS.finditer(text))
        tokens = (match.span(1) for match in _ADDRESS_TOKEN.finditer(text))
        yield from (span for span in tokens if _is_random_looking(text[slice(*span)]))
    if "-" in text and ":" in text:
        yield from (match.span(1) for match in _LOGIN_OPTION.finditer(text) if not _is_numeric_login(match[1]))
    if " -p" in text or " -w" in text or " -a" in text:
        yield from (_strip_quotes_from_span(match) for match in _PASSWORD_OPTION.finditer(text))
    yield from (_strip_quotes_from_span(match) for match in _STATEMENT.finditer(text))
    if "=" in text:
        yield from (match.span(1) for match in _SIGNATURE.finditer(text))


def find_start_of_cut_off_login(text: str) -> int | None:
    """Return the start of what may be the login of a URL that continues after the end of `text`."""
    match = _OPEN_LOGIN.search(text)
    return None if match is None else match.start(1)


def iterate_card_number_spans(text: str) -> Iterator[Span]:
    """Yield the spans of payment card numbers, in one piece or in groups of digits.

    Digits in the middle of a valid IBAN are none, although about one IBAN of thirty looks so in groups of four.
    """
    for start, end in _DIGITS.iterate_spans(text):
        for card in _iterate_card_spans_in_range(text, start, end):
            if not _is_inside_iban(text, card):
                yield card
    if "." in text:
        dotted = (match.span() for match in _DOTTED_CARD.finditer(text))
        yield from (span for span in dotted if is_card_number(text[slice(*span)].replace(".", "")))


def is_card_number(digits: str) -> bool:
    """Return whether issuer, length and check digit are those of a card number."""
    if not SHORTEST_CARD <= len(digits) <= _LONGEST_CARD or len(set(digits)) == 1:
        return False
    return len(digits) in _LENGTHS[int(digits[:4])] and _has_valid_luhn_digit(digits)


def _find_secret_span_of_ambiguous_match(match: Match) -> Span | None:
    group, masked = (_PYPI, 0) if match.start(_PYPI) >= 0 else (_SCHEME, _SCHEME)
    return match.span(masked) if _is_random_looking(match[group]) else None


def _is_random_looking(text: str) -> bool:
    """Return whether a text is not made of words: “basic understanding” is not a login."""
    inner = text[1:]
    return (
        any(character.isdigit() for character in text) or (not text.isupper() and inner != inner.lower()) or "=" in text
    )


def _is_numeric_login(login: str) -> bool:
    return login.replace(":", "").isdecimal()


def _strip_quotes_from_span(match: Match) -> Span:
    start, end = match.span(1)
    return (start + 1, end - 1) if match[1][0] in "\"'" else (start, end)


def _iterate_card_spans_in_range(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield card numbers that begin and end at a group of digits and are not part of a longer word or number."""
    continues_word = start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_.-")
    is_continued = end < len(text) and (text[end].isalnum() or text[end] in "_-")
    groups = _find_digit_group_spans(text, start, end)
    first = 0
    while first < len(groups):
        begin, stop = groups[first]
        if stop - begin < _SHORTEST_GROUP or not _LENGTHS[int(text[begin : begin + 4])]:
            first += 1
            continue
        last, digits = first, ""
        card_end = None
        while last < len(groups) and len(digits) <= _LONGEST_CARD:
            begin, stop = groups[last]
            digits += text[begin:stop]
            is_in_word = (continues_word and groups[first][0] == start) or (is_continued and groups[last][1] == end)
            if not is_in_word and is_card_number(digits):
                card_end = last
            if stop - begin < _SHORTEST_GROUP:
                break
            last += 1
        if card_end is None:
            first += 1
        else:
            yield groups[first][0], groups[card_end][1]
            first = card_end + 1


def _is_inside_iban(text: str, span: Span) -> bool:
    start, end = span
    begins = (match.start() for match in _IBAN_START.finditer(text, max(0, start - _LONGEST_IBAN), start))
    return any((_find_end_of_iban(text, begin) or 0) >= end for begin in begins)


def _find_end_of_iban(text: str, start: int) -> int | None:
    """Return the end of the IBAN that begins here; None if there is none with the right length and check digits."""
    length = _IBAN_LENGTHS.get(text[start : start + 2])
    if length is None:
        return None
    characters, end = "", start
    while len(characters) < length and end < len(text):
        character = text[end]
        if character.isascii() and (character.isdigit() or character.isupper()):
            characters += character
        elif character != " ":
            return None
        end += 1
    if len(characters) < length or (end < len(text) and text[end].isalnum()):
        return None
    number = "".join(str(int(character, 36)) for character in characters[4:] + characters[:4])
    return end if int(number) % 97 == 1 else None


def _find_digit_group_spans(text: str, start: int, end: int) -> list[Span]:
    return [group.span() for group in _GROUP.finditer(text, start, end)]


def _has_valid_luhn_digit(digits: str) -> bool:
    return (sum(map(int, digits[::-2])) + sum(map(int, digits[-2::-2].translate(_LUHN_DOUBLE)))) % 10 == 0
