"""Parts of texts: what is masked in the complete text is masked in every part of it."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_site.core.masking import masker
from tests.support import redos_texts

#: Texts around a secret value, which may be long and of several lines.
AROUND = {
    "private key": "-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----",
    "quoted value of several lines": 'password = "{lines}"',
    "quoted value in JSON": '{{"a": 1, "client_secret": "{value}", "b": 2}}',
    "single quotes": "token: '{lines}'",
    "backquotes": "token: `{value}`",
    "no quotes": "--password {value} --verbose",
    "element": "<password>{lines}</password>",
    "element with a namespace": '<a:password kind="x"><![CDATA[{value}]]></a:password>',
    "login in a URL": "https://admin:{value}@host.example/path",
    "token as a login": "https://{value}@host.example/path",
    "cookie": "Cookie: {value}; a=b",
    "web token": "eyJhbGciOiJIUzI1NiJ9.{value}.abcdefgh",
    "prefixed token": "sk_live_{value}",
    "bracketed": 'credentials: {{"a": "{value}"}}',
    "percent-encoded": "%70assword%3D{value}%26a=1",
    "in escapes": '\\"password\\": \\"{value}\\"',
    "known value": "It is {value} today.",
}


def numbered(pieces: int, separator: str = "") -> str:
    """Build a value of numbered pieces that can be recognised individually."""
    return separator.join(f"z{number:04}q" for number in range(pieces))


def visible(text: str) -> set[str]:
    return set(re.findall(r"z\d{4,}q", text))


def build(name: str, pieces: int, before: int) -> tuple[str, masker.MaskingRules]:
    value = numbered(pieces)
    text = AROUND[name].format(value=value, lines=numbered(pieces, "\n"))
    known = {value} if name == "known value" else set()
    return f"{'filler words, ' * before}\n{text}\n{'more words here. ' * 3_000}", masker.USUAL.with_known_values(known)


def cuts(text: str) -> Iterator[int]:
    start = text.index("\n")
    yield from (start + distance for distance in (5, 12, 40, 90, 300, 1_500, 7_999, 9_000))


@pytest.mark.parametrize("pieces", [12, 300, 4_000])
@pytest.mark.parametrize("name", AROUND)
def test_prefix_of_a_text_masks_what_the_complete_text_masks(name: str, pieces: int) -> None:
    text, rules = build(name, pieces, 20)
    with masker.use_masking_rules(rules):
        whole = visible(masker.mask_text(text))
        assert len(whole) < pieces  # the value is masked, so the test can fail
        for cut in cuts(text):
            assert visible(masker.get_masked_text_beginning(text, cut)) <= whole, cut


@pytest.mark.parametrize("name", AROUND)
def test_secret_across_two_pages_is_masked_on_both(name: str) -> None:
    text, rules = build(name, 900, 20)
    with masker.use_masking_rules(rules):
        whole = visible(masker.mask_text(text))
        edges = [0, *cuts(text), len(text)]
        for start, stop in pairwise(edges):
            assert visible(masker.get_masked_text_slice(text, start, stop)) <= whole, (start, stop)
        assert masker.get_masked_text_slice(text, 0, len(text)) == masker.mask_text(text)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from([*redos_texts.SECRETS]), st.sampled_from([*AROUND])), max_size=4),
    st.data(),
)
def test_secrets_among_hostile_texts_are_masked_at_every_cut(parts: list[tuple[str, str]], data: st.DataObject) -> None:
    text = " ".join(
        redos_texts.SECRETS[noise](data.draw(st.sampled_from([40, 3_000]))) + AROUND[name].format(value=v, lines=v)
        for noise, name in parts
        for v in [numbered(40)]
    )
    whole = masker.find_secret_spans(text)
    cut = data.draw(st.integers(0, len(text)))
    shown = masker.get_masked_text_beginning(text, cut)
    masked = {place for start, stop in whole for place in range(start, stop)}
    unmasked = "".join(letter if place not in masked else "\n" for place, letter in enumerate(text))
    for piece in shown.split(masker.MASK):
        assert piece in unmasked
    pages = [masker.get_masked_text_slice(text, 0, cut), masker.get_masked_text_slice(text, cut, len(text))]
    assert sum(len(page.replace(masker.MASK, "")) for page in pages) == len(text) - len(masked)
