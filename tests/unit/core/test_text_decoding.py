"""Encoded secrets, secrets beside their names, repeated secret values, and texts that are not secret."""

from collections.abc import Callable
from typing import Any

import pytest

from harness_site.core.call_sentences import build_masked_call_sentence
from harness_site.core.masking import masker
from harness_site.core.masking.escape_decoding import decode_escapes
from harness_site.core.masking.masker import (
    MASK,
    build_masking_rules_from_names_and_words,
    get_masked_text_beginning,
    mask_adjacent_texts,
    mask_json_value,
    mask_text,
    mask_values_of_secret_fields_in_context,
    restore_masked_values,
    use_masking_rules,
)
from harness_site.core.masking.secret_shapes import is_card_number
from harness_site.core.rendering import markdown
from harness_site.core.rendering.json_tree import mask_and_dump_json, mask_and_render_json_tree
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.linear_growth import assert_linear

TOKEN = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


@pytest.mark.parametrize(
    "secret",
    [
        "npm_" + "a1" * 18,
        "pypi-AgEIcHlwaS5vcmcCJDU3YmE4",
        "hf_" + "aB" * 17,
        "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",
        "dckr_pat_" + "a1" * 12,
        "shpat_" + "0a" * 16,
        "123456789:AAF" + "x" * 32,
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOY\n-----END PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\ncut off",
        "sk_live_\x1b[31m4eC39HqLyj\x1b[0mWDarjtT1zdp7dc",
        "sk\\_live\\_4eC39HqLyjWDarjtT1zdp7dc",
        "sk&#95;live&#x5f;4eC39HqLyjWDarjtT1zdp7dc",
        "sk_live_4eC3**9HqLyjWDarjtT1**zdp7dc",
        "sk_live_4eC3\u200b9HqLyjWDarjtT1zdp7dc",
        "sk_live_\\u001b[31m4eC39HqLyjWDarjtT1zdp7dc",
        "sk%5Flive%255F4eC39HqLyjWDarjtT1zdp7dc",
    ],
)
def test_encoded_secret_is_masked(secret: str) -> None:
    assert mask_text(f"It is {secret}") == f"It is {MASK}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x\\nsk_live_4eC39HqLyjWDarjtT1zdp7dc\\n", f"x\\n{MASK}\\n"),
        ("mysql --password hunter2 db", f"mysql --password {MASK} db"),
        ("curl -u bob:hunter2 https://x", f"curl -u {MASK} https://x"),
        ("curl --user 'bob:hunter2'", f"curl --user '{MASK}'"),
        ("sshpass -p hunter2 ssh x", f"sshpass -p {MASK} ssh x"),
        ("docker login -u bob -p hunter2 reg", f"docker login -u bob -p {MASK} reg"),
        ("pwd=hunter2; cd /", f"pwd={MASK}; cd /"),
        ('{"name":"Authorization","value":"Bearer x"}', f'{{"name":"Authorization","value":"{MASK}"}}'),
        ('{"value": "x", "name": "password"}', f'{{"value": "{MASK}", "name": "password"}}'),
        ('{\\"name\\": \\"token\\", \\"value\\": \\"x\\"}', f'{{\\"name\\": \\"token\\", \\"value\\": \\"{MASK}\\"}}'),
        ('passwords: ["a", "b"], n: 1', f"passwords: {MASK}, n: 1"),
        ("apiKeys=abc", f"apiKeys={MASK}"),
        ("client-secret: abc", f"client-secret: {MASK}"),
        ("token%3Dabc%26x%3D1", f"token%3D{MASK}%26x%3D1"),
        ("Cookie: a=b; c=d", f"Cookie: {MASK}"),
        ('Authorization: Digest username="a", response="b"', f"Authorization: {MASK}"),
        ("redis://:hunter2@h:1", f"redis://{MASK}@h:1"),
        ("postgres://u:p@ss@h/x", f"postgres://{MASK}@h/x"),
        ("<password>hunter2</password>", f"<password>{MASK}</password>"),
        ("password: `hunter2`", f"password: `{MASK}`"),
        ("The API key: hunter2", f"The API key: {MASK}"),
        ("config['password'] = 'hunter2'", f"config['password'] = '{MASK}'"),
        ("'password' => 'hunter2'", f"'password' => '{MASK}'"),
        ("password=p@ss(hunter2)!x", f"password={MASK}"),
        ("AccountKey=ab+/==;Endpoint=x", f"AccountKey={MASK};Endpoint=x"),
        ("https://x/?sv=1&sig=abcdefghij0123456%3D", f"https://x/?sv=1&sig={MASK}"),
        ("1234 4111 1111 1111 1111", f"1234 {MASK}"),
        ("token: abc.", f"token: {MASK}."),
        ("password: 'never closed\nnext", f"password: '{MASK}\nnext"),
    ],
)
def test_value_is_detected_by_its_context(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "The secretary: Bob will come.",
        "Basic understanding of authentication is needed.",
        "tokens: 4096, total_tokens=12000, input_tokens: 55",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 fix the build",
        "index 83db48f..bf2c5d1 100644",
        "git push -u origin main",
        "docker run -u 1000:1000 -p 8080:80 image",
        "mkdir -p a/b && ssh -p 22 host",
        "PWD=/home/x",
        "password reset link: https://example.com/x",
        "- `token`: the key of the field",
        "amount 1234567890.12 EUR, 4111111111111112, 4000000000000",
        "https://example.com:8080/a@b",
        "2025-03-04 10:42:07.118000",
        "pip install pypi-server-configuration-file",
        "12 pass: 3, fail: 1",
        "see [the docs](http://a.b/c) for *emphasis* and 100%25",
        "def f(x: int = 1, *args: str) -> dict[str, int]:",
    ],
)
def test_ordinary_text_is_not_masked(text: str) -> None:
    assert mask_text(text) == text


def test_secret_names_numbers_pairs_and_options_in_json() -> None:
    shown = mask_json_value(
        {
            TOKEN: 1,
            f"{TOKEN}x": 2,
            "n": 4111111111111111,
            "f": 4111111111111111.0,
            "id": 1234567890123456,
            "header": {"name": "Authorization", "value": "x"},
            "pairs": [["Cookie", "x"], ["Accept", "y"]],
            "argv": ["curl", "-u", "a:b", "--token", "c", "--verbose"],
            "tokens": ["a"],
            "usage": {"tokens": {"in": 3}, "total_tokens": 5},
            "pass": True,
        }
    )
    assert shown == {
        MASK: 1,
        f"{MASK} 2": 2,
        "n": MASK,
        "f": MASK,
        "id": 1234567890123456,
        "header": {"name": "Authorization", "value": MASK},
        "pairs": [["Cookie", MASK], ["Accept", "y"]],
        "argv": ["curl", "-u", MASK, "--token", MASK, "--verbose"],
        "tokens": MASK,
        "usage": {"tokens": {"in": 3}, "total_tokens": 5},
        "pass": True,
    }


def test_masked_names_and_numbers_are_restored_from_a_form() -> None:
    original: dict[str, Any] = {TOKEN: {"n": 4111111111111111}, f"{TOKEN}x": 2, "a": ["--token", "b"]}
    assert restore_masked_values(mask_json_value(original), original) == original


def test_masked_names_are_distinct() -> None:
    value = {MASK: 0, TOKEN: 1, f"{TOKEN}x": 2}
    assert sorted(mask_json_value(value).values()) == [0, 1, 2]


class TestKnownValues:
    ARGS = {"password": "hunter2 of the shop", "pin_token": 48151623, "otp": "7", "user": "bob"}

    def test_known_values_are_masked_everywhere(self) -> None:
        with mask_values_of_secret_fields_in_context(self.ARGS):
            assert mask_text("bob said “hunter2 of the shop”, then 48151623.") == f"bob said “{MASK}”, then {MASK}."
            assert mask_json_value({"a": 48151623}) == {"a": MASK}
            assert mask_text("hunter2&#32;of%20the\\u0020shop") == MASK
        assert mask_text("hunter2 of the shop") == "hunter2 of the shop"

    def test_part_of_another_word_is_not_masked(self) -> None:
        with mask_values_of_secret_fields_in_context({"password": "lamp"}):
            assert mask_text("lampshade, 2lamp, lamp") == f"lampshade, 2lamp, {MASK}"

    def test_truncated_known_value_is_masked(self) -> None:
        with mask_values_of_secret_fields_in_context(self.ARGS):
            assert mask_text("with hunter2 of…") == f"with {MASK}…"
            assert mask_text("with hunter2 of another") == "with hunter2 of another"

    def test_sentence_with_a_short_known_value_is_masked(self) -> None:
        assert build_masked_call_sentence("open_door", "Door with 7", {"otp": "7"}) == f"Open door: otp {MASK}"
        assert build_masked_call_sentence("open_door", "Door 71", {"otp": "7"}) == "Door 71"

    def test_reader_with_permission_sees_the_sentence(self) -> None:
        with use_masking_rules(None):
            assert build_masked_call_sentence("open_door", "Door with 7", {"otp": "7"}) == "Door with 7"

    def test_empty_value_is_not_a_secret(self) -> None:
        with mask_values_of_secret_fields_in_context({"password": "None", "token": True, "secret": "   "}):
            assert mask_text("None of it is true") == "None of it is true"


class TestMarkdown:
    @pytest.mark.parametrize(
        "text",
        [
            "sk_live_4eC39Hq[LyjWDarjtT1](https://x.example/)zdp7dc",
            "sk_live_4eC39Hq![LyjWDarjtT1](https://x.example/)zdp7dc",
            "`sk_live_4eC39Hq`LyjWDarjtT1zdp7dc",
            "sk_live_4eC39Hq~~LyjWDarjtT1~~zdp7dc",
            "[a](https://x.example/?access_token=LyjWDarjtT1)",
            '[a](https://x.example/ "token=LyjWDarjtT1")',
            "![sk_live_4eC39HqLyjWDarjtT1](https://x.example/)",
            "![](https://x.example/?access_token=LyjWDarjtT1)",
            "<https://x.example/?access_token=LyjWDarjtT1>",
            "# password: **LyjWDarjtT1**",
            "    password: LyjWDarjtT1",
            "```\npassword: LyjWDarjtT1\n```",
            "[a][r]\n\n[r]: https://x.example/?access_token=LyjWDarjtT1",
        ],
    )
    def test_rendered_markdown_contains_no_secret(self, text: str) -> None:
        assert "Lyj" not in markdown.mask_and_render_markdown(text)

    def test_rendered_markdown_is_cached_for_each_reader(self) -> None:
        text = "with sk_live_4eC39Hq[LyjWDarjtT1](https://x.example/)zdp7dc"
        with use_masking_rules(None):
            assert "LyjWDarjtT1" in markdown.mask_and_render_markdown(text)
        assert "LyjWDarjtT1" not in markdown.mask_and_render_markdown(text)


def test_tree_masks_every_displayed_value() -> None:
    html = mask_and_render_json_tree(
        {TOKEN: {"token": ["x1y2"], "n": 5555555555554444}, "long": f"{'a ' * 3000}{TOKEN}"}
    ).html
    for secret in (TOKEN[:12], "x1y2", "5555"):
        assert secret not in html


def test_prefix_of_a_text_shows_no_part_of_a_secret() -> None:
    text = "a" * 90 + f" {TOKEN} " + "b" * 5000
    for size in range(85, 130):
        assert TOKEN[:4] not in get_masked_text_beginning(text, size)


def test_only_the_displayed_prefix_is_searched() -> None:
    looked_at: list[int] = []

    class Counted(masker.MaskingRules):
        def is_secret_name(self, name: str) -> bool:
            looked_at.append(len(name))
            return False

    with use_masking_rules(Counted(frozenset(), None, True)):
        get_masked_text_beginning("token: a\n" * 500_000, 1_000)
    assert 0 < len(looked_at) < 5_000


def test_pieces_are_masked_like_the_complete_text() -> None:
    assert mask_adjacent_texts(["use sk_live_4eC3", "9HqLyjWDarjtT1", "zdp7dc now"]) == [
        f"use {MASK}",
        MASK,
        f"{MASK} now",
    ]


def test_secret_found_in_encoded_text_is_masked_in_plain_text() -> None:
    read = decode_escapes("a\\u0062 &amp; %63*d*")
    assert read is not None
    assert read.text == "ab & cd"
    assert [read.map_span_to_written_text(at, at + 1) for at in range(len(read.text))] == [
        (0, 1),
        (1, 7),
        (7, 8),
        (8, 13),
        (13, 14),
        (14, 17),
        (18, 19),
    ]
    assert decode_escapes("nothing here") is None


@pytest.mark.parametrize("number", ["4111111111111111", "378282246310005", "5555555555554444", "6011111111111117"])
def test_card_numbers_are_detected_by_issuer_length_and_check_digit(number: str) -> None:
    assert is_card_number(number)
    assert not is_card_number(number[:-1] + str((int(number[-1]) + 1) % 10))
    assert not is_card_number("9" + number[1:])


def test_workspace_words_are_found_in_encoded_text() -> None:
    with use_masking_rules(build_masking_rules_from_names_and_words((), ("acme_*",))):
        assert mask_and_dump_json({"a": "acme\\_17"}) == f'{{"a": "{MASK}"}}'


@pytest.mark.parametrize(
    "unit",
    mark_all_but_each(
        3,
        [
            'password="',
            'password=\\"\\\\"',
            "://a:",
            "411 ",
            "4111 ",
            "](a",
            "\x1b[1;1",
            "\\",
            "a.",
            "-----BEGIN PRIVATE KEY-----",
            '"value":"a',
            ',"name":"password"',
            "token={",
            "mysql -p",
            "<a ",
            "token=(1",
            "&a",
            "%25",
            " --token ",
            " -u a:",
            "API key ",
            "sk_live_",
            "Bearer ",
        ],
    ),
)
def test_masking_takes_linear_time(unit: str) -> None:
    make: Callable[[int], str] = lambda size: unit * (size // len(unit))  # noqa: E731
    assert_linear(mask_text, make, largest=300_000)
