"""Form fields of what limits the calls that a person or a webhook is told of."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import MaxLengthValidator
from django.utils.translation import gettext_lazy as _

from harness_site.notifications.models import CallFilter, normalize_tool_patterns


class ToolPatternsField(forms.CharField):
    """Patterns of tool names, separated by commas; empty for all tools."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.validators.append(MaxLengthValidator(CallFilter._meta.get_field("tool_patterns").max_length))
        self.widget.attrs |= {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "none"}
        # A script offers the names of the list after each comma.
        self.widget.attrs |= {"list": "known-tools", "data-several-names": True}

    def to_python(self, value: Any) -> str:
        return normalize_tool_patterns(super().to_python(value) or "")


class OnlyHighRiskField(forms.ChoiceField):
    """Choice between calls of any risk and those of a high one."""

    def __init__(self, **kwargs: Any) -> None:
        choices = [("", _("All calls")), ("True", _("Only calls with a high risk"))]
        super().__init__(choices=choices, required=False, **kwargs)

    def clean(self, value: Any) -> bool:
        return bool(super().clean(value))

    def prepare_value(self, value: Any) -> Any:
        return str(value or "")
