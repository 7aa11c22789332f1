"""Template tags of the audit trail: sentences of its entries, and the end of the chain."""

from django import template

from harness_site.audit import event_sentences
from harness_site.audit.audit_trail_query import ChainIntegrity

register = template.Library()
register.simple_tag(event_sentences.build_entry_sentence)
register.simple_tag(event_sentences.build_row_sentence)


@register.filter
def format_chain_anchor(chain: ChainIntegrity) -> str:
    """Format the end of the chain as the argument of `verify_audit --anchor`."""
    return f"{chain.number}:{chain.seal}"
