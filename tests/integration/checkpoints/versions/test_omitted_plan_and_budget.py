"""A plan and a budget that a save omits are kept from the previous version."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from checkpoints import UNCHANGED, Checkpointer, SyncCheckpointer, SyncWriteBehind, WriteBehind
from checkpoints.enums import CostBasis
from checkpoints.exceptions import CheckpointCorrupted, NotRepresentable
from checkpoints.loop_state import RuntimeSnapshot, StepStarted
from checkpoints.models import Checkpoint, Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session

PLAN = {"goal": "refund"}


def states() -> list[tuple[str | None, str]]:
    """Return the stored plan and budget of each version."""
    return list(Checkpoint.objects.order_by("version").values_list("plan", "budget_spent_usd"))


def test_first_version_without_a_plan_and_a_budget_has_none(cp: SyncCheckpointer) -> None:
    assert start_session(cp).save_checkpoint("s", conversation("a")) == 1

    loaded = cp.load("s", 1)
    assert (loaded["plan"], loaded["budget_spent_usd"], loaded["transcript"]) == (None, 0, conversation("a"))


def test_omitted_values_are_kept(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), PLAN, Decimal("0.25"))
    cp.save_checkpoint("s", conversation("ab"))
    cp.save_checkpoint("s", conversation("abc"), budget_spent_usd=0.5)
    cp.save_checkpoint("s", conversation("abcd"), None)
    cp.save_checkpoint("s", conversation("xy"), UNCHANGED, 0.75)  # an edit, which takes the slow path

    plan = '{"goal":"refund"}'
    assert states() == [(plan, '"0.25"'), (plan, '"0.25"'), (plan, "0.5"), (None, "0.5"), (None, "0.75")]


def test_a_cost_that_nobody_states_is_unknown(cp: SyncCheckpointer) -> None:
    """Pages show it as unknown, and a stated 0 as 0."""
    start_session(cp).save_checkpoint("s", conversation("a"))
    cp.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=1), transcript=conversation("ab"))
    assert Session.objects.get().cost_basis == CostBasis.UNKNOWN
    start_session(cp, "free").save_checkpoint("free", conversation("a"), budget_spent_usd=0)
    assert Session.objects.get(session_id="free").cost_basis == CostBasis.STATED
    cp.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=2, total_cost_usd=0.5))
    cp.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=3))
    session = Session.objects.get(session_id="s")
    assert (session.cost_basis, session.budget_spent_usd) == (CostBasis.STATED, Decimal("0.5"))


def test_a_snapshot_of_an_unknown_cost_is_loaded_without_one(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        snapshot = RuntimeSnapshot(step=1, usage={"total_tokens": 3})
        start_session(first).save_phase("s", StepStarted(), snapshot=snapshot, transcript=conversation("a"))
    assert open_checkpointer().resume("s").snapshot == snapshot


def test_omitted_values_are_kept_after_a_resume(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", conversation("a"), PLAN, 0.25)
    second = open_checkpointer()
    second.start_session("s")
    second.save_checkpoint("s", conversation("ab"))

    assert (second.load("s", 2)["plan"], second.load("s", 2)["budget_spent_usd"]) == (PLAN, 0.25)


def test_usage_and_payload_are_not_kept(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), usage={"total_tokens": 3}, payload={"step": 1})
    cp.save_checkpoint("s", conversation("ab"))

    assert (cp.load("s", 2)["usage"], cp.load("s", 2)["payload"]) == (None, None)


def test_invalid_plan_is_refused_and_nothing_is_written(cp: SyncCheckpointer) -> None:
    wrong: Any = [1]
    with pytest.raises(NotRepresentable):
        start_session(cp).save_checkpoint("s", conversation("a"), wrong)
    assert not Checkpoint.objects.exists()


def test_async_checkpointer_keeps_omitted_values(cp: SyncCheckpointer) -> None:
    async def save() -> None:
        async with Checkpointer() as other:
            await other.start_session("s")
            await other.save_checkpoint("s", conversation("a"), PLAN, 0.25)
            await other.save_checkpoint("s", conversation("ab"))

    asyncio.run(save())
    assert states() == [('{"goal":"refund"}', "0.25")] * 2


def test_write_behind_keeps_the_last_queued_values(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), {"goal": "saved"}, 0.125)
    with SyncWriteBehind(cp, coalesce=False) as writer:
        writer.save_checkpoint("s", conversation("ab"))
        writer.save_checkpoint("s", conversation("abc"), PLAN)
        writer.save_checkpoint("s", conversation("abcd"), budget_spent_usd=0.5)
        writer.save_checkpoint("s", conversation("abcde"))

    saved, refund = '{"goal":"saved"}', '{"goal":"refund"}'
    assert states() == [(saved, "0.125"), (saved, "0.125"), (refund, "0.125"), (refund, "0.5"), (refund, "0.5")]


def test_async_write_behind_keeps_the_last_queued_values(cp: SyncCheckpointer) -> None:
    async def save() -> None:
        async with Checkpointer() as other:
            await other.start_session("s")
            async with WriteBehind(other, coalesce=False) as writer:
                await writer.save_checkpoint("s", conversation("a"), PLAN, 0.25)
                await writer.save_checkpoint("s", conversation("ab"))

    asyncio.run(save())
    assert states() == [('{"goal":"refund"}', "0.25")] * 2


@pytest.mark.parametrize("column", ["plan", "usage"])
@pytest.mark.parametrize("value", ["null", "[]", '"x"', "{"])
def test_damaged_state_is_not_kept(open_checkpointer: Open, column: str, value: str) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", conversation("a"), PLAN, 0.25, usage={"total_tokens": 3})
    Checkpoint.objects.update(**{column: value})
    second = open_checkpointer()
    second.start_session("s")

    with pytest.raises(CheckpointCorrupted, match=f"the {column} of version 1 is damaged"):
        second.save_checkpoint("s", conversation("ab"))
    with pytest.raises(CheckpointCorrupted, match=f"the {column} of version 1 is damaged"):
        second.append_checkpoint("s", conversation("b"), expected_version=1)
    assert Checkpoint.objects.count() == 1
