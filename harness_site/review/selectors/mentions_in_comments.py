"""Mentions of people in the comments on calls: `@name`."""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cache
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from harness_site.accounts.models import Membership
from harness_site.notifications.models import Event
from harness_site.notifications.recipients import find_email_recipient, query_members_with_addresses
from harness_site.review.models import Comment
from harness_site.send_email import is_mail_configured

#: Mention of anybody, without the dots at the end of a sentence.
MENTION: Final = re.compile(r"((?<![\w@.+-])@[\w@.+-]*\w)")


@dataclass(frozen=True, slots=True)
class MentionableMember:
    """Member whom a comment can mention, and whether they get an e-mail about it."""

    name: str
    gets_email: bool


def build_mention_pattern(name: str) -> str:
    """Build the regular expression that finds a mention of this person, in Python and in the databases.

    A name may contain letters, digits and `@.+-_`, so that `@ben` is no mention of `benedict` or of `ben.k`; the dot at
    the end of a sentence does not belong to it.
    """
    return rf"(^|[^\w@.+-])@{re.escape(name)}($|[^\w@.+-]|[.]($|\W))"


def query_comments_that_mention(name: str) -> QuerySet[Comment]:
    """Select the comments of other people in which this person is mentioned; case is ignored, as in names."""
    return Comment.objects.filter(text__iregex=build_mention_pattern(name)).exclude(author=name)


def find_mentioned_members(text: str, *, author: Membership) -> list[Membership]:
    """Return the other active members of the author's workspace whom a text mentions; no query without an `@`."""
    if "@" not in text:
        return []
    return [
        other
        for other in load_other_active_members(author)
        if re.search(build_mention_pattern(other.user.get_username()), text, re.IGNORECASE)
    ]


def load_other_active_members(member: Membership) -> list[Membership]:
    """Load the other active members of a member's workspace; one query, two with a mail server."""
    if is_mail_configured():
        others = query_members_with_addresses(member.workspace_id)
    else:
        others = _select_members_with_users().filter(workspace=member.workspace_id)
    active = [other for other in others if other.user.is_active and other.pk != member.pk]
    for other in active:
        other.workspace = member.workspace
    return active


@cache
def _select_members_with_users() -> QuerySet[Membership]:
    return Membership.objects.select_related("user").order_by("pk")


def list_mentionable_members(others: Iterable[Membership]) -> list[MentionableMember]:
    """List these members, by name, with whether an e-mail tells them that a comment mentions them."""
    members = [
        MentionableMember(other.user.get_username(), find_email_recipient(other, Event.MENTIONED) is not None)
        for other in others
    ]
    return sorted(members, key=lambda member: member.name)


def list_unknown_mentions(text: str, names: Set[str]) -> list[str]:
    """List the mentions in a text, as `@name`, that are of nobody with these names; case is ignored."""
    known = {name.casefold() for name in names}
    return list(dict.fromkeys(each for each in MENTION.findall(text) if each[1:].casefold() not in known))


def build_mentioned_call_condition(name: str) -> Q:
    """Build the condition on calls that a comment on them mentions this person; few comments are on calls that wait."""
    return Q(Exists(query_comments_that_mention(name).filter(call=OuterRef("pk"))))
