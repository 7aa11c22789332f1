"""Template filter of the log of deliveries."""

from collections.abc import Mapping

from django import template

from harness_site.core.translatable_stored_sentence import StoredSentence

register = template.Library()


@register.filter("translate_problem")
def translate_delivery_problem(problem: str, values: Mapping[str, str]) -> str:
    """Translate the stored problem of a delivery, with its values."""
    return str(StoredSentence(problem, values))
