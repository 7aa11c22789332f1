"""Delivery of the notices that are due to other agents, through a function of the program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from checkpoints.constants import BATCH_LIMIT
from checkpoints.peers.agent_call_and_result_types import Notice, Told
from checkpoints.sync_and_async_flow_runners import Flow, Invoke, Transact

#: Function that notifies another agent, sync or async. It raises an error if it could not.
SendNotice = Callable[[Notice], Awaitable[object] | object]


class NoticeOutbox(Protocol):
    """Notices that are due, in a database or behind a server."""

    def claim_notices(self, limit: int) -> tuple[list[Notice], dict[str, str]]:
        """Claim due notices. Returns them, and the error by call id of those that cannot be read."""

    def delete_or_postpone_notice(self, notice: Notice, *, delivered: bool) -> None:
        """Delete a notice that was delivered; let another one stay due."""


def deliver_due_notices_and_collect_errors_flow(
    outbox: NoticeOutbox, tell: SendNotice, *, limit: int = BATCH_LIMIT
) -> Flow[Told]:
    """Deliver the due notices through `tell`. Its errors are returned in the result, and the notice is retried
    later."""
    notices, errors = yield Transact(lambda: outbox.claim_notices(limit))
    delivered: list[str] = []
    for notice in notices:
        try:
            yield Invoke(partial(tell, notice))
        except Exception as error:
            errors[notice.call_id] = f"{type(error).__name__}: {error}"
            yield Transact(partial(outbox.delete_or_postpone_notice, notice, delivered=False))
        else:
            yield Transact(partial(outbox.delete_or_postpone_notice, notice, delivered=True))
            delivered.append(notice.call_id)
    return Told(tuple(delivered), errors)
