from decimal import Decimal

import pytest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from checkpoints.enums import CallStatus
from harness_site.core.rendering.fast_format_html import build_html, join_html


class Labelled:
    """An object that renders itself as HTML."""

    def __html__(self) -> str:
        return "<b>label</b>"


VALUES = {
    "markup": '<script>alert("it\'s")</script>',
    "ampersand": "a & b",
    "safe": SafeString("<i>safe</i>"),
    "translation": gettext_lazy("<Completed>"),
    "choice": CallStatus.COMPLETED,
    "label": CallStatus.COMPLETED.label,
    "object": Labelled(),
    "decimal": Decimal("1.50"),
    "float": 1.5,
    "integer": -7,
    "boolean": True,
    "none": None,
    "list": ["<", "'"],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_are_escaped_as_django_does(value: object) -> None:
    template = '<p title="{}">{name}</p>'
    built = build_html(template, value, name=value)
    assert built == format_html(template, value, name=value)
    assert isinstance(built, SafeString)


def test_rows_are_escaped_and_joined_as_django_does() -> None:
    rows = [(value, "<td>") for value in VALUES.values()]
    joined = join_html("<br>", "<td>{}</td>{}", rows)
    assert joined == format_html_join(SafeString("<br>"), "<td>{}</td>{}", rows)
    assert isinstance(joined, SafeString)
