"""Numbers of the comments on calls, who wrote the last one, and who mentions the reader."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import QuerySet

from harness_site.review.models import Comment
from harness_site.review.selectors.mentions_in_comments import build_mention_pattern


@dataclass(frozen=True, slots=True)
class CommentCount:
    """Number of the comments on a call, the author of the last one, and that of the last one that mentions the reader,
    empty without one."""

    number: int
    last_author: str
    mentioned_by: str = ""


def count_comments_and_find_mentions_of_calls(pks: Iterable[int], reader_name: str = "") -> dict[int, CommentCount]:
    """Count the comments on these calls, by primary key of the call; one query, none without calls.

    With the name of the reader, the comments of other people that mention them are found, too.
    """
    call_pks = sorted(set(pks))
    pattern = build_mention_pattern(reader_name)
    counts: dict[int, CommentCount] = {}
    for call, author, text in _select_comments().filter(call__pk__in=call_pks) if call_pks else ():
        before = counts.get(call, CommentCount(0, author))
        is_mention = reader_name and author != reader_name and "@" in text and re.search(pattern, text, re.IGNORECASE)
        counts[call] = CommentCount(before.number + 1, author, author if is_mention else before.mentioned_by)
    return counts


@cache
def _select_comments() -> QuerySet[Comment, Any]:
    return Comment.objects.order_by("pk").values_list("call", "author", "text")
