"""Heading of a column that a list can be sorted by: a link, which needs no script."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from harness_site.core.rendering.fast_format_html import build_html


@dataclass(frozen=True, slots=True)
class SortableHeading:
    """Heading of a column.

    `url` leads to the list in the order that `order` names. `direction` is the value of `aria-sort`; it is empty if the
    list is sorted by another column.
    """

    words: str
    url: str
    direction: str
    order: str
    css_class: str = ""


def render_sortable_heading(heading: SortableHeading) -> SafeString:
    return build_html(
        '<th scope="col"{}{}><a class="sort" href="{}" title="{}">{}</a></th>',
        build_html(' class="{}"', heading.css_class) if heading.css_class else "",
        build_html(' aria-sort="{}"', heading.direction) if heading.direction else "",
        heading.url,
        _("Sort by: %(order)s") % {"order": heading.order},
        heading.words,
    )
