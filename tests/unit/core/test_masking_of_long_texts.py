"""Slices of long texts, of which only the surroundings are searched: they are what the complete masked text is."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_site.core.masking import masker, secret_scan_window
from tests.support import redos_texts
from tests.support.exhaustive_mode import count_examples, mark_all_but_combinations, mark_all_but_each
from tests.unit.core.test_masking_at_cuts import AROUND, numbered, visible

PAGE = 100_000
PAGES = 4
QUOTE = '"'

#: Lines of long results; each has another set of quotes, brackets and escapes.
LINES: dict[str, Callable[[int], str]] = {
    "log": lambda number: f"2026-05-01 10:{number % 60:02} INFO worker {number} took {number % 997} ms",
    "quotes": lambda number: f'{number} GET "/orders/{number}" said "fine", it\'s done \'well\'',
    "apostrophes": lambda number: f"{number}: it doesn't matter" if number % 3 else f"{number}: plain",
    "markup": lambda number: f"  <row id={number}><cell>value {number}</cell></row>" if number % 5 else "<row>",
    "escapes": lambda number: f'{{\\"n\\": {number}, \\"path\\": \\"/a%20b/{number}\\"}} &lt;b&gt; \x1b[31mred\x1b[0m',
    "secrets": lambda number: f"{number} password=hunter{number}x and more",
    "other scripts": lambda number: f"{number} größer als «{number}» – 名前",
    "indented": lambda number: f"  - item {number}" if number % 40 else f"list {number}:",
    "indented JSON": lambda number: f'  {{\n   "id": {number},\n   "password": "hunter{number}x"\n  }},',
    "code": lambda number: f'    if token is None: return {number}  # it isn\'t "there"' if number % 7 else "def f():",
    "first line quoted": lambda number: f"line {number} of a text" if number else 'The "first" <line> isn\'t like them',
}


def fill(kind: str, size: int) -> str:
    make = LINES[kind]
    lines, length, number = [], 0, 0
    while length < size:
        lines.append(make(number))
        length += len(lines[-1]) + 1
        number += 1
    return "\n".join(lines)


def mask_complete_text(text: str, start: int, stop: int) -> str:
    """Mask a slice with the secrets that are found in the complete text."""
    spans = [(max(first, start) - start, min(last, stop) - start) for first, last in masker.find_secret_spans(text)]
    return masker._replace_spans_with_mask(text[start:stop], [span for span in spans if span[0] < span[1]])


def iterate_pages(text: str) -> Iterator[tuple[int, int]]:
    return ((start, min(len(text), start + PAGE)) for start in range(0, len(text), PAGE))


def put(text: str, inserted: str, at: int, inside: int) -> str:
    """Insert a text on lines of its own, so that its character `inside` is at `at` or up to a line before."""
    place = text.rfind("\n", 0, max(1, at - inside)) + 1
    return f"{text[:place]}{inserted}\n{text[place:]}"


@pytest.mark.parametrize(
    ("kind", "name"),
    mark_all_but_each(
        4, [([*LINES][(at + step) % len(LINES)], name) for at, name in enumerate(AROUND) for step in (0, 4)]
    ),
)
def test_pages_with_a_secret_at_a_border_are_the_masked_text(name: str, kind: str) -> None:
    random = Random(f"{name} {kind}")
    text = fill(kind, PAGES * PAGE)
    known = set()
    for page, pieces in zip(range(1, PAGES), (2, 900, 9_000), strict=False):
        value = numbered(pieces)
        known |= {value} if name == "known value" and pieces < 9_000 else set()
        secret = AROUND[name].format(value=value, lines=numbered(pieces, "\n"))
        text = put(text, secret, page * PAGE, random.randrange(len(secret)))
    with masker.use_masking_rules(masker.USUAL.with_known_values(known)):
        for start, stop in iterate_pages(text):
            assert masker.get_masked_text_slice(text, start, stop) == mask_complete_text(text, start, stop), start


@settings(max_examples=count_examples(2))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*LINES]),
            st.sampled_from([*AROUND]),
            st.sampled_from([1, 60, 5_000, 20_000]),
            st.integers(0),
        ),
        min_size=4,
        max_size=5,
    ),
    st.sets(st.sampled_from(["code", "z0001q", "worker 17"])),
)
def test_pages_of_mixed_texts_are_the_masked_text(parts: list[tuple[str, str, int, int]], values: set[str]) -> None:
    text = ""
    for kind, name, pieces, place in parts:
        secret = AROUND[name].format(value=numbered(pieces), lines=numbered(pieces, "\n"))
        text += put(fill(kind, PAGE), secret, PAGE, place % min(PAGE, len(secret))) + "\n"
    with masker.use_masking_rules(masker.USUAL.with_known_values(values)):
        for start, stop in iterate_pages(text):
            assert masker.get_masked_text_slice(text, start, stop) == mask_complete_text(text, start, stop), start


@pytest.mark.parametrize(
    ("noise", "name"),
    mark_all_but_each(
        3,
        [
            (noise, ("private key", "quoted value of several lines", "element", "known value")[number % 4])
            for number, noise in enumerate(redos_texts.SECRETS)
        ],
    ),
)
def test_secret_after_hostile_text_is_masked_on_every_page(noise: str, name: str) -> None:
    value = numbered(9_000)
    hostile = redos_texts.SECRETS[noise](40_000)
    text = "\n".join(
        [
            fill("log", PAGE),
            hostile,
            AROUND[name].format(value=value, lines=numbered(9_000, "\n")),
            fill("log", 2 * PAGE),
        ]
    )
    with masker.use_masking_rules(masker.USUAL.with_known_values({value} if name == "known value" else set())):
        for start, stop in iterate_pages(text):
            shown = visible(masker.get_masked_text_slice(text, start, stop))
            assert shown <= visible(mask_complete_text(text, start, stop)), start


@pytest.mark.parametrize(
    ("opening", "encode"),
    mark_all_but_combinations(
        ['password = "', "token='", "<password>", "-----BEGIN PRIVATE KEY-----\n"],
        [str, lambda text: "".join(f"%{ord(letter):02x}" for letter in text), "\x1b[?25h".join],
    ),
)
def test_secret_that_begins_pages_before_is_masked(opening: str, encode: Callable[[str], str]) -> None:
    lines = numbered(70_000, "\n")
    text = f"{fill('log', PAGE)}\n{encode(opening)}{lines}{encode(QUOTE)} '</password>\n{fill('log', PAGE)}"
    whole = visible(masker.mask_text(text))
    assert len(whole) < 10  # masked, so the test can fail
    for start, stop in iterate_pages(text):
        assert visible(masker.get_masked_text_slice(text, start, stop)) <= whole, start


@pytest.mark.parametrize(
    "kind", ["log", "quotes", "markup", "escapes", "secrets", "other scripts", "indented JSON", "code"]
)
def test_search_begins_near_the_slice(kind: str) -> None:
    text = fill(kind, 10 * PAGE)
    assert masker.USUAL.name_patterns is not None
    hint = masker.USUAL.name_patterns.hint
    begin = secret_scan_window.find_window_start(text, 9 * PAGE, longest_value_length=0, hint=hint)
    assert 9 * PAGE - 300_000 < begin < 9 * PAGE - 20_000


def test_later_page_searches_only_its_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    find = masker._find_secret_spans_in_text_and_decoded_escapes

    def count(text: str, rules: masker.MaskingRules, *, is_cut: bool = False) -> tuple[tuple[int, int], ...]:
        searched.append(len(text))
        return find(text, rules, is_cut=is_cut)

    monkeypatch.setattr(masker, "_find_secret_spans_in_text_and_decoded_escapes", count)
    text = fill("secrets", 5 * PAGE)
    for start in islice(range(0, len(text), PAGE), 1, 5):
        masker.get_masked_text_slice(text, start, start + PAGE)
    assert max(searched) < 2 * PAGE
