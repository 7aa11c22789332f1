"""Tags of the overview."""

from django import template

register = template.Library()


@register.filter
def share(part: float) -> str:
    """0 %, 0.4 %, 12 %: what is not nothing is not shown as nothing."""
    percent = part * 100
    if percent == 0:
        return "0 %"
    return f"{percent:.0f} %" if percent >= 9.5 else f"{max(percent, 0.1):.1f} %"
