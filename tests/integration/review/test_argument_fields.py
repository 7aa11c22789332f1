"""Editing single arguments by type, without loss of the others."""

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.formats import parse_json, to_canonical_json
from checkpoints.models import Decision, ToolCall
from harness_site.review.argument_form_fields import build_argument_fields
from tests.integration.review.payment_agents import awaiting, url
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

ARGS: dict[str, Any] = {
    "amount": "40.00",
    "lines": [["lamp", 3]],
    "note": None,
    "order": 17,
    "rate": 0.1,
    "text": "first\nsecond",
    "urgent": True,
    "zero\u200bwidth": "a\u200bb",
}


def shown(content: str) -> dict[str, str]:
    """Return the values of the form fields by key, as a browser would send them."""
    areas = re.findall(r'<textarea[^>]* name="(argument-\d+)"[^>]*>\n(.*?)</textarea>', content, re.DOTALL)
    inputs = re.findall(r'<input[^>]* name="(argument-\d+)" value="([^"]*)"', content)
    selects = re.findall(r'name="(argument-\d+)"[^>]*><option.*?value="(\w+)" selected', content, re.DOTALL)
    return {key: unescape(value).replace("\n", "\r\n") for key, value in (*areas, *inputs, *selects)}


def sent(call: ToolCall, client: Client, **changed: str) -> dict[str, Any]:
    """Return the form data with changed argument fields."""
    content = client.get(url(call)).content.decode()
    names = list(parse_json(call.args))
    fields = shown(content) | {f"argument-{names.index(name)}": text for name, text in changed.items()}
    text = re.search(r' name="args"[^>]*>\n(.*?)</textarea>', content, re.DOTALL)
    assert text is not None
    return {
        "kind": "edit",
        "written_as": "fields",
        "args": unescape(text[1]).replace("\n", "\r\n"),
        "reason": "Less.",
        "revision": 1,
        **fields,
    }


def record(client: Client, call: ToolCall, form: dict[str, Any]) -> Any:
    """Preview the change, record it, and return the resulting arguments."""
    seen = re.search(r'name="shown" value="(\w+)"', client.post(url(call), form).content.decode())
    assert seen is not None
    assert client.post(url(call), {**form, "shown": seen[1]}).status_code == 302
    call.refresh_from_db()
    return parse_json(call.args)


def test_each_argument_has_a_field_of_its_type(people: dict[str, Client]) -> None:
    call = awaiting(args=ARGS)
    response = people["alice"].get(url(call))
    page = visible_text(response)
    for words in ("amount number as text", "lines JSON", "note JSON", "order number", "urgent true or false"):
        assert words in page
    content = response.content.decode()
    assert len(shown(content)) == len(ARGS)
    areas = re.findall(r'<textarea[^>]* data-argument="(\w+)"', content)
    assert areas == ["lines", "note", "text"]  # a short text has one line


def test_unchanged_arguments_stay_exactly_equal(people: dict[str, Client]) -> None:
    call = awaiting(args=ARGS)
    assert record(people["alice"], call, sent(call, people["alice"], amount="4.00")) == {**ARGS, "amount": "4.00"}
    assert to_canonical_json(ARGS) == parse_json(Decision.objects.get().evidence or "")["args_before"]


def test_form_without_a_change_is_refused(people: dict[str, Client]) -> None:
    call = awaiting(args=ARGS)
    page = visible_text(people["alice"].post(url(call), sent(call, people["alice"])))
    assert "Change at least one argument. These are the current ones." in page


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("order", "18", 18),
        ("order", "1e3", 1000),
        ("order", "18.0", 18),
        ("order", "18.5", 18.5),
        ("order", "31 877", 31877),
        ("order", "1.031.877", 1031877),
        ("order", "1,200.00", 1200),
        ("rate", "0,9", 0.9),
        ("rate", "+1.249,5", 1249.5),
        ("amount", "1,644.00", "1644.00"),
        ("amount", "1.644,00", "1644.00"),
        ("amount", "many", "many"),
        ("rate", "-2.5e3", -2500.0),
        ("urgent", "false", False),
        ("note", '"now a text"', "now a text"),
        ("lines", "[]", []),
        ("text", "a\r\n  b ", "a\n  b "),
        ("amount", "", ""),
    ],
)
def test_each_type_is_parsed(people: dict[str, Client], name: str, typed: str, value: Any) -> None:
    call = awaiting(args=ARGS)
    assert record(people["alice"], call, sent(call, people["alice"], **{name: typed})) == {**ARGS, name: value}


@pytest.mark.parametrize(
    ("text", "input_type"),
    [
        ("2026-12-01", "date"),
        ("2026-12-01T08:00", "datetime-local"),
        ("2026-12-01T08:00:00", ""),  # a browser would drop the seconds
        ("2026-12-01T08:00:00+01:00", ""),
        ("2026-12-01 08:00", ""),
        ("2026-12-01T24:00", ""),
        ("2026-02-30", ""),
        ("0000-12-01", ""),
        ("20261201", ""),
        (" 2026-12-01", ""),
    ],
)
def test_date_has_a_control_for_dates_if_that_returns_all_of_its_text(
    people: dict[str, Client], text: str, input_type: str
) -> None:
    call = awaiting(args={"day": text, "order": 17})
    content = people["alice"].get(url(call)).content.decode()
    [tag] = re.findall(r'<input[^>]* id="argument-0"[^>]*>', content)
    assert re.findall(r' type="([^"]+)"', tag) == [input_type] * bool(input_type)
    assert shown(content)["argument-0"] == text
    assert record(people["alice"], call, sent(call, people["alice"], order="18")) == {"day": text, "order": 18}


def test_emptied_date_is_warned_about(people: dict[str, Client]) -> None:
    call = awaiting(args={"day": "2026-12-01", "order": 17})
    form = sent(call, people["alice"], day="")
    preview = people["alice"].post(f"{url(call)}change/", form)
    assert "day was a date; the new value “” is not one." in visible_text(preview)
    assert record(people["alice"], call, form) == {"day": "", "order": 17}


def test_text_that_is_no_date_stays_in_its_field(people: dict[str, Client]) -> None:
    call = awaiting(args={"day": "2026-12-01", "order": 17})
    form = sent(call, people["alice"], day="next Monday") | {"reason": ""}
    content = people["alice"].post(url(call), form).content.decode()
    [tag] = re.findall(r'<input[^>]* id="argument-0"[^>]*>', content)
    assert shown(content)["argument-0"] == "next Monday"
    assert " type=" not in tag  # a control for dates would be empty


LISTS: dict[str, Any] = {"ids": [12, 7], "note": "none", "tags": ["late", "17"]}


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("tags", "late\r\n  urgent \r\n\r\n17", ["late", "urgent", "17"]),
        ("tags", "", []),
        ("ids", "12\r\n1e3\r\n-7.5", [12, 1000, -7.5]),
    ],
)
def test_list_of_simple_values_has_one_item_in_each_line(
    people: dict[str, Client], name: str, typed: str, value: Any
) -> None:
    call = awaiting(args=LISTS)
    form = sent(call, people["alice"], note="other")
    assert (form["argument-0"], form["argument-2"]) == ("12\r\n7", "late\r\n17")
    assert record(people["alice"], call, {**form, f"argument-{list(LISTS).index(name)}": typed}) == {
        **LISTS,
        "note": "other",
        name: value,
    }
    assert ".0" not in call.args


@pytest.mark.parametrize(
    ("others", "kind"),
    [({"to": ["a@example.org"]}, "texts"), ({}, "json"), ({"to": ["a"], "ids": [1]}, "json"), ({"to": "a"}, "json")],
)
def test_empty_list_is_edited_like_the_lists_of_texts_beside_it(others: dict[str, Any], kind: str) -> None:
    fields = build_argument_fields(to_canonical_json({**others, "zbcc": []}, "args"), {})
    field = next(field for field in fields if field.name == "zbcc")
    assert (field.kind, field.parse_typed_value(), field.is_changed) == (kind, [], False)


def test_item_that_is_no_number_is_named_by_its_place(people: dict[str, Client]) -> None:
    call = awaiting(args=LISTS)
    form = sent(call, people["alice"], ids="12\r\n1,249\r\ntrue")
    preview = visible_text(people["alice"].post(f"{url(call)}change/", form))
    assert "Item 2: “1,249” can be read as 1249 or as 1.2490. Enter one of these." in preview
    form = sent(call, people["alice"], ids="12\r\n1.000")
    preview = visible_text(people["alice"].post(f"{url(call)}change/", form))
    assert "Item 2: “1.000” can be read as 1000 or as 1. Enter one of these." in preview
    form = sent(call, people["alice"], ids="12\r\n1.249,5\r\ntrue")
    assert "Item 3 is no number." in visible_text(people["alice"].post(f"{url(call)}change/", form))
    assert people["alice"].post(url(call), form).status_code == 422


@pytest.mark.parametrize("items", [[], [" a"], ["a\nb"], [""], ["a", 1], [True], [None], [["a"]], ["a\u200bb"]])
def test_list_whose_items_would_not_stay_equal_as_lines_is_edited_as_json(items: list[Any]) -> None:
    [field] = build_argument_fields(to_canonical_json({"items": items}), {})
    assert field.kind == "json"


@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        ("order", "seventeen", "Enter a number."),
        ("order", "true", "Enter a number."),
        ("rate", "31,877", "“31,877” can be read as 31877 or as 31.8770. Enter one of these."),
        ("amount", "1,644", "“1,644” can be read as 1644 or as 1.6440. Enter one of these."),
        ("order", "31,87,7", "Enter the whole number without separators, such as 12000."),
        ("rate", "1.24,9,5", "Enter the number without thousands separators and with a decimal point, such as 1200.5."),
        ("lines", "[1,", "This is not JSON: it ends too early, at line 1, column 4."),
        ("lines", "[1,]", "This is not JSON: remove the comma at line 1, column 3."),
        ("lines", " ", "Enter JSON, with text in quotes."),
        ("note", "text", "This is not JSON: enter text in quotes at line 1, column 1."),
    ],
)
def test_invalid_input_is_reported_and_kept(people: dict[str, Client], name: str, typed: str, words: str) -> None:
    call = awaiting(args=ARGS)
    form = sent(call, people["alice"], **{name: typed})
    response = people["alice"].post(url(call), form)
    assert words in visible_text(response)
    assert typed in shown(response.content.decode()).values()
    assert Decision.objects.count() == 0
    place = f'id="argument-{list(ARGS).index(name)}-error" role="status" hx-swap-oob="true"><ul class="errorlist">'
    preview = people["alice"].post(f"{url(call)}change/", form).content.decode()
    assert f"{place}<li>{words}" in preview
    assert preview.count("errorlist") == 1


def test_number_with_separators_is_listed_as_the_tool_gets_it(people: dict[str, Client]) -> None:
    call = awaiting(args={"to": "Nordisk Lys", "total_amount": "1829.00"})
    assert "number as text" in visible_text(people["alice"].get(url(call)))
    form = sent(call, people["alice"], total_amount="1,644.00")
    preview = people["alice"].post(f"{url(call)}change/", form)
    page = visible_text(preview)
    assert "total_amount before 1829.00 → now 1644.00 (1,644.00)" in page
    record(people["alice"], call, form)
    assert "total_amount before 1829.00 → now 1644.00 (1,644.00)" in visible_text(people["alice"].get(url(call)))
    assert "The tool gets 1644.00." in page
    assert "is not one" not in page
    assert 'data-sent="1644.00" data-typed="1,644.00"' in preview.content.decode()


@pytest.mark.parametrize(
    ("typed", "readings"),
    [
        ("1,300", "1300 or as 1.3"),
        ("-1,300", "-1300 or as -1.3"),
        ("1.000", "1000 or as 1"),
        ("1.234", "1234 or as 1.2340"),
    ],
)
def test_separator_before_three_digits_of_a_whole_number_is_ambiguous(
    people: dict[str, Client], typed: str, readings: str
) -> None:
    call = awaiting(args={"quantity": 300, "sku": "LED-E14-4W"})
    form = sent(call, people["alice"], quantity=typed)
    words = f"“{typed}” can be read as {readings}. Enter one of these."
    assert words in visible_text(people["alice"].post(f"{url(call)}change/", form))
    assert words in visible_text(people["alice"].post(url(call), form))
    assert Decision.objects.count() == 0
    assert record(people["alice"], call, {**form, "argument-0": "1300"}) == {"quantity": 1300, "sku": "LED-E14-4W"}
    assert ".0" not in call.args


@pytest.mark.parametrize(("stored", "fraction"), [("1829.00", "1.70"), (1829.5, "1.7"), ("1829.00 EUR", "1.70")])
def test_point_before_three_digits_of_an_amount_is_ambiguous(
    people: dict[str, Client], stored: str | float, fraction: str
) -> None:
    call = awaiting(args={"total_amount": stored})
    form = sent(call, people["alice"], total_amount="1.700")
    words = f"“1.700” can be read as 1700 or as {fraction}. Enter one of these."
    assert words in visible_text(people["alice"].post(f"{url(call)}change/", form))
    assert people["alice"].post(url(call), form).status_code == 422


@pytest.mark.parametrize(("stored", "number"), [("1.852", "1.700"), (1.852, 1.7)])
def test_point_starts_the_decimal_places_where_the_value_has_three_of_them(
    people: dict[str, Client], stored: str | float, number: str | float
) -> None:
    call = awaiting(args={"rate": stored})
    form = sent(call, people["alice"], rate="1.700")
    assert record(people["alice"], call, form) == {"rate": number}


def test_number_with_a_currency_that_the_value_does_not_have_is_quoted_as_it_was_typed(
    people: dict[str, Client],
) -> None:
    call = awaiting(args={"unit_price": "2.40"})
    form = sent(call, people["alice"], unit_price="1,85 €")
    preview = visible_text(people["alice"].post(f"{url(call)}change/", form))
    assert "the new value “1,85 €” is not one." in preview
    assert "1.85" not in preview


def test_amount_in_another_form_than_before_is_listed_as_it_is(people: dict[str, Client]) -> None:
    call = awaiting(args={"total_amount": "1829.00"}, approvals=2)
    text = json.dumps({"total_amount": "1,644.00"})
    record(people["alice"], call, sent(call, people["alice"]) | {"written_as": "json", "args": text})
    page = visible_text(people["bob"].get(url(call)))
    assert "total_amount before 1829.00 → now 1,644.00" in page


@pytest.mark.parametrize(("length", "is_one_line"), [(34, True), (37, False)])
def test_text_that_is_wider_than_a_phone_has_a_field_that_wraps(length: int, is_one_line: bool) -> None:
    [field] = build_argument_fields(to_canonical_json({"subject": "a" * length}), {})
    assert (field.is_one_line, field.text_area_line_count) == (is_one_line, 1)


def test_each_invalid_field_has_its_error_and_the_first_is_focused(people: dict[str, Client]) -> None:
    call = awaiting(args=ARGS)
    form = sent(call, people["alice"], order="seventeen", lines="[1,") | {"reason": ""}
    content = people["alice"].post(url(call), form).content.decode()
    marked = re.findall(
        r'name="([-a-z0-9]+)"[^>]* aria-invalid="true"(?: aria-describedby="([^"]+)")?( autofocus)?', content
    )
    assert marked[:2] == [("argument-1", "argument-1-error", " autofocus"), ("argument-3", "argument-3-error", "")]
    assert [name for name, *_ in marked[2:]] == ["reason"]
    assert re.findall(r'id="(argument-[0-9]+-error)" role="status"><ul class="errorlist"><li>([^<]+)', content) == [
        ("argument-1-error", "This is not JSON: it ends too early, at line 1, column 4."),
        ("argument-3-error", "Enter a number."),
    ]
    assert 'data-invalid="argument-1"' in content
    assert 'id="args-errors"' not in content


def test_change_is_shown_while_typing(people: dict[str, Client]) -> None:
    call = awaiting(args=ARGS)
    response = people["alice"].post(url(call) + "change/", sent(call, people["alice"], order="18"))
    assert "1 change order before 17 → now 18" in visible_text(response)


def test_several_changes_are_listed_after_a_click_until_the_page_asks_to_check_them(people: dict[str, Client]) -> None:
    call = awaiting(args=ARGS)
    one = {"amount": "4.00"}
    preview = people["alice"].post(f"{url(call)}change/", sent(call, people["alice"], **one)).content.decode()
    assert "<details" not in preview
    form = sent(call, people["alice"], **one, text="another first line, and a\nsecond")
    preview = people["alice"].post(f"{url(call)}change/", form).content.decode()
    assert re.search('<details class="all-changes">\\s*<summary class="small"><b>2 changes</b>', preview)
    page = people["alice"].post(url(call), form).content.decode()
    assert '<details class="all-changes" open>' in page


@pytest.mark.parametrize(
    ("args", "typed", "is_listed"),
    [
        (ARGS, {"amount": "30.00", "order": "18"}, True),
        (ARGS, {"amount": "30.00", "order": "18", "rate": "0.2", "urgent": "false"}, True),
        (ARGS, {"amount": "30.00", "order": "18", "rate": "0.2", "urgent": "false", "note": "1"}, False),
        (ARGS, {"amount": "400.00", "order": "18"}, False),  # with the warning that the amount is ten times as high
        ({"amount": "40.00", "order": 17}, {"amount": "30.00", "order": "18"}, False),  # no room beside the reason
    ],
)
def test_up_to_four_short_changes_are_listed_beside_the_reason(
    people: dict[str, Client], args: dict[str, Any], typed: dict[str, str], is_listed: bool
) -> None:
    call = awaiting(args=args)
    preview = people["alice"].post(f"{url(call)}change/", sent(call, people["alice"], **typed)).content.decode()
    assert f"<b>{len(typed)} changes</b>" in preview
    assert ("<details" not in preview) is is_listed


def test_changes_of_the_other_fields_are_shown_while_one_is_invalid(people: dict[str, Client]) -> None:
    call = awaiting(args={"amount": "40.00", "api_key": "k-123456", "order": 17})
    form = sent(call, people["alice"], order="seventeen", amount="4.00")
    response = people["alice"].post(url(call) + "change/", form)
    assert visible_text(response).startswith("order: Enter a number. amount before 40.00 → now 4.00")
    assert 'name="shown"' not in response.content.decode()


def test_secret_stays_masked_and_unchanged(people: dict[str, Client]) -> None:
    args = {"api_key": "sk-live-4242424242424242", "order": 17}
    call = awaiting(args=args)
    form = sent(call, people["alice"], order="18")
    assert "sk-live" not in str(form["argument-0"])
    assert record(people["alice"], call, form) == {**args, "order": 18}


def test_secret_is_kept_by_an_empty_field_and_replaced_by_a_typed_value(people: dict[str, Client]) -> None:
    call = awaiting(args={"api_key": "k-123456", "order": 17})
    form = sent(call, people["alice"], api_key="k-654321")
    assert form["argument-0"] == "k-654321"
    assert "api_key masked; an empty field keeps it" in visible_text(people["alice"].get(url(call)))
    assert record(people["alice"], call, form) == {"api_key": "k-654321", "order": 17}


@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        (
            "api_key",
            "‹masked› 2",
            "A part of this is masked. Keep ‹masked› where it stood, or enter a whole new value.",
        ),
        ("command", "curl ‹masked›", "A part of this is masked."),
        ("note", "see ‹masked›", "Replace ‹masked›: it stands for no masked value here"),
    ],
)
def test_mask_that_stands_for_no_value_is_an_error_of_its_field(
    people: dict[str, Client], name: str, typed: str, words: str
) -> None:
    args = {"api_key": "k-123456", "command": "curl -u desk:sk-live-4242424242424242", "note": "none"}
    call = awaiting(args=args)
    form = sent(call, people["alice"], **{name: typed})
    place = f'id="argument-{list(args).index(name)}-error" role="status" hx-swap-oob="true"><ul class="errorlist"><li>'
    preview = people["alice"].post(f"{url(call)}change/", form).content.decode()
    assert preview.count("errorlist") == 1
    assert words in unescape(preview.partition(place)[2])
    assert people["alice"].post(url(call), form).status_code == 422


def test_value_that_lost_its_kind_is_named_at_its_field_and_beside_the_button(people: dict[str, Client]) -> None:
    call = awaiting(args={"amount": "40.00", "order": 31877, "to": "emma@example.org"})
    form = sent(call, people["alice"], order="31.87", to="emma-at-example")
    preview = people["alice"].post(f"{url(call)}change/", form)
    assert "Check these values: order, to order was a whole number; the new value “31.87” is not one." in visible_text(
        preview
    )
    places = re.findall(r'id="(argument-\d)-error"[^>]*>(<p class="note)?', preview.content.decode())
    assert [key for key, note in places if note] == ["argument-1", "argument-2"]
    assert record(people["alice"], call, form) == {"amount": "40.00", "order": 31.87, "to": "emma-at-example"}


def test_warnings_about_a_recorded_change_are_shown_to_everybody(people: dict[str, Client]) -> None:
    call = awaiting(args={"api_key": "k-123456", "order": 31877}, approvals=2)
    record(people["alice"], call, sent(call, people["alice"], order="31.87"))
    for reader in ("alice", "bob"):
        response = people[reader].get(url(call))
        page = visible_text(response)
        warning = "order was a whole number; the new value “31.87” is not one."
        assert warning in page
        assert warning in response.content.decode().partition('id="sign-off"')[2]  # beside the button, too
        assert "api_key was" not in page


def test_sum_that_a_recorded_change_left_as_it_was_is_named_before_the_approval(people: dict[str, Client]) -> None:
    items = [{"sku": "LED", "quantity": 300}, {"sku": "CBL", "quantity": 12}]
    call = awaiting(args={"items": items, "total_amount": 1829.0}, approvals=2)
    fewer = json.dumps({"items": [{**items[0], "quantity": 250}, items[1]], "total_amount": 1829.0})
    form = {**sent(call, people["alice"]), "written_as": "json", "args": fewer}
    record(people["alice"], call, form)
    warning = "total_amount was not changed. Check whether it still adds up."
    for reader in ("alice", "bob"):
        page = people[reader].get(url(call)).content.decode()
        card, _sign_off, bar = page.partition('id="sign-off"')
        assert warning in card
        assert warning in bar


def test_json_input_is_used_when_selected(people: dict[str, Client]) -> None:
    call = awaiting(args={"order": 17})
    form = {**sent(call, people["alice"]), "written_as": "json", "args": '{"order": 19}'}
    assert record(people["alice"], call, form) == {"order": 19}


@pytest.mark.parametrize("written_as", ["fields", "json"])
def test_changes_in_fields_and_json_are_not_recorded_in_part(people: dict[str, Client], written_as: str) -> None:
    call = awaiting(args={"order": 17})
    form = {**sent(call, people["alice"], order="18"), "written_as": written_as, "args": '{"order": 19}'}
    response = people["alice"].post(url(call), form)
    assert response.status_code == 422
    assert "The fields and the JSON both have changes. Undo those of one of them." in visible_text(response)
    assert 'name="shown"' not in response.content.decode().replace('name="shown" id="id_shown"', "")


def test_late_edit_keeps_its_input(people: dict[str, Client]) -> None:
    call = awaiting(args={"order": 17, "payee": "Northwind"})
    form = sent(call, people["alice"], order="18")
    people["bob"].post(url(call), {"kind": "reject", "message": "No.", "revision": 1})
    response = people["alice"].post(url(call), form)
    assert response.status_code == 409
    assert "bob decided first, at " in visible_text(response)
    assert "Arguments order: 18 payee: Northwind" in visible_text(response)


@pytest.mark.parametrize(
    "typed", [{"argument-0": "18"}, {"args": '{"order": 18, "payee": "Northwind"}'}, {"args": "{"}]
)
def test_approval_with_changes_that_are_not_recorded_is_refused_and_keeps_them(
    people: dict[str, Client], typed: dict[str, str]
) -> None:
    call = awaiting(args={"order": 17, "payee": "Northwind"})
    form = {**sent(call, people["alice"]), "kind": "approve", **typed}
    response = people["alice"].post(url(call), form)
    assert response.status_code == 422
    page = visible_text(response)
    assert "1 change of the arguments is not recorded" in page
    assert all(unescape(text) in unescape(response.content.decode()) for text in (*typed.values(), "Less."))
    call.refresh_from_db()
    assert (call.status, Decision.objects.count()) == (CallStatus.AWAITING_APPROVAL, 0)

    discarded = people["alice"].post(url(call), {**form, "unrecorded": "discard"})
    assert discarded.status_code == 200
    assert "not recorded" not in visible_text(discarded)
    assert shown(discarded.content.decode()) == {"argument-0": "17", "argument-1": "Northwind"}
    assert Decision.objects.count() == 0


def test_approval_with_changes_is_refused_also_if_somebody_else_has_approved_meanwhile(
    people: dict[str, Client],
) -> None:
    call = awaiting(args={"order": 17}, approvals=2)
    form = {**sent(call, people["bob"], order="18"), "kind": "approve"}
    assert people["alice"].post(url(call), {**sent(call, people["alice"]), "kind": "approve"}).status_code == 302
    assert people["bob"].post(url(call), form).status_code == 422
    assert Decision.objects.count() == 1
    assert people["bob"].post(url(call), {**form, "argument-0": "17"}).status_code == 302
    assert Decision.objects.count() == 2


def test_changes_that_an_approval_does_not_record_can_be_recorded_instead(people: dict[str, Client]) -> None:
    call = awaiting(args={"order": 17})
    form = {**sent(call, people["alice"], order="18"), "kind": "approve", "unrecorded": "record"}
    response = people["alice"].post(url(call), form)
    assert "Not recorded yet. Check the changes below, then record them." in visible_text(response)
    assert Decision.objects.count() == 0
    assert record(people["alice"], call, {**form, "kind": "edit", "unrecorded": ""}) == {"order": 18}


def test_form_about_an_earlier_state_of_the_call_has_only_the_changes_of_its_sender(people: dict[str, Client]) -> None:
    call = awaiting(args={"order": 17, "payee": "Northwind", "text": "a"})
    form = {**sent(call, people["bob"], payee="Contoso"), "kind": "approve"}
    record(people["alice"], call, sent(call, people["alice"], order="18"))
    response = people["bob"].post(url(call), form)
    assert response.status_code == 409
    assert shown(response.content.decode()) == {"argument-0": "18", "argument-1": "Contoso", "argument-2": "a"}
    assert "1 change of the arguments is not recorded" in visible_text(response)


def test_rejection_with_changes_that_are_not_recorded_is_recorded(people: dict[str, Client]) -> None:
    call = awaiting(args={"order": 17})
    form = {**sent(call, people["alice"], order="18"), "kind": "reject", "message": "No."}
    assert people["alice"].post(url(call), form).status_code == 302


def test_many_arguments_are_edited_as_json(people: dict[str, Client]) -> None:
    call = awaiting(args={f"a{number}": number for number in range(31)})
    assert shown(people["alice"].get(url(call)).content.decode()) == {}


def test_hostile_names_and_values_are_escaped(people: dict[str, Client]) -> None:
    call = awaiting(args={"<script>alert(1)</script>": '"></textarea><script>alert(2)</script>'})
    assert "<script>alert" not in people["alice"].get(url(call)).content.decode()
