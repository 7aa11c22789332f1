"""What is taken for a secret, and what is not."""

from collections.abc import Callable

import pytest

from harness_site.rendering import highlight, jsontree, markdown, masking, saying
from harness_site.rendering.masking import MASK, masked, masked_value, reading, restored, rules
from harness_site.rendering.text import visible

KEY = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP"


@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "sk-proj-abcdefghijklmnopqrstuvwxyz",
        "sk-ant-api03-abcdefghijklmnop",
        TOKEN,
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0123456789_abcdefgh",
        "glpat-abcdefghij0123456789",
        "xoxb-123456789012-abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyD-abcdefghijklmnopqrstuvwxyz012",
        "harness_" + "a" * 43,
        "invite_" + "a" * 43,
        "whsec_" + "a" * 43,
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "378282246310005",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\ncut off",
    ],
)
def test_what_looks_like_a_secret_is_masked_wherever_it_stands(secret: str) -> None:
    assert masked(secret) == MASK
    assert masked(f"Use {secret} for it.") == (f"Use {MASK}" if "cut off" in secret else f"Use {MASK} for it.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", f"password={MASK}"),
        ("PASSWORD: hunter2, then", f"PASSWORD: {MASK}, then"),
        ("db_password = 'hun ter2';", f"db_password = '{MASK}';"),
        ('{"api_key": "abc\\"def", "n": 1}', f'{{"api_key": "{MASK}", "n": 1}}'),
        ('{\\"client_secret\\": \\"abc\\"}', f'{{\\"client_secret\\": \\"{MASK}\\"}}'),
        ("?access_token=abc123&page=2", f"?access_token={MASK}&page=2"),
        ("Authorization: Bearer abcdefgh12", f"Authorization: {MASK}"),
        ("curl -H 'Authorization: Basic dXNlcjpwYXNz'", f"curl -H 'Authorization: {MASK}'"),
        ("Set-Cookie: session=abc", f"Set-Cookie: {MASK}"),
        ("env: API_KEY=abc", f"env: API_KEY={MASK}"),
        ("postgres://app:s3cret@db.example/app", f"postgres://{MASK}@db.example/app"),
        ("cvc: 123", f"cvc: {MASK}"),
    ],
)
def test_a_secret_is_known_by_the_name_before_it(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The lamp arrived broken.",
        "order 17, amount 40.00 EUR",
        "total_tokens: 1200, max_tokens=4096",
        "call 4111 1111 1111 1112",  # no card: the check digit is wrong
        "0000 0000 0000 0000",
        "2026-11-21T10:42:07.118000Z",
        "1234567890123",
        "id 019a6f0e-7d3c-7b1a-9a51-0f3c2d1e4b5a",
        "https://example.com/a?b=c",
        "mail alice@example.com",
        "The password was changed.",
        "blake2b 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        'password: ""',
    ],
)
def test_everything_else_is_shown(text: str) -> None:
    assert masked(text) == text


def test_fields_are_known_by_their_names() -> None:
    value = {
        "order": 17,
        "apiKey": "abc",
        "Card Number": 4111,
        "nested": [{"refresh-token": "x", "note": f"with {KEY}"}],
        "credentials": {"user": "a", "key": "b"},
        "total_tokens": 1200,
        "password": None,
        "cookie": False,
        "secret": "",
    }
    assert masked_value(value) == {
        "order": 17,
        "apiKey": MASK,
        "Card Number": MASK,
        "nested": [{"refresh-token": MASK, "note": f"with {MASK}"}],
        "credentials": MASK,
        "total_tokens": 1200,
        "password": None,
        "cookie": False,
        "secret": "",
    }


def test_a_workspace_names_its_own_secrets() -> None:
    with reading(rules(("Customer No",), ("acme_*_key", "Zebra.1"))):
        assert masked_value({"customer_no": "77"}) == {"customer_no": MASK}
        assert masked("customer-no: 77") == f"customer-no: {MASK}"
        assert masked("acme_live_42_key and Zebra.1, not Zebra11") == f"{MASK} and {MASK}, not Zebra11"
        assert masked(KEY) == MASK


def test_a_word_of_stars_takes_no_time_on_a_long_text() -> None:
    with reading(rules((), ("aaaa*aaaa*aaaa*b",))):
        assert masked("a" * 20_000) == "a" * 20_000
        assert masked("aaaa1aaaa2aaaa3b") == MASK


def test_a_long_value_is_masked_to_its_end() -> None:
    assert masked(f"token={'x' * 5000}, then") == f"token={MASK}, then"


def test_a_workspace_may_do_without_the_usual() -> None:
    with reading(rules(("pin",), (), usual=False)):
        assert masked(f"{KEY} password=x pin=1") == f"{KEY} password=x pin={MASK}"


def test_who_may_see_secrets_sees_them() -> None:
    with reading(None):
        assert masked(KEY) == KEY
        assert masked_value({"password": "x"}) == {"password": "x"}
        assert not masking.masks()
    assert masked(KEY) == MASK
    assert masking.masks()


def test_masking_twice_is_masking_once() -> None:
    once = masked(f'{{"password": "x", "key": "{KEY}"}} token=abc')
    assert masked(once) == once


SHOWN: dict[str, Callable[[str], str]] = {
    "visible": visible,
    "prose": markdown.prose,
    "highlighted": lambda text: highlight.highlight(f'{{"a": "{text}"}}', "json"),
    "tree": lambda text: jsontree.tree({"a": text}).html,
    "whole tree": lambda text: jsontree.tree({"a": text}, limit=None, fold=False).html,
    "dumped": lambda text: jsontree.dumped({"a": [text]}),
    "beginning": saying.beginning,
}


@pytest.mark.parametrize("way", SHOWN)
def test_every_way_of_showing_text_masks_it_for_each_reader(way: str) -> None:
    """Some of them remember what they made of a text."""
    show = SHOWN[way]
    for secret in (KEY, TOKEN):
        with reading(None):
            assert secret in str(show(secret))
        assert secret not in str(show(secret))
        assert MASK in str(show(secret))
        with reading(None):
            assert secret in str(show(secret))


def test_a_fold_does_not_show_half_a_secret() -> None:
    text = "word " * 159 + KEY + " and more" * 500
    assert KEY[:10] not in saying.beginning(text)


def test_a_name_in_a_tree_hides_its_value() -> None:
    html = jsontree.tree({"db": {"password": "hunter2", "deep": {"token": [1, 2, 3]}}}).html
    assert "hunter2" not in html
    assert html.count(MASK) == 2


class TestRestored:
    """A form was filled with a masked value; what comes back is completed with what stood there."""

    ORIGINAL = {"order": 17, "password": "hunter2", "items": [{"token": "a"}, {"token": "b"}], "note": f"use {KEY}"}

    def test_what_was_left_alone_is_the_original(self) -> None:
        assert restored(masked_value(self.ORIGINAL), self.ORIGINAL) == self.ORIGINAL

    def test_what_was_changed_is_changed(self) -> None:
        edited = masked_value(self.ORIGINAL) | {"order": 18, "password": "new"}
        assert restored(edited, self.ORIGINAL) == self.ORIGINAL | {"order": 18, "password": "new"}

    def test_a_removed_field_is_removed(self) -> None:
        edited = masked_value(self.ORIGINAL)
        del edited["password"]
        assert "password" not in restored(edited, self.ORIGINAL)

    def test_a_list_of_another_length_keeps_what_was_typed(self) -> None:
        edited = masked_value(self.ORIGINAL) | {"items": [{"token": MASK}]}
        assert restored(edited, self.ORIGINAL)["items"] == [{"token": MASK}]
