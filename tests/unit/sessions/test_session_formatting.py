from decimal import Decimal

import pytest

from checkpoints.formats.parse_message_parts import ImagePart
from checkpoints.sessions.display_status import DisplayStatus
from harness_site.sessions import message_media_sources, money_and_count_formatting, session_formatting
from harness_site.sessions.message_media_sources import ImageSource
from harness_site.sessions.templatetags import harness_tools


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("0", "$0.00"),
        ("0.031", "$0.031"),
        ("0.10", "$0.10"),
        ("12", "$12.00"),
        ("1234.5", "$1,234.50"),
        ("1000000", "$1,000,000.00"),
        ("0.0000004", "$0.00"),
        ("0.0000005", "$0.000001"),
        ("1E+3", "$1,000.00"),
    ],
)
def test_amounts_are_formatted(amount: str, words: str) -> None:
    assert money_and_count_formatting.format_money(Decimal(amount)) == words


def test_text_on_one_line_differs_from_the_list_that_it_looks_like() -> None:
    assert (
        session_formatting.mask_fields_and_format_value_as_inline_text({"a": "[1, 2]", "b": [1, 2]})
        == 'a "[1, 2]", b [1, 2]'
    )


def test_unknown_amount_is_a_dash() -> None:
    assert money_and_count_formatting.format_money(None) == "–"
    assert money_and_count_formatting.format_money_delta(None) == "–"


def test_amount_differences_have_a_sign() -> None:
    assert [money_and_count_formatting.format_money_delta(Decimal(amount)) for amount in ("0.012", "-0.5", "0")] == [
        "+$0.012",
        "−$0.50",
        "$0.00",
    ]


def test_signed_numbers() -> None:
    assert [money_and_count_formatting.format_signed_number(number) for number in (3108, -2, 0)] == [
        "+3,108",
        "−2",
        "0",
    ]


def test_paused_session_shows_the_number_of_pending_calls() -> None:
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 1) == (
        "unknown",
        "Paused — 1 call needs a decision",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 3) == (
        "unknown",
        "Paused — 3 calls need a decision",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 0) == (
        "unknown",
        "Paused for a decision",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 1, 1) == (
        "wait",
        "Paused — 1 call awaits approval",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 2, 2) == (
        "wait",
        "Paused — 2 calls await approval",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 1, 1, 1) == (
        "wait",
        "Paused — 1 question awaits an answer",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 2, 2, 1) == (
        "wait",
        "Paused — 2 calls need a decision",
    )
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 3, 2) == (
        "unknown",
        "Paused — 3 calls need a decision",
    )


def test_session_without_a_process_is_labelled() -> None:
    assert session_formatting.get_session_status_shape_and_label(DisplayStatus.STALLED, 0) == ("wait", "Orphaned")


def test_unknown_role_is_named_but_not_used_as_a_css_class() -> None:
    assert session_formatting.format_role_name('"><script>') == '"><script>'
    assert session_formatting.get_role_css_kind('"><script>') == "other"
    assert (session_formatting.format_role_name("Assistant"), session_formatting.get_role_css_kind("Assistant")) == (
        "Agent",
        "agent",
    )


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", " javascript:alert(1)", "data:x", "//a.example", "http://", "http://[", "", None]
)
def test_only_web_addresses_become_links(address: object) -> None:
    assert session_formatting.mask_safe_link_or_return_empty(address) == ""


def test_web_address_becomes_a_link() -> None:
    assert (
        session_formatting.mask_safe_link_or_return_empty("https://bank.example/#re_81f3")
        == "https://bank.example/#re_81f3"
    )


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/png;base64,AAAA", ImageSource(embedded=True)),
        ("https://a.example/b.png", ImageSource(link="https://a.example/b.png")),
        (
            "data:image/svg+xml;base64,AAAA",
            ImageSource(words="The image is not shown: data:image/svg+xml, 30 bytes. Its message contains it as text."),
        ),
        (
            'javascript:alert("x")',
            ImageSource(
                words='The image is not shown: javascript:alert("x"), 21 bytes. Its message contains it as text.'
            ),
        ),
    ],
)
def test_only_embedded_images_are_shown(url: str, source: ImageSource) -> None:
    assert message_media_sources.build_image_source(ImagePart(url)) == source


@pytest.mark.parametrize("text", ["", "plain", "[not json", "7", '"x"', "{}", "[]"])
def test_text_without_json_structure(text: str) -> None:
    assert session_formatting.parse_json_container(text) is None


def test_text_with_json_structure() -> None:
    assert session_formatting.parse_json_container(' {"a": [1]}') == {"a": [1]}


def test_only_a_whole_share_is_100_percent() -> None:
    shares = (None, 0, 0.001, 0.5, 0.994, 0.9968, 1)
    shown = ["–", "0 %", "< 1 %", "50 %", "99 %", "> 99 %", "100 %"]
    assert [harness_tools.format_share_or_dash(share) for share in shares] == shown
