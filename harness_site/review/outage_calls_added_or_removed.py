"""Calls that left a form about several calls, or were added to it, since its reader opened the page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from re import ASCII, fullmatch

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from checkpoints.enums import UNDECIDED_CALL_STATUSES, ActorKind
from checkpoints.models import Decision
from harness_site.accounts.models import Membership
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.review.selectors.outage_groups import PAGE


@dataclass(frozen=True, slots=True)
class OutageFormChanges:
    """Keys of the calls that left the form or were added to it, and sentences that say so.

    The page sends all but the sentences with the next request, so that these stay until the form is recorded.
    """

    left: tuple[int, ...]
    added: tuple[int, ...]
    sentences: tuple[str, ...]
    #: Whether an answer for all was chosen when all but one of the calls left.
    is_answer_for_all_dropped: bool = False


def parse_call_keys(query: QueryDict, name: str) -> list[int]:
    """Return the keys of calls that a form sends as `name`, each once; at most as many as a page has."""
    keys = ",".join(query.getlist(name)).split(",")
    return list(dict.fromkeys(int(key) for key in keys if fullmatch(r"\d{1,18}", key, ASCII)))[:PAGE]


def find_outage_form_changes(
    query: QueryDict, answerable: Sequence[int], reader: Membership, *, is_verification_shown: bool
) -> OutageFormChanges:
    """Compare the calls of the form that sent `query` with those that the reader can answer now.

    If the page shows what a verification has found, no sentence repeats it. Runs one query if calls have left the form.
    """
    shown, added_before = parse_call_keys(query, "pk"), parse_call_keys(query, "added")
    calls_that_left = find_calls_that_left_form(query, answerable, reader, is_verification_shown=is_verification_shown)
    left = calls_that_left.left
    added = [pk for pk in answerable if pk in added_before or (shown and pk not in shown)]
    sentences = [*calls_that_left.sentences, *_describe_added_calls(len(added))]
    had_answer_for_all = len(shown) > 1 and query.get("shared-answer", "") != ""
    is_dropped = bool(left) and len(answerable) == 1 and (had_answer_for_all or "dropped" in query)
    if is_dropped:
        sentences.append(_("One call is left. The answer for all was not carried over to it."))
    return OutageFormChanges(left, tuple(added), tuple(sentences), is_dropped)


def find_calls_that_left_form(
    query: QueryDict, answerable: Sequence[int], reader: Membership, *, is_verification_shown: bool = False
) -> OutageFormChanges:
    """Find the calls of the form that sent `query` that the reader cannot answer any more, and who decided them.

    Runs one query if calls have left the form.
    """
    shown, left_before = parse_call_keys(query, "pk"), parse_call_keys(query, "left")
    left = [pk for pk in dict.fromkeys([*left_before, *shown]) if pk not in answerable][:PAGE]
    sentences = _describe_calls_that_left(left, reader, is_verification_shown=is_verification_shown)
    return OutageFormChanges(tuple(left), (), tuple(sentences))


def _describe_calls_that_left(left: Sequence[int], reader: Membership, *, is_verification_shown: bool) -> list[str]:
    if not left:
        return []
    decisions = Decision.objects.filter(tool_call__in=left, tool_call__workspace=reader.workspace)
    decided = decisions.exclude(tool_call__status__in=sorted(UNDECIDED_CALL_STATUSES)).order_by(*Decision.IN_ORDER)
    deciders = {pk: (kind, name) for pk, kind, name in decided.values_list("tool_call_id", "actor_kind", "actor")}
    numbers = Counter(deciders.values())
    sentences = [
        _describe_verified_calls(number)
        if kind == ActorKind.HOOK
        else _describe_decided_calls(name, number, is_reader=name == reader.user.get_username())
        for (kind, name), number in numbers.most_common()
        if kind != ActorKind.HOOK or not is_verification_shown
    ]
    if others := len(left) - numbers.total():
        text = ngettext(
            "{number} call left this form meanwhile, because it cannot be answered here any more.",
            "{number} calls left this form meanwhile, because they cannot be answered here any more.",
            others,
        )
        sentences.append(text.format(number=others))
    return sentences


def _describe_verified_calls(number: int) -> str:
    text = ngettext(
        "A verification found what happened to {number} call meanwhile.",
        "A verification found what happened to {number} calls meanwhile.",
        number,
    )
    return text.format(number=number)


def _describe_decided_calls(name: str, number: int, *, is_reader: bool) -> str:
    if is_reader:
        text = ngettext("You decided {number} call meanwhile.", "You decided {number} calls meanwhile.", number)
        return text.format(number=number)
    text = ngettext("{name} decided {number} call meanwhile.", "{name} decided {number} calls meanwhile.", number)
    return text.format(name=mask_and_reveal_hidden(name), number=number)


def _describe_added_calls(number: int) -> list[str]:
    if not number:
        return []
    text = ngettext(
        "{number} call was added to this form meanwhile. The answer for all counts for it, too.",
        "{number} calls were added to this form meanwhile. The answer for all counts for them, too.",
        number,
    )
    return [text.format(number=number)]
