"""The lists whose filters can be kept, and the one way in which they are written down."""

from typing import Final

from django.http import QueryDict
from django.urls import reverse_lazy

#: Each list, and what of its address narrows or sorts it.
FILTERS: Final = {
    "sessions": (
        "q",
        "status",
        "agent",
        "label",
        "tool",
        "first",
        "last",
        "least",
        "most",
        "interrupted",
        "by",
        "sort",
    ),
    "review": ("tab", "tool", "agent", "risk", "age", "deadline", "claimed", "sort"),
}
#: Where each list is.
ADDRESSES: Final = {"sessions": reverse_lazy("sessions"), "review": reverse_lazy("review")}
#: Nobody types more into one filter.
_LONGEST: Final = 255


def normalised(page: str, asked: QueryDict) -> str:
    """The filters of an address: in one order, without those that are empty, without anything else."""
    kept = QueryDict(mutable=True)
    for name in FILTERS[page]:
        value = asked.get(name, "").replace("\0", "").strip()[:_LONGEST]
        if value:
            kept[name] = value
    return kept.urlencode()
