"""Patterns of well-known secrets in any text: service tokens, private keys, card numbers.

The rules of `detect-secrets` are not suitable: they expect source code line by line, need backreferences and
lookaround, which no linear-time engine supports, and take ordinary words for keys (`AP` and eight characters count as
an Artifactory password).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from harness_site.core.rendering.linear_regex import Match, compile_pattern

#: Start and end of a part of a text.
Span: TypeAlias = tuple[int, int]

_PEM: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,60}-----|\z)"
#: Unambiguous prefixes, with the minimum of what follows them.
_PREFIXED: Final = (
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
    r"\bpul-[0-9a-f]{40}\b|\boy2[a-z0-9]{43}\b|\bAKCp\w{60,}",
)
#: Ambiguous prefixes, which may also begin a word, so that the characters after them decide.
_PERHAPS: Final = (
    r"\bpypi-(?P<pypi>[\w-]{16,})",
    r"(?i:\b(?:bearer|basic))[ \t]+(?P<scheme>[\w.~+/=-]{8,})",
)
_TOKENS: Final = compile_pattern("|".join((_PEM, *_PREFIXED, *_PERHAPS)))
#: User name and password in a URL; the name may be empty, and the password may contain an `@`.
_ADDRESS: Final = compile_pattern(r"://(?P<login>[^\s/:@\"'<>]*:[^\s/\"'<>]+)@")
#: A token as the only login in a URL: `https://token@host`.
_ADDRESS_TOKEN: Final = compile_pattern(r"://(?P<login>[A-Za-z0-9_-]{20,})@")
#: `-u name:password` of curl; `-u 1000:1000` is a user and a group.
_LOGIN_OPTION: Final = compile_pattern(
    r"(?:^|[\s\"'])(?:-[A-Za-z]{0,8}u|-U|--user|--proxy-user|-a)[ =]?[\"']?"
    r"(?P<login>(?:[^\s:\"'/-][^\s:\"'/]*)?:[^\s\"':=][^\s\"']*)"
)
#: Commands with a password option `-p`.
_PASSWORD_OPTION: Final = compile_pattern(
    r"\b(?:sshpass|mysql\w{0,10}|mariadb\w{0,10}|mongo\w{0,10}|(?:docker|podman|helm|oras|registry) login)\b"
    r"[^\n|;&]{0,150}?\s(?:-p|-w|-a)[ =]?(?P<password>\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s\"'-][^\s\"']{0,200})"
)
_SIGNATURE: Final = compile_pattern(
    r"[?&](?i:sig|signature|x-amz-signature|x-goog-signature)=(?P<value>[\w%/+=-]{16,})"
)
#: Database accounts in SQL and `.netrc`.
_STATEMENT: Final = compile_pattern(
    r"(?i)(?:\bidentified[ \t]+by[ \t]+|\blogin[ \t\n]+\S{1,100}[ \t\n]+password[ \t]+)"
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
_SHORTEST_CARD: Final = 13
_LONGEST_CARD: Final = 19
#: Minimum digits of a group except for the last. Cards are not written in smaller groups, and lists of small numbers
#: are common.
_SHORTEST_GROUP: Final = 4


def find_tokens(text: str) -> Iterator[Span]:
    """Yield the spans of tokens, keys and logins of well-known kinds."""
    for match in _TOKENS.finditer(text):
        if span := _check_token_candidate(match):
            yield span
    if "://" in text:
        yield from (match.span(1) for match in _ADDRESS.finditer(text))
        tokens = (match.span(1) for match in _ADDRESS_TOKEN.finditer(text))
        yield from (span for span in tokens if _is_random_looking(text[slice(*span)]))
    if "-" in text and ":" in text:
        yield from (match.span(1) for match in _LOGIN_OPTION.finditer(text) if not _is_numeric_login(match["login"]))
    if " -p" in text or " -w" in text or " -a" in text:
        yield from (_strip_quotes_from_span(match) for match in _PASSWORD_OPTION.finditer(text))
    yield from (_strip_quotes_from_span(match) for match in _STATEMENT.finditer(text))
    if "=" in text:
        yield from (match.span(1) for match in _SIGNATURE.finditer(text))


def find_card_numbers(text: str) -> Iterator[Span]:
    """Yield the spans of payment card numbers, in one piece or in groups of digits."""
    for match in _DIGITS.finditer(text):
        yield from _find_cards_in_range(text, *match.span())
    if "." in text:
        dotted = (match.span() for match in _DOTTED_CARD.finditer(text))
        yield from (span for span in dotted if is_card_number(text[slice(*span)].replace(".", "")))


def is_card_number(digits: str) -> bool:
    """Return whether issuer, length and check digit are those of a card number."""
    if not _SHORTEST_CARD <= len(digits) <= _LONGEST_CARD or len(set(digits)) == 1:
        return False
    is_issued = any(int(digits[:size]) in first and len(digits) in lengths for first, size, lengths in _ISSUERS)
    return is_issued and _has_valid_luhn_digit(digits)


def _check_token_candidate(match: Match) -> Span | None:
    for name in ("pypi", "scheme"):
        if match.group(name) is not None:
            if not _is_random_looking(match[name]):
                return None
            return match.span(2) if name == "scheme" else match.span()
    return match.span()


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
    return (start + 1, end - 1) if match["password"][0] in "\"'" else (start, end)


def _find_cards_in_range(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield card numbers that begin and end at a group of digits and are not part of a longer word or number."""
    if (start and (text[start - 1].isalnum() or text[start - 1] in "_.-")) or (
        end < len(text) and (text[end].isalnum() or text[end] in "_-")
    ):
        word_bounds = (start, end)
    else:
        word_bounds = (-1, -1)
    groups = _split_digit_groups(text, start, end)
    first = 0
    while first < len(groups):
        last, digits = first, ""
        card_end = None
        while last < len(groups) and len(digits) <= _LONGEST_CARD:
            begin, stop = groups[last]
            digits += text[begin:stop]
            touches = groups[first][0] == word_bounds[0] or groups[last][1] == word_bounds[1]
            if not touches and is_card_number(digits):
                card_end = last
            if stop - begin < _SHORTEST_GROUP:
                break
            last += 1
        if card_end is None:
            first += 1
        else:
            yield groups[first][0], groups[card_end][1]
            first = card_end + 1


def _split_digit_groups(text: str, start: int, end: int) -> list[Span]:
    groups, begin = [], start
    for at in range(start, end):
        if text[at] in " -":
            groups.append((begin, at))
            begin = at + 1
    groups.append((begin, end))
    return groups


def _has_valid_luhn_digit(digits: str) -> bool:
    numbers = [int(digit) for digit in digits]
    doubled = [sum(divmod(2 * number, 10)) for number in numbers[-2::-2]]
    return (sum(numbers[::-2]) + sum(doubled)) % 10 == 0
