"""Lists whose filters can be saved, and the normalized form of their query string."""

from typing import Final

from django.http import QueryDict
from django.urls import reverse_lazy

#: Query parameters of each list that filter or sort it.
FILTERS: Final = {
    "sessions": (
        "q",
        "status",
        "agent",
        "label",
        "tool",
        "first",
        "last",
        "zone",
        "least",
        "most",
        "interrupted",
        "lost",
        "decided",
        "by",
        "project",
        "branch",
        "model",
        "models",
        "program",
        "sort",
    ),
    "review": (
        "tab",
        "q",
        "tool",
        "agent",
        "risk",
        "age",
        "deadline",
        "claimed",
        "first",
        "last",
        "zone",
        "by",
        "answer",
        "sort",
    ),
}
#: URL of each list.
ADDRESSES: Final = {
    "sessions": reverse_lazy("harness_sessions:sessions"),
    "review": reverse_lazy("harness_review:review"),
}
#: Maximum length of one filter value.
_MAX_FILTER_LENGTH: Final = 255


def normalize_filter_query(page: str, asked: QueryDict) -> str:
    """Normalize the filters of a query string: fixed order, without empty and unknown parameters."""
    filters = QueryDict(mutable=True)
    for name in FILTERS[page]:
        value = asked.get(name, "").replace("\0", "").strip()[:_MAX_FILTER_LENGTH]
        if value:
            filters[name] = value
    if "first" not in filters and "last" not in filters:
        filters.pop("zone", None)  # that of no day
    return filters.urlencode()
