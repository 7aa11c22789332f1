"""Django's templates with no hidden character in what they write.

What a template writes is made visible once more as a whole, so that no value, attribute or error message that somebody
forgot reorders a page, and none keeps it from being sent. It happens here and not in a middleware: half a surrogate
pair cannot be put into a response at all, and e-mails and exports are rendered without one.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.backends import django
from django.utils.safestring import SafeString, mark_safe

from harness_site.rendering.safe_text import visible_text


class Template(django.Template):
    """A template of `Templates`."""

    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        return mark_safe(visible_text(super().render(context, request)))  # noqa: S308 - a template's output


class Templates(django.DjangoTemplates):
    """The template backend of the site: Django's own, whose output passes `visible_text`."""

    def get_template(self, template_name: str) -> Template:
        return Template(super().get_template(template_name).template, self)

    def from_string(self, template_code: str) -> Template:
        return Template(super().from_string(template_code).template, self)
