import re
from typing import Any

from django.utils import translation

from harness_site.core.call_arguments_html import mask_and_render_call_arguments
from harness_site.core.masking import masker
from harness_site.core.masking.masker import MASK
from harness_site.core.rendering.json_tree import MAX_TREE_DEPTH, PREVIEW

PAYMENTS: list[dict[str, Any]] = [{"invoice": 8841, "amount": "9420.00"}, {"invoice": 8842, "amount": 9000.0}]


def _list_shown_values(html: str) -> list[str]:
    return re.findall(r'<(?:dd dir="auto"|td data-name="[^"]*" dir="auto")>([^<]*)</d', html) + re.findall(
        r'<td data-name="[^"]*" dir="auto">([^<]*)</td>', html
    )


def test_amounts_inside_of_lists_and_objects_are_formatted() -> None:
    args = {"total_amount": 18420.0, "payments": PAYMENTS, "fee": {"price": "1250.5"}}
    html = mask_and_render_call_arguments(args).html
    assert _list_shown_values(html) == ["18,420.00", "1,250.50", "8841", "9,420.00", "8842", "9,000.00"]
    with translation.override("de"):
        assert "9.420,00" in mask_and_render_call_arguments(args).html


def test_values_that_are_written_as_json_keep_their_amounts() -> None:
    value: Any = {"amount": "9420.00"}
    for _level in range(MAX_TREE_DEPTH):
        value = {"inner": value}
    assert "9420.00" in mask_and_render_call_arguments(value).html


def test_secret_amount_is_masked_and_not_formatted() -> None:
    with masker.use_masking_rules_with_extra_values({"941217"}):
        html = mask_and_render_call_arguments({"amount": 941217, "price": "941217", "total": 941218}).html
    assert _list_shown_values(html) == [MASK, MASK, "941,218"]


def test_beginning_of_arguments_has_the_form_of_all_of_them() -> None:
    args = {"supplier": "5011", "draft": False, "total_amount": "2309.60", "items": PAYMENTS, "note": "# A\n\n**b** c"}
    assert mask_and_render_call_arguments(args, limit=PREVIEW, fold=True) == mask_and_render_call_arguments(args)


def test_table_and_formatted_text_are_left_out_where_they_would_be_cut() -> None:
    text = "# Returns\n\nSend it within **30 days**." + " More." * 50
    args = {"items": PAYMENTS * 5, "body": text}
    shown = mask_and_render_call_arguments(args, limit=200, fold=True)
    assert not shown.whole
    assert "<table" not in shown.html
    assert "formatted-text" not in shown.html
    assert "<table" in mask_and_render_call_arguments(args, limit=2000, fold=True).html
