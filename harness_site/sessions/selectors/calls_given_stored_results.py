"""Which calls of a transcript got the stored result of an earlier call, as the log of calls says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db.models import Q

from checkpoints.enums import CallStatus
from checkpoints.formats.digests import digest_text
from checkpoints.formats.parse_message_parts import CallPart
from checkpoints.models import ToolCall
from harness_site.sessions.selectors.conversation_window import canonicalize_arguments_or_empty


def load_condition_of_calls_given_stored_results(
    session_pk: int, calls: Iterable[CallPart]
) -> Callable[[CallPart], bool]:
    """Load whether calls got the stored result of an earlier call that did not fail.

    Some frameworks refuse such a call to give the model the result, so that it looks like an error there, although
    nothing failed. One query, and none without calls.
    """
    digests = {_digest_arguments(call) for call in calls}
    if not digests:
        return lambda _call: False
    rows = ToolCall.objects.filter(
        Q(args_digest__in=digests) | Q(asked_args_digest__in=digests), session=session_pk, replay_count__gt=0
    ).exclude(status=CallStatus.FAILED)
    stored = [
        (call_id, tool, {digest, asked_digest})
        for call_id, tool, digest, asked_digest in rows.values_list(
            "call_id", "tool", "args_digest", "asked_args_digest"
        )
    ]

    def is_given_stored_result(call: CallPart) -> bool:
        digest = _digest_arguments(call)
        return any(tool == call.name and digest in known and call_id != call.call_id for call_id, tool, known in stored)

    return is_given_stored_result


def _digest_arguments(call: CallPart) -> str:
    return digest_text(canonicalize_arguments_or_empty(call.args))
