"""Django's tags for translations, with a `translate` that calls a tenth of the functions.

Django's own tag makes a lazy translation of the text and prepares it like a value of any type, which takes a tenth of
the time of a page with a hundred labels. This one takes a literal text, which may have a context or be stored in a
variable: `{% translate "Text" context "menu" as label %}`. The process keeps its translations, and finds the language
once for each template.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from django.template import Context, Library, Node, TemplateSyntaxError
from django.template.base import Parser, Token
from django.templatetags import i18n
from django.utils.safestring import SafeString
from django.utils.text import unescape_string_literal
from django.utils.translation import get_language, gettext, pgettext

#: Key of the translations in the render context of a template.
_TRANSLATIONS: Final = "harness_i18n.translations"
register = Library()
register.tags.update(i18n.register.tags)
register.filters.update(i18n.register.filters)


@register.tag("translate")
def parse_translate_tag(_parser: Parser, token: Token) -> TranslatedTextNode:
    _name, *words = token.split_contents()
    try:
        text, *options = words
        values = dict(zip(options[::2], options[1::2], strict=True))
        context, variable = values.pop("context", None), values.pop("as", None)
        if values:
            raise ValueError
        return TranslatedTextNode(
            unescape_string_literal(text), None if context is None else unescape_string_literal(context), variable
        )
    except ValueError as error:
        raise TemplateSyntaxError(
            f"“translate” needs a text in quotation marks, and may have a context and a variable: {token.contents}"
        ) from error


class TranslatedTextNode(Node):
    """Text of a template in the language of the page. It is safe HTML, as the rest of the template."""

    def __init__(self, text: str, message_context: str | None, variable: str | None) -> None:
        # The catalogues have such texts with the percent signs of a format.
        self.message = message_context, text.replace("%", "%%")
        self.variable = variable

    def render(self, context: Context) -> SafeString:
        translations = context.render_context.get(_TRANSLATIONS)
        if translations is None:
            translations = context.render_context[_TRANSLATIONS] = _get_translations_so_far(get_language())
        translated = translations.get(self.message)
        if translated is None:
            translated = translations[self.message] = _translate_to_current_language(*self.message)
        if self.variable is None:
            return translated
        context[self.variable] = translated
        return SafeString()


@cache
def _get_translations_so_far(_language: str | None) -> dict[tuple[str | None, str], SafeString]:
    """Return the dict of the translations to a language, by context and message, to which each text is added once."""
    return {}


def _translate_to_current_language(message_context: str | None, message: str) -> SafeString:
    text = gettext(message) if message_context is None else pgettext(message_context, message)
    return SafeString(text.replace("%%", "%"))
