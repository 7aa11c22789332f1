"""Search of the waiting calls by the text that the reader can see of them.

Few calls wait, so they are read and compared one by one, up to a limit. What is masked for the reader is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.db.models import Case, F, QuerySet, TextField, Value, When

from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.models import Workspace
from harness_site.accounts.session_secrets_from_call_arguments import StoredSize, load_known_secrets_of_sessions
from harness_site.core import call_sentences, formatting
from harness_site.core.masking.masker import (
    MASK,
    mask_json_value,
    mask_values_of_secret_fields_in_context,
    use_masking_rules,
    use_masking_rules_with_extra_values,
)
from harness_site.core.rendering.mask_and_shorten_text import mask_and_reveal_hidden
from harness_site.review.selectors.pending_calls import select_undecided_calls

#: Number of calls of each status that are searched, those that wait longest, and number of those that can be found.
SEARCHED_CALLS: Final = 300
MOST_FOUND: Final = 100
#: Maximum size in bytes of arguments that are searched; of a call with larger ones, the sentence and the names are.
_MAX_ARGUMENT_BYTES: Final = 20_000


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """Keys of the calls that were found; `is_complete` says whether all waiting calls were searched."""

    pks: frozenset[int] = frozenset()
    is_complete: bool = True


def find_waiting_calls_with_words(workspace: Workspace, text: str) -> FoundCalls:
    """Find the waiting calls in whose visible text each of the words of `text` occurs; four queries.

    The text is the sentence, the arguments, the names of the tool and the agent, and the ids of the call and of its
    session. Case is ignored.
    """
    words, is_complete, candidates = text.casefold().split(), True, []
    for status in sorted(UNDECIDED_CALL_STATUSES):
        calls = list(_select_searched_columns(status).filter(workspace=workspace)[: SEARCHED_CALLS + 1])
        is_complete = is_complete and len(calls) <= SEARCHED_CALLS
        with use_masking_rules(None):  # masking takes time and only removes text, so that these are all and more
            candidates += [call for call in calls[:SEARCHED_CALLS] if _has_all_words(call, words, ())]
    compared = candidates[:MOST_FOUND]
    secrets = load_known_secrets_of_sessions({call.session_id for call in compared})
    found = frozenset(
        call.pk for call in compared if _has_all_words(call, words, secrets.get(call.session_id, frozenset()))
    )
    # Without a call to show, the number of candidates would say how many have these words in a masked text.
    return FoundCalls(found, is_complete and (len(candidates) <= MOST_FOUND or not found))


@cache
def _select_searched_columns(status: CallStatus) -> QuerySet[Any, Any]:
    is_small = When(size__lte=_MAX_ARGUMENT_BYTES, then=F("args"))
    calls = select_undecided_calls(status).alias(size=StoredSize("args"))
    calls = calls.annotate(searched_args=Case(is_small, default=Value(""), output_field=TextField()))
    # The index of undecided calls has this order.
    columns: QuerySet[Any, Any] = calls.order_by("interrupted_at", "pk").values_list(
        *("pk", "session_id", "tool", "call_id", "sentence", "searched_args", "session__session_id", "session__agent"),
        named=True,
    )
    return columns


def _has_all_words(call: Any, words: Sequence[str], secrets: Collection[str]) -> bool:
    text = "\n".join(_iterate_visible_texts(call, secrets)).replace(MASK, "\n").casefold()
    return all(word in text for word in words)


def _iterate_visible_texts(call: Any, secrets: Collection[str]) -> Iterator[str]:
    """Yield what the reader can see of a call, in which these secrets of its session are masked too."""
    args = formatting.parse_json_or_text(call.searched_args)
    with use_masking_rules_with_extra_values(secrets), mask_values_of_secret_fields_in_context(args):
        names = (call.tool, call.call_id, call.session__session_id, call.session__agent)
        visible_names = [mask_and_reveal_hidden(name) for name in names]
        sentence = call_sentences.build_masked_call_sentence(call.tool, call.sentence, args)
        visible_args = list(_iterate_texts(mask_json_value(args)))
    yield from (*visible_names, sentence, *visible_args)


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield the names of fields and the values in a JSON value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _iterate_texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _iterate_texts(inner)
    else:
        yield str(value)
