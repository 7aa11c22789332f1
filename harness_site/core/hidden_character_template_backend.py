"""Django templates whose output contains no hidden characters.

Hidden characters are named once more in the complete output, so that no forgotten value, attribute or error message
reorders a page or prevents its encoding. Not in a middleware, as a response cannot hold unpaired surrogates, and
e-mails and exports are rendered without one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from django.http import HttpRequest
from django.template.backends import django
from django.utils.safestring import SafeString, mark_safe

from harness_site import base_settings
from harness_site.core.hidden_characters import replace_hidden_characters_by_names
from harness_site.core.management_command_as_typed import is_standalone_site

_PACKAGE: Final = Path(__file__).resolve().parents[1]


class Template(django.Template):
    """A template of `Templates`."""

    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        return mark_safe(replace_hidden_characters_by_names(super().render(context, request)))  # noqa: S308 - a template's output


class Templates(django.DjangoTemplates):
    """The site's template backend: that of Django, with hidden characters in its output replaced by their names.

    In a project that includes the site, the project's own templates are rendered as Django does.
    """

    def get_template(self, template_name: str) -> django.Template:
        template = super().get_template(template_name)
        if is_standalone_site() or _is_template_of_site(str(template.origin.name)):
            return Template(template.template, self)
        return template

    def from_string(self, template_code: str) -> django.Template:
        template = super().from_string(template_code)
        return Template(template.template, self) if is_standalone_site() else template


def _is_template_of_site(path: str) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in (*base_settings.HARNESS_TEMPLATE_DIRS, _PACKAGE))
