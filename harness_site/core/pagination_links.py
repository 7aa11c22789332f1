"""Links from one page of a long list to the next one, to the one before it and to the first one.

The cursor of a page names the last row of the page before. The address of a page has the cursors of all pages up to it,
so that no list has to be read in the other direction.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

#: Largest number of cursors in an address, so that it stays shorter than what proxies accept.
LONGEST_TRAIL: Final = 60
#: Stands for the cursors that an address has no room for.
_LEFT_OUT: Final = "more"


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Addresses of other pages, empty where there is none; `number` of the page, None where it is not known."""

    first: str
    previous: str
    following: str
    number: int | None

    def __bool__(self) -> bool:
        """Return whether there is another page."""
        return bool(self.first or self.following)


def build_first_previous_and_next_links(
    request: HttpRequest, cursor_name: str, following: object, *, without: Collection[str] = ()
) -> PageLinks:
    """Build the links of the page whose cursor is the last value of the parameter `cursor_name`.

    Args:
        request: Request of the page. Other parameters without a value are left out of the addresses.
        cursor_name: Name of the parameter.
        following: Cursor of the next page; None or empty if there is none.
        without: Names of parameters that belong to this page alone.
    """
    trail = [cursor for cursor in request.GET.getlist(cursor_name) if cursor]

    def build_url(cursors: list[str]) -> str:
        return _build_page_url(request, cursor_name, cursors, without)

    return PageLinks(
        first=build_url([]) if trail else "",
        previous=build_url(trail[:-1]) if trail else "",
        following=build_url([*trail, str(following)]) if following else "",
        number=None if _LEFT_OUT in trail else len(trail) + 1,
    )


def _build_page_url(request: HttpRequest, cursor_name: str, trail: list[str], without: Collection[str]) -> str:
    query = request.GET.copy()
    if len(trail) > LONGEST_TRAIL:
        trail = [_LEFT_OUT, *trail[1 - LONGEST_TRAIL :]]
    query.setlist(cursor_name, [] if trail == [_LEFT_OUT] else trail)
    for name in [name for name, value in query.items() if not value or name in without]:
        del query[name]
    return f"{request.path}?{query.urlencode()}" if query else request.path
