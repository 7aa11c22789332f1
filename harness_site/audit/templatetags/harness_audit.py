"""Template tags of the audit trail: sentences of its entries, and the end of the chain."""

from django import template

from harness_site.audit import event_sentences
from harness_site.audit.audit_trail_query import ChainIntegrity

register = template.Library()
register.simple_tag(event_sentences.build_sentence_of_folded_entries)


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
