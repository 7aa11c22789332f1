"""Tags of the pages about people and the audit trail."""

import json
from typing import Any

from django import template

from checkpoints.queries.trail import Integrity

register = template.Library()


@register.filter
def as_json(value: Any) -> str:
    """For a data attribute that a script reads."""
    return json.dumps(value)


@register.filter
def anchor(chain: Integrity) -> str:
    """The end of the chain as `verify_audit --anchor` takes it."""
    return f"{chain.number}:{chain.seal}"


@register.filter
def browser(user_agent: str) -> str:
    """“Firefox on Linux”: as much as people need to know one of their own browsers again."""
    program = next((word for mark, word in _PROGRAMS if mark in user_agent), "Another program")
    system = next((word for mark, word in _SYSTEMS if mark in user_agent), "")
    return f"{program} on {system}" if system else program


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
