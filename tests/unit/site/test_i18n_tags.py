"""The site's `translate` tag, which stands for Django's."""

import pytest
from django.template import Context, Engine, TemplateSyntaxError
from django.utils.translation import override

ENGINE = Engine(
    libraries={
        "i18n": "django.templatetags.i18n",
        "harness_i18n": "harness_site.templatetags.harness_i18n",
    }
)


def render(library: str, source: str, language: str) -> str:
    with override(language):
        return ENGINE.from_string(f"{{% load {library} %}}{source}").render(Context({"name": "<b>"}))


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(
    "source",
    [
        '{% translate "Overview" %}',
        "{% translate 'Overview' %}",
        '{% translate "Failed" context "share" %}',
        '{% translate "up to 95 %" %}',
        '{% translate "“A” & <b>\\"B\\"</b> of no catalogue" %}',
        '{% translate "" %}',
        '{% translate "Overview" as label %}[{{ label }}]',
        '{% translate "Failed" context "share" as label %}[{{ label }}]',
        '{% translate "Fish & chips" as label %}[{{ label }}]',
        "{% blocktranslate %}Hello {{ name }}{% endblocktranslate %}{% get_current_language as now %}{{ now }}",
    ],
)
def test_translate_renders_as_djangos_tag_does(source: str, language: str) -> None:
    expected = render("i18n", source, language)
    assert render("harness_i18n", source, language) == expected
    assert render("harness_i18n", source, language) == expected  # again, with the translations that are kept


def test_translate_follows_the_language_of_each_rendering() -> None:
    template = ENGINE.from_string('{% load harness_i18n %}{% translate "Overview" %}')
    texts = []
    for language in ("en", "de", "en"):
        with override(language):
            texts.append(template.render(Context()))
    assert texts == ["Overview", "Übersicht", "Overview"]


@pytest.mark.parametrize(
    "arguments", ["", "name", '"Text" noop', '"Text" as', '"Text" with "x"', '"Text" context name']
)
def test_translate_refuses_what_is_no_literal_text(arguments: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="text in quotation marks"):
        ENGINE.from_string(f"{{% load harness_i18n %}}{{% translate {arguments} %}}")
