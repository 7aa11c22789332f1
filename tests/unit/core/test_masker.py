"""Detection of secrets by pattern and by field name."""

from collections.abc import Callable

import pytest

from harness_site.core.masking import masker
from harness_site.core.masking.masker import (
    MASK,
    build_masking_rules_from_names_and_words,
    mask_json_value,
    mask_text,
    restore_masked_values,
    use_masking_rules,
)
from harness_site.core.rendering import json_tree, markdown, syntax_highlighting
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.sessions import json_and_text_excerpts

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
def test_text_that_looks_like_a_secret_is_masked(secret: str) -> None:
    assert mask_text(secret) == MASK
    assert mask_text(f"Use {secret} for it.") == (f"Use {MASK}" if "cut off" in secret else f"Use {MASK} for it.")


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
def test_secret_is_detected_by_the_preceding_name(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The lamp arrived broken.",
        "order 17, amount 40.00 EUR",
        "total_tokens: 1200, max_tokens=4096",
        "call 4111 1111 1111 1112",  # no card: the check digit is wrong
        "0000 0000 0000 0000",
        "pay DE04 4514 0604 5246 1416 38 today",  # no card, though 4514 0604 5246 1416 would be one
        "SE96 4514 0604 5246 1416 3800",
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
def test_ordinary_words_are_not_masked(text: str) -> None:
    assert mask_text(text) == text


def test_secret_fields_are_detected_by_name() -> None:
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
    assert mask_json_value(value) == {
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


def test_workspace_defines_its_own_secret_words() -> None:
    with use_masking_rules(build_masking_rules_from_names_and_words(("Customer No",), ("acme_*_key", "Zebra.1"))):
        assert mask_json_value({"customer_no": "77"}) == {"customer_no": MASK}
        assert mask_text("customer-no: 77") == f"customer-no: {MASK}"
        assert mask_text("acme_live_42_key and Zebra.1, not Zebra11") == f"{MASK} and {MASK}, not Zebra11"
        assert mask_text(KEY) == MASK


def test_pattern_of_wildcards_takes_linear_time() -> None:
    with use_masking_rules(build_masking_rules_from_names_and_words((), ("aaaa*aaaa*aaaa*b",))):
        assert mask_text("a" * 20_000) == "a" * 20_000
        assert mask_text("aaaa1aaaa2aaaa3b") == MASK


def test_long_value_is_masked_completely() -> None:
    assert mask_text(f"token={'x' * 5000}, then") == f"token={MASK}, then"


def test_workspace_may_disable_the_default_rules() -> None:
    with use_masking_rules(build_masking_rules_from_names_and_words(("pin",), (), usual=False)):
        assert mask_text(f"{KEY} password=x pin=1") == f"{KEY} password=x pin={MASK}"


def test_reader_with_permission_sees_secrets() -> None:
    with use_masking_rules(None):
        assert mask_text(KEY) == KEY
        assert mask_json_value({"password": "x"}) == {"password": "x"}
        assert not masker.is_masking_active()
    assert mask_text(KEY) == MASK
    assert masker.is_masking_active()


def test_masking_is_idempotent() -> None:
    once = mask_text(f'{{"password": "x", "key": "{KEY}"}} token=abc')
    assert mask_text(once) == once


SHOWN: dict[str, Callable[[str], str]] = {
    "visible": mask_and_reveal_hidden,
    "prose": markdown.mask_and_render_markdown,
    "highlighted": lambda text: syntax_highlighting.mask_and_highlight_code(f'{{"a": "{text}"}}', "json"),
    "tree": lambda text: json_tree.mask_and_render_json_tree({"a": text}).html,
    "whole tree": lambda text: json_tree.mask_and_render_json_tree({"a": text}, limit=None, fold=False).html,
    "dumped": lambda text: json_tree.mask_and_dump_json({"a": [text]}),
    "beginning": json_and_text_excerpts.mask_and_format_text_beginning,
}


@pytest.mark.parametrize("way", SHOWN)
def test_every_renderer_masks_for_each_reader(way: str) -> None:
    """Some renderers cache their results."""
    show = SHOWN[way]
    for secret in (KEY, TOKEN):
        with use_masking_rules(None):
            assert secret in str(show(secret))
        assert secret not in str(show(secret))
        assert MASK in str(show(secret))
        with use_masking_rules(None):
            assert secret in str(show(secret))


def test_folded_text_does_not_show_part_of_a_secret() -> None:
    text = "word " * 159 + KEY + " and more" * 500
    assert KEY[:10] not in json_and_text_excerpts.mask_and_format_text_beginning(text)


def test_secret_field_name_hides_its_value_in_a_tree() -> None:
    html = json_tree.mask_and_render_json_tree({"db": {"password": "hunter2", "deep": {"token": [1, 2, 3]}}}).html
    assert "hunter2" not in html
    assert html.count(MASK) == 2


class TestRestored:
    """Masked values in a submitted form are replaced by the original values."""

    ORIGINAL = {"order": 17, "password": "hunter2", "items": [{"token": "a"}, {"token": "b"}], "note": f"use {KEY}"}

    def test_unchanged_field_keeps_the_original(self) -> None:
        assert restore_masked_values(mask_json_value(self.ORIGINAL), self.ORIGINAL) == self.ORIGINAL

    def test_changed_field_is_changed(self) -> None:
        edited = mask_json_value(self.ORIGINAL) | {"order": 18, "password": "new"}
        assert restore_masked_values(edited, self.ORIGINAL) == self.ORIGINAL | {"order": 18, "password": "new"}

    def test_removed_field_is_removed(self) -> None:
        edited = mask_json_value(self.ORIGINAL)
        del edited["password"]
        assert "password" not in restore_masked_values(edited, self.ORIGINAL)

    def test_list_of_another_length_keeps_the_typed_value(self) -> None:
        edited = mask_json_value(self.ORIGINAL) | {"items": [{"token": MASK}]}
        assert restore_masked_values(edited, self.ORIGINAL)["items"] == [{"token": MASK}]
