"""Template filters of the log of deliveries and of messages."""

from collections.abc import Mapping

from django import template

from harness_site.core import formatting
from harness_site.core.translatable_stored_sentence import StoredSentence

register = template.Library()
register.filter("date_and_time_with_zone", formatting.format_date_and_time_with_zone)


@register.filter("translate_problem")
def translate_delivery_problem(problem: str, values: Mapping[str, str]) -> str:
    """Translate the stored problem of a delivery, with its values."""
    return str(StoredSentence(problem, values))
