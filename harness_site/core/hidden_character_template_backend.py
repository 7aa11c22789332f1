"""Django templates whose output contains no hidden characters.

Hidden characters are named once more in the complete output, so that no forgotten value, attribute or error message
reorders a page or prevents its encoding. Not in a middleware, as a response cannot hold unpaired surrogates, and
e-mails and exports are rendered without one.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.backends import django
from django.utils.safestring import SafeString, mark_safe

from harness_site.core.hidden_characters import replace_hidden_characters_by_names


class Template(django.Template):
    """A template of `Templates`."""

    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        return mark_safe(replace_hidden_characters_by_names(super().render(context, request)))  # noqa: S308 - a template's output


class Templates(django.DjangoTemplates):
    """The site's template backend: that of Django, with hidden characters in its output replaced by their names."""

    def get_template(self, template_name: str) -> Template:
        return Template(super().get_template(template_name).template, self)

    def from_string(self, template_code: str) -> Template:
        return Template(super().from_string(template_code).template, self)
