"""Output of the site's templates contains no hidden characters."""

from typing import Any

import pytest
from django.template import TemplateDoesNotExist, engines
from django.template.loader import get_template, render_to_string

from harness_site.core.hidden_character_template_backend import Templates

OVERRIDE = "\u202e"


def test_the_site_uses_this_backend() -> None:
    assert isinstance(engines["django"], Templates)


def test_hidden_character_in_template_output_is_made_visible() -> None:
    given = {"able": [f"Ada {OVERRIDE}<ada@example.org>"]}
    expected = "These members can: <b>Ada ‹U+202E›&lt;ada@example.org&gt;</b>.\n"
    assert get_template("parts/permitted_members.html").render(given) == expected
    assert render_to_string("parts/permitted_members.html", given) == expected


def test_lone_surrogate_does_not_break_a_page() -> None:
    page = engines["django"].from_string("<p>{{ said }}</p>").render({"said": "\ud800"})
    assert page.encode() == "<p>‹U+D800›</p>".encode()


def test_missing_context_variable_is_reported() -> None:
    site: Any = engines["django"]
    page = site.from_string('{% include "parts/none.html" %}')
    with pytest.raises(TemplateDoesNotExist, match=r"parts/none\.html") as missing:
        page.render()
    assert missing.value.backend is site
