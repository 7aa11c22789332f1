"""A plan and a budget that a save leaves out stay as the version before has them."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from checkpoints import UNCHANGED, Checkpointer, SyncCheckpointer, SyncWriteBehind, WriteBehind
from checkpoints.exceptions import CheckpointCorrupted, NotRepresentable
from checkpoints.models import Checkpoint
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session

PLAN = {"goal": "refund"}


def states() -> list[tuple[str | None, str]]:
    """Plan and budget of each version as they are stored."""
    return list(Checkpoint.objects.order_by("version").values_list("plan", "budget_spent_usd"))


def test_first_version_without_a_plan_and_a_budget_has_none(cp: SyncCheckpointer) -> None:
    assert start_session(cp).save_checkpoint("s", conversation("a")) == 1

    loaded = cp.load("s", 1)
    assert (loaded["plan"], loaded["budget_spent_usd"], loaded["transcript"]) == (None, 0, conversation("a"))


def test_what_is_left_out_stays(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), PLAN, Decimal("0.25"))
    cp.save_checkpoint("s", conversation("ab"))
    cp.save_checkpoint("s", conversation("abc"), budget_spent_usd=0.5)
    cp.save_checkpoint("s", conversation("abcd"), None)
    cp.save_checkpoint("s", conversation("xy"), UNCHANGED, 0.75)  # an edit, which takes the slow path

    plan = '{"goal":"refund"}'
    assert states() == [(plan, '"0.25"'), (plan, '"0.25"'), (plan, "0.5"), (None, "0.5"), (None, "0.75")]


def test_what_is_left_out_stays_over_a_resume(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", conversation("a"), PLAN, 0.25)
    second = open_checkpointer()
    second.start_session("s")
    second.save_checkpoint("s", conversation("ab"))

    assert (second.load("s", 2)["plan"], second.load("s", 2)["budget_spent_usd"]) == (PLAN, 0.25)


def test_usage_and_payload_belong_to_their_version_alone(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), usage={"total_tokens": 3}, payload={"step": 1})
    cp.save_checkpoint("s", conversation("ab"))

    assert (cp.load("s", 2)["usage"], cp.load("s", 2)["payload"]) == (None, None)


def test_plan_that_cannot_be_kept_is_refused_before_anything(cp: SyncCheckpointer) -> None:
    wrong: Any = [1]
    with pytest.raises(NotRepresentable):
        start_session(cp).save_checkpoint("s", conversation("a"), wrong)
    assert not Checkpoint.objects.exists()


def test_async_checkpointer_keeps_it_too(cp: SyncCheckpointer) -> None:
    async def save() -> None:
        async with Checkpointer() as other:
            await other.start_session("s")
            await other.save_checkpoint("s", conversation("a"), PLAN, 0.25)
            await other.save_checkpoint("s", conversation("ab"))

    asyncio.run(save())
    assert states() == [('{"goal":"refund"}', "0.25")] * 2


def test_what_is_written_behind_keeps_what_was_handed_in_last(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), {"goal": "saved"}, 0.125)
    with SyncWriteBehind(cp, coalesce=False) as writer:
        writer.save_checkpoint("s", conversation("ab"))
        writer.save_checkpoint("s", conversation("abc"), PLAN)
        writer.save_checkpoint("s", conversation("abcd"), budget_spent_usd=0.5)
        writer.save_checkpoint("s", conversation("abcde"))

    saved, refund = '{"goal":"saved"}', '{"goal":"refund"}'
    assert states() == [(saved, "0.125"), (saved, "0.125"), (refund, "0.125"), (refund, "0.5"), (refund, "0.5")]


def test_what_is_written_behind_by_async_code_keeps_it_too(cp: SyncCheckpointer) -> None:
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
