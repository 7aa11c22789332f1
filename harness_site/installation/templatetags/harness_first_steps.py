"""Template tag that tells whether one of the first steps of the installation is left."""

from django import template
from django.template import Context

from harness_site.accounts.models import Membership
from harness_site.installation import first_steps

register = template.Library()


@register.simple_tag(takes_context=True)
def has_open_steps(context: Context, member: Membership) -> bool:
    """Return whether one of the first steps is left."""
    return first_steps.has_open_steps(context["request"], member)
