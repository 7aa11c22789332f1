"""Editing objects and lists of objects among the arguments of a call in fields."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.formats import parse_json, to_canonical_json
from checkpoints.models import Decision, ToolCall
from harness_site.review.argument_form_fields import build_argument_fields, compose_arguments
from tests.integration.review.payment_agents import awaiting, url
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

LAMP = {"quantity": 12, "sku": "LMP-40", "unit_price": "39.90"}
CHAIR = {"quantity": 4, "sku": "CHR-09", "unit_price": "249.00"}
CABLE = {"quantity": 30, "sku": "CBL-2M", "unit_price": "4.15"}
ORDER: dict[str, Any] = {
    "items": [LAMP, CHAIR, CABLE],
    "supplier": {"address": {"city": "Hamburg", "floor": 2}, "name": "Northwind"},
}
#: A row that is added to the items, as scripts of the page name its fields.
ADDED = {"argument-0-rows": "0,1,2,3", "argument-0-3-0": "5", "argument-0-3-1": "DSK-01", "argument-0-3-2": "310.00"}
DESK = {"quantity": 5, "sku": "DSK-01", "unit_price": "310.00"}


def sent(call: ToolCall, client: Client, typed: dict[str, str]) -> dict[str, Any]:
    """Return the form as a browser without scripts sends it, with other texts in fields by their names."""
    content = re.sub("<template>.*?</template>", "", client.get(url(call)).content.decode(), flags=re.DOTALL)
    areas = re.findall(r'<textarea[^>]* name="(argument-[-\w]+)"[^>]*>\n(.*?)</textarea>', content, re.DOTALL)
    inputs = re.findall(r'<input[^>]* name="(argument-[-\w]+)" value="([^"]*)"', content)
    form = {"kind": "edit", "written_as": "fields", "reason": "Other lines.", "revision": call.revision}
    return {**form, **{key: unescape(text) for key, text in (*areas, *inputs)}, **typed}


def record(client: Client, call: ToolCall, form: dict[str, Any]) -> Any:
    """Preview the change, record it, and return the resulting arguments."""
    seen = re.search(r'name="shown" value="(\w+)"', client.post(url(call), form).content.decode())
    assert seen is not None
    assert client.post(url(call), {**form, "shown": seen[1]}).status_code == 302
    call.refresh_from_db()
    return parse_json(call.args)


@pytest.fixture
def alice(people: dict[str, Client]) -> Client:
    return people["alice"]


def test_objects_are_groups_and_lists_of_objects_have_rows(alice: Client) -> None:
    page = alice.get(url(awaiting(args=ORDER))).content.decode()
    assert re.findall(r'<legend><b class="mono">(\w+)</b>', page) == ["items", "supplier", "address"]
    assert re.findall(r'role="group" aria-label="([^"]+)" data-row="(\w+)"', page) == [
        ("items, row 1", "0"),
        ("items, row 2", "1"),
        ("items, row 3", "2"),
        ("items, row N", "N"),
    ]
    assert 'data-argument="items, row 2: quantity" data-path="[&quot;items&quot;, 1, &quot;quantity&quot;]"' in page
    assert 'data-argument="supplier.address.floor"' in page


@pytest.mark.parametrize(
    ("typed", "change", "words"),
    [
        ({"argument-1-0-1": "3"}, {"supplier": {"address": {"city": "Hamburg", "floor": 3}, "name": "Northwind"}}, ""),
        (
            {"argument-0-1-0": "6"},
            {"items": [LAMP, {**CHAIR, "quantity": 6}, CABLE]},
            "1 change items, row 2: quantity before 4 → now 6",
        ),
        (
            {"argument-0-rows": "1,2"},
            {"items": [CHAIR, CABLE]},
            "1 change items, row 1 removed before quantity 12, sku LMP-40, unit_price 39.90",
        ),
        ({"argument-0-rows": ""}, {"items": []}, "items, row 1 removed"),
        (
            ADDED,
            {"items": [LAMP, CHAIR, CABLE, DESK]},
            "1 change items, row 4 added now quantity 5, sku DSK-01, unit_price 310.00",
        ),
        (
            {**ADDED, "argument-0-3-0": "\uff15", "argument-0-3-2": " 310,00"},
            {"items": [LAMP, CHAIR, CABLE, DESK]},
            "The tool gets 310.00.",
        ),
        (
            {"argument-0-1-2": "248.00 ", "argument-0-2-1": " CBL-2M"},
            {"items": [LAMP, {**CHAIR, "unit_price": "248.00"}, {**CABLE, "sku": " CBL-2M"}]},
            "now 248.00",
        ),
        (
            {**ADDED, "argument-0-rows": "0,2,3", "argument-0-1-0": "not read", "argument-0-2-0": "31"},
            {"items": [LAMP, {**CABLE, "quantity": 31}, DESK]},
            "items, row 2: quantity before 30 → now 31",
        ),
    ],
)
def test_nested_values_are_changed_and_rows_removed_and_added(
    alice: Client, typed: dict[str, str], change: dict[str, Any], words: str
) -> None:
    call = awaiting(args=ORDER)
    form = sent(call, alice, typed)
    assert words in visible_text(alice.post(f"{url(call)}change/", form))
    assert record(alice, call, form) == {**ORDER, **change}


@pytest.mark.parametrize(
    ("typed", "key", "readings"),
    [
        ({"argument-0-1-0": "1,234"}, "argument-0-1-0", "1234 or as 1.2340"),
        ({"argument-0-1-0": "1.000"}, "argument-0-1-0", "1000 or as 1"),
        ({**ADDED, "argument-0-3-0": "1.000"}, "argument-0-3-0", "1000 or as 1"),
    ],
)
def test_number_in_a_row_that_can_be_read_as_two_is_refused(
    alice: Client, typed: dict[str, str], key: str, readings: str
) -> None:
    call = awaiting(args=ORDER)
    form = sent(call, alice, typed)
    words = f"“{typed[key]}” can be read as {readings}. Enter one of these."
    assert words in visible_text(alice.post(f"{url(call)}change/", form))
    assert alice.post(url(call), form).status_code == 422
    assert Decision.objects.count() == 0


def test_unchanged_nested_values_stay_exactly_equal() -> None:
    arguments = {
        **ORDER,
        "spaces": " 4.75 ",
        "odd": [{"a": 1e-7, "b": None}, {"a": [1, {"x": []}], "c": {}}],
        "empty": {},
        "o": {"l": []},
    }
    stored = to_canonical_json(arguments)
    assert to_canonical_json(compose_arguments(build_argument_fields(stored, {}), stored)) == stored


def test_what_is_deeper_than_the_groups_is_edited_as_json() -> None:
    arguments = {"a": {"b": {"c": {"d": {"e": 1}}}}, "matrix": [[1], [2]], "mixed": [{"x": 1}, 2]}
    fields = build_argument_fields(to_canonical_json(arguments), {})
    assert [(field.name, field.kind) for field in fields] == [
        ("a.b.c.d", "json"),
        ("matrix", "json"),
        ("mixed", "json"),
    ]


def test_arguments_with_too_many_nested_values_are_edited_as_json() -> None:
    items = [{f"n{column}": column for column in range(10)} for _row in range(35)]
    fields = build_argument_fields(to_canonical_json({"items": items}), {})
    assert [field.kind for field in fields] == ["json"]


@pytest.mark.parametrize(("row_count", "kinds"), [(40, {"rows", "number"}), (41, {"json"})])
def test_long_list_of_objects_is_edited_as_json(row_count: int, kinds: set[str]) -> None:
    fields = build_argument_fields(to_canonical_json({"items": [{"n": row} for row in range(row_count)]}), {})
    assert {field.kind for field in fields} == kinds


def test_value_that_a_row_does_not_have_is_left_out_until_it_is_typed(alice: Client) -> None:
    call = awaiting(args={"items": [{"note": "fragile", "sku": "a"}, {"sku": "b"}], "order": 17})
    form = sent(call, alice, {"argument-1": "18"})
    assert record(alice, call, form)["items"] == [{"note": "fragile", "sku": "a"}, {"sku": "b"}]
    form = sent(call, alice, {"argument-0-1-0": "heavy"})
    assert record(alice, call, form)["items"] == [{"note": "fragile", "sku": "a"}, {"note": "heavy", "sku": "b"}]


def test_secret_in_a_row_stays_masked_and_belongs_to_its_row(alice: Client) -> None:
    hooks = [{"api_key": f"k-{number}23456", "site": f"s{number}"} for number in range(3)]
    call = awaiting(args={"hooks": hooks})
    assert "23456" not in alice.get(url(call)).content.decode()
    form = sent(call, alice, {"argument-0-rows": "1,2,3", "argument-0-3-0": "k-new", "argument-0-3-1": "s3"})
    assert record(alice, call, form)["hooks"] == [*hooks[1:], {"api_key": "k-new", "site": "s3"}]


def test_error_of_a_nested_value_is_below_its_field(alice: Client) -> None:
    call = awaiting(args=ORDER)
    form = sent(call, alice, {"argument-0-1-0": "many", "argument-1-1": "Contoso"})
    preview = alice.post(f"{url(call)}change/", form).content.decode()
    place = 'id="argument-0-1-0-error" role="status" hx-swap-oob="true"><ul class="errorlist"><li>'
    assert f'{place}<b class="mono column-name">quantity:</b> Enter a number.' in preview
    assert preview.count("errorlist") == 1
    assert 'href="#argument-0-1-0">items, row 2: quantity</a>' in preview
    assert "supplier.name" in preview  # the valid changes are listed
    page = alice.post(url(call), form)
    assert page.status_code == 422
    assert 'data-invalid="argument-0-1-0"' in page.content.decode()


def test_field_of_an_added_row_that_is_still_blank_has_its_error_once_the_form_is_sent(alice: Client) -> None:
    call = awaiting(args=ORDER)
    form = sent(call, alice, {**ADDED, "argument-0-3-0": ""})
    preview = alice.post(f"{url(call)}change/", form).content.decode()
    assert "errorlist" not in preview
    assert "items, row 4: quantity" in preview
    page = alice.post(url(call), form).content.decode()
    place = 'id="argument-0-3-0-error" role="status"><ul class="errorlist"><li>'
    assert f'{place}<b class="mono column-name">quantity:</b> Enter a number.' in page


SOLD = [{"quantity": 300, "unit_price": "4.50"}, {"quantity": 20, "unit_price": "23.95"}]
#: Button that puts the sum of the rows into the field of the total.
USE_ROW_SUM = (
    r'<button type="button" class="btn" data-use-row-sum="argument-1" value="([^"]*)" data-displayed="([^"]*)">'
    r'Use ([^<]*)<span class="visually-hidden"> for total_amount</span></button>'
)


@pytest.mark.parametrize(
    ("total", "quantity", "text", "displayed", "value"),
    [
        ("1829.00", "250", "1604.00", "1,604.00", "1604.00"),
        ("1829", "250", "1604", "1,604.00", "1604"),
        ("1829.0", "299", "1824.5", "1,824.50", "1824.5"),
        (1829.0, "250", "1604.0", "1,604.00", 1604.0),
        (1829, "200", "1379", "1,379.00", 1379),
        (1829, "299", "1824.5", "1,824.50", 1824.5),
    ],
)
@pytest.mark.parametrize("typed_total", [None, "1500"])
def test_sum_of_the_rows_is_offered_for_the_total_in_the_form_of_the_call(
    alice: Client, total: Any, quantity: str, text: str, displayed: str, value: Any, typed_total: str | None
) -> None:
    call = awaiting(args={"items": SOLD, "total_amount": total})
    typed = {"argument-0-0-0": quantity} | ({"argument-1": typed_total} if typed_total else {})
    form = sent(call, alice, typed)
    preview = alice.post(f"{url(call)}change/", form).content.decode()
    at_field, beside_button = (
        re.findall(USE_ROW_SUM, preview[preview.index(f'id="{place}"') :].split("</div>")[0])
        for place in ("argument-1-error", "warned-arguments")
    )
    assert at_field == beside_button == [(text, displayed, displayed)]
    recorded = record(alice, call, {**form, "argument-1": text})
    assert (recorded["total_amount"], type(recorded["total_amount"])) == (value, type(value))
    assert "add up" not in visible_text(alice.get(url(call)))


def test_sum_of_the_rows_is_offered_in_the_number_format_of_the_reader(alice: Client) -> None:
    call = awaiting(args={"items": SOLD, "total_amount": "1829.00"})
    form = sent(call, alice, {"argument-0-0-0": "250"})
    preview = alice.post(f"{url(call)}change/", form, headers={"accept-language": "de"}).content.decode()
    assert 'value="1604.00" data-displayed="1.604,00">1.604,00<span' in preview


@pytest.mark.parametrize(("total", "is_offered"), [("0.20", True), (0.2, False)])
def test_sum_of_the_rows_is_not_offered_where_the_tool_would_get_another_number(
    alice: Client, total: Any, is_offered: bool
) -> None:
    call = awaiting(args={"items": [{"quantity": 2, "unit_price": "0.1"}], "total_amount": total})
    form = sent(call, alice, {"argument-0-0-0": "3", "argument-0-0-1": "0.10000000000000000001"})
    preview = alice.post(f"{url(call)}change/", form).content.decode()
    assert "The rows of items add up to 0.30000000000000000003" in preview
    assert ("data-use-row-sum" in preview) is is_offered


def test_sum_of_the_rows_is_not_offered_beside_json_or_other_warnings(alice: Client) -> None:
    call = awaiting(args={"items": SOLD, "total_amount": "1829.00"})
    form = sent(call, alice, {})
    args = '{"items": [{"quantity": 25, "unit_price": "4.50"}], "total_amount": "1829.00"}'
    preview = alice.post(f"{url(call)}change/", {**form, "written_as": "json", "args": args})
    assert "The rows of items add up to 112.50" in visible_text(preview)
    assert "data-use-row-sum" not in preview.content.decode()
    form = sent(call, alice, {"argument-0-0-0": "25", "argument-0-1-1": "1.00"})
    preview = alice.post(f"{url(call)}change/", form)
    assert "Check these values: items, row 2: unit_price, total_amount" in visible_text(preview)
    assert len(re.findall(USE_ROW_SUM, preview.content.decode())) == 1  # at its field
    links = re.findall(r'<a class="mono" href="#([-\w]+)">', preview.content.decode())
    assert links == ["argument-0-1-1", "argument-1"]


def test_value_of_a_row_that_lost_its_kind_is_warned_about_after_a_row_was_removed(alice: Client) -> None:
    call = awaiting(args=ORDER)
    form = sent(call, alice, {"argument-0-rows": "1,2", "argument-0-2-2": "cheap"})
    preview = alice.post(f"{url(call)}change/", form)
    assert "items, row 2: unit_price was an amount; the new value “cheap” is not one." in visible_text(preview)
    places = re.findall(r'id="(argument-[-\d]+)-error"[^>]*>(<p class="note)?', preview.content.decode())
    assert [key for key, note in places if note] == ["argument-0-2-2"]


@pytest.mark.parametrize(
    ("typed", "count"), [({"argument-0-0-0": "13"}, 1), ({**ADDED, "argument-0-rows": "0,1,3", "argument-1-1": "C"}, 3)]
)
def test_approval_with_nested_changes_that_are_not_recorded_is_refused_and_keeps_them(
    alice: Client, typed: dict[str, str], count: int
) -> None:
    call = awaiting(args=ORDER)
    form = {**sent(call, alice, typed), "kind": "approve"}
    response = alice.post(url(call), form)
    assert response.status_code == 422
    changes = "1 change of the arguments is" if count == 1 else f"{count} changes of the arguments are"
    assert f"{changes} not recorded" in visible_text(response)
    content = response.content.decode()
    assert all(re.search(rf'name="{key}"[^>]* value="{text}"', content) for key, text in typed.items())
    call.refresh_from_db()
    assert (call.status, Decision.objects.count()) == (CallStatus.AWAITING_APPROVAL, 0)
    discarded = alice.post(url(call), {**form, "unrecorded": "discard"})
    assert 'name="argument-0-rows" value="0,1,2"' in discarded.content.decode()


def test_form_about_an_earlier_state_of_the_call_keeps_the_rows_of_its_sender(people: dict[str, Client]) -> None:
    call = awaiting(args=ORDER)
    form = {**sent(call, people["bob"], ADDED), "kind": "approve"}
    record(people["alice"], call, sent(call, people["alice"], {"argument-1-1": "Contoso"}))
    response = people["bob"].post(url(call), form)
    assert response.status_code == 409
    content = response.content.decode()
    assert 'name="argument-0-3-1" value="DSK-01"' in content
    assert 'name="argument-1-1" value="Contoso"' in content


@pytest.mark.parametrize("rows", ["x", "0,0,1,2", "-1", "1000000", ",".join(map(str, range(200)))])
def test_row_numbers_that_the_page_does_not_send_change_nothing(rows: str) -> None:
    stored = to_canonical_json(ORDER)
    fields = build_argument_fields(stored, {"argument-0-rows": rows})
    assert compose_arguments(fields, stored) == ORDER
