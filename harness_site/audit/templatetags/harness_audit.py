"""Template tags of the audit trail: sentences of its entries, and the end of the chain."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.translation import gettext

from checkpoints.db import clock
from harness_site.audit import event_sentences
from harness_site.audit.audit_trail_query import ChainIntegrity
from harness_site.core import formatting

register = template.Library()
register.simple_tag(event_sentences.build_row_sentence)


@register.simple_tag
def is_entry_verified(integrity: ChainIntegrity, number: int | None) -> bool:
    """Return whether the last verification found the entry with this number, and all before it, as recorded."""
    if number is None or integrity.verified_at is None or integrity.flaw or integrity.problem:
        return False
    return number <= integrity.verified_number


@register.filter
def format_chain_anchor(chain: ChainIntegrity) -> str:
    """Format the end of the chain as the argument of `verify_audit --anchor`."""
    return f"{chain.number}:{chain.seal}"


@register.filter
def format_day_heading(moment: datetime) -> str:
    """Format the day of a moment in the reader's time zone: Today, or Tue 10 Nov 2026."""
    zone = timezone.get_current_timezone()
    day, today = (formatting.convert_to_zone(each, zone).date() for each in (moment, clock.now()))
    return gettext("Today") if day == today else formatting.format_date_with_year(day)
