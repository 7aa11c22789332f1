"""Labels and style classes of the roles of messages, by the names that different model providers give them."""

from typing import Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

_ROLES: Final = {
    "user": ("user", _("User")),
    "human": ("user", _("User")),
    "assistant": ("agent", _("Agent")),
    "model": ("agent", _("Agent")),
    "ai": ("agent", _("Agent")),
    "system": ("system", _("System")),
    "developer": ("system", _("Developer")),
    "tool": ("tool", _("Tool")),
    "function": ("tool", _("Tool")),
}


def format_role_name(role: str) -> str:
    """Return the label of a message role; an unknown role is returned as it is, so that callers have to mask it."""
    return str(_ROLES.get(role.lower(), ("other", role or gettext("Message")))[1])


def get_role_css_kind(role: str) -> str:
    """Return the style class of a role, one of a closed set."""
    return _ROLES.get(role.lower(), ("other", ""))[0]
