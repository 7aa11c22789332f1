"""Verification of one logged call: its seal, the signatures of its decisions and its digests."""

from __future__ import annotations

from checkpoints.calls import signed_decisions
from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats import digests
from checkpoints.models import ToolCall
from checkpoints.seals import row_seals


def require_call_unaltered(call: ToolCall) -> None:
    """Require that a call is as this library wrote it, before people see it, or its result or approval is used.

    Raises `IntegrityError` if it does not match its seal or what people have signed about it, and
    `CheckpointCorrupted` if its arguments or its result do not match their logged digests.
    """
    row_seals.verify_row(call)
    signed_decisions.verify_decisions_of_call(call)
    require_matching_digests(call)


def require_matching_digests(call: ToolCall) -> None:
    """Raise `CheckpointCorrupted` if the arguments or the result of a call do not match their logged digests."""
    columns = (("arguments", call.args, call.args_digest), ("result", call.result, call.result_digest))
    for label, text, digest in columns:
        if text is not None and digest != digests.digest_text(text):
            raise CheckpointCorrupted(
                call.session.session_id, f"the {label} of call {call.call_id!r}", "its digest does not match"
            )
