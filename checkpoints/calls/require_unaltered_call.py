"""Verification of one logged call: its seal, the signatures of its decisions and its digests."""

from __future__ import annotations

from checkpoints.calls import verify_calls_against_decisions
from checkpoints.exceptions import IntegrityError
from checkpoints.formats import digests
from checkpoints.models import ToolCall
from checkpoints.seals import row_seals


def require_call_unaltered(call: ToolCall) -> None:
    """Require that a call is as this library wrote it, before people see it, or its result or approval is used.

    Raises `IntegrityError` if it does not match its seal, its digests, or what people have signed about it.
    """
    row_seals.verify_row(call)
    verify_calls_against_decisions.verify_call_against_decisions(call)
    require_matching_digests(call)


def require_matching_digests(call: ToolCall) -> None:
    """Raise `IntegrityError` if the arguments or the result of a call do not match their logged digests.

    Rows without a seal have these digests too.
    """
    why = describe_digest_mismatch(call.args, call.args_digest, call.result, call.result_digest, call.error_message)
    if why is not None:
        error = IntegrityError(row_seals.get_table_name(call), row_seals.describe_row(call), why)
        error.session_pk = call.session_id
        raise error


def describe_digest_mismatch(
    args: str, args_digest: str, result: str | None, result_digest: str, error_message: str
) -> str | None:
    """Say which of the texts of a call does not match its logged digest; None if all do.

    Calls of older databases and files have digests of their results alone.
    """
    if args_digest != digests.digest_text(args):
        return "its arguments do not match their digest"
    if result_digest in {digests.digest_outcome(result, error_message), digests.digest_outcome(result, "")}:
        return None
    if error_message:
        return "its result or the message of its error does not match their digest"
    return "its result does not match its digest"
