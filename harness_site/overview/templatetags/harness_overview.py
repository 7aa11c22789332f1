"""Template filters of the overview."""

from django import template

register = template.Library()


@register.filter
def format_share(part: float) -> str:
    """Format a share as 0 %, 0.4 % or 12 %; a non-zero share is at least 0.1 %."""
    percent = part * 100
    if percent == 0:
        return "0 %"
    return f"{percent:.0f} %" if percent >= 9.5 else f"{max(percent, 0.1):.1f} %"
