"""Template filters for accounts and the audit trail."""

import json
from typing import Any

from django import template
from django.utils.translation import gettext as _

from harness_site.audit import event_sentences
from harness_site.audit.audit_entries import ChainIntegrity

register = template.Library()
register.simple_tag(event_sentences.build_entry_sentence)
register.simple_tag(event_sentences.build_group_sentence)


@register.filter
def as_json(value: Any) -> str:
    """Dump a value as JSON for a data attribute that a script reads."""
    return json.dumps(value)


@register.filter
def format_chain_anchor(chain: ChainIntegrity) -> str:
    """Format the end of the chain as the argument of `verify_audit --anchor`."""
    return f"{chain.number}:{chain.seal}"


@register.filter
def format_browser_name(user_agent: str) -> str:
    """Format a user agent as “Firefox on Linux”, enough to recognize one's own browser."""
    program = next((label for token, label in _PROGRAMS if token in user_agent), _("Another program"))
    system = next((label for token, label in _SYSTEMS if token in user_agent), "")
    return _("%(program)s on %(system)s") % {"program": program, "system": system} if system else program


# The order matters: most browsers also claim to be others.
_PROGRAMS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
