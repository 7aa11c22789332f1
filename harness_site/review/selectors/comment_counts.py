"""Numbers of the comments on calls, who wrote the last one, and who mentions the reader."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import BooleanField, ExpressionWrapper, Q

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
    mentions = Q(text__iregex=build_mention_pattern(reader_name)) & ~Q(author=reader_name)
    comments = Comment.objects.filter(call__in=call_pks).order_by("pk")
    rows = comments.annotate(mentions_reader=ExpressionWrapper(mentions, output_field=BooleanField()))
    counts: dict[int, CommentCount] = {}
    for call, author, mentions_reader in rows.values_list("call__pk", "author", "mentions_reader") if call_pks else ():
        before = counts.get(call, CommentCount(0, author))
        mentioned_by = author if reader_name and mentions_reader else before.mentioned_by
        counts[call] = CommentCount(before.number + 1, author, mentioned_by)
    return counts
