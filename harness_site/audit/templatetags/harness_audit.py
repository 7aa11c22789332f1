"""Template tags of the audit trail: sentences of its entries, reasons of decisions, and the end of the chain."""

from collections.abc import Mapping

from django import template

from harness_site.audit import event_sentences
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.audit_verification_status import ChainIntegrity
from harness_site.audit.calls_of_audit_entries import AuditedCall
from harness_site.audit.decision_consequences import describe_consequence_of_decision

register = template.Library()
register.simple_tag(event_sentences.build_sentence_of_folded_entries)


@register.simple_tag
def get_stated_reason(calls: Mapping[int, AuditedCall], entry: AuditEntry) -> str:
    """Return the reason of the decision that an entry records, masked; empty if it is not known."""
    call = calls.get(entry.pk)
    return "" if call is None or call.own is None else call.own.text


@register.simple_tag
def describe_decision_consequence(calls: Mapping[int, AuditedCall], entry: AuditEntry) -> str:
    """Describe what the decision of an entry means for its call; empty for other entries."""
    return describe_consequence_of_decision(entry, calls.get(entry.pk))


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
