"""Numbers of the comments on calls, and who wrote the last one."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness_site.review.models import Comment


@dataclass(frozen=True, slots=True)
class CommentCount:
    """Number of the comments on a call, and the author of the last one."""

    number: int
    last_author: str


def count_comments_of_calls(pks: Iterable[int]) -> dict[int, CommentCount]:
    """Count the comments on these calls, by primary key of the call; one query, none without calls."""
    call_pks = sorted(set(pks))
    rows = Comment.objects.filter(call__in=call_pks).order_by("pk").values_list("call__pk", "author")
    counts: dict[int, CommentCount] = {}
    for call, author in rows if call_pks else ():
        before = counts.get(call)
        counts[call] = CommentCount(before.number + 1 if before else 1, author)
    return counts
