"""Templates whose pages leave nothing behind, and hold no character that hides.

What a template writes is made visible once more as a whole, so that no value, attribute or error message that somebody
forgot reorders a page, and none keeps it from being sent.

The context of a page refers to itself in Django, so that everything a page was made of, thousands of objects where a
timeline is long, stays in memory until Python looks for such circles; that look then takes as long as a small page.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template import TemplateDoesNotExist
from django.template.backends import django
from django.template.backends.django import reraise
from django.template.context import make_context
from django.utils.safestring import SafeString, mark_safe

from harness_site.rendering.safe_text import visible_text


class Templates(django.DjangoTemplates):
    def get_template(self, template_name: str) -> Template:
        return Template(super().get_template(template_name).template, self)


class Template(django.Template):
    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        made = make_context(context, request, autoescape=self.backend.engine.autoescape)
        try:
            page = self.template.render(made)
        except TemplateDoesNotExist as missing:
            reraise(missing, self.backend)
        made.dicts.clear()
        return mark_safe(visible_text(page))  # noqa: S308 - a template's, without what hides in it
