"""Errors of the library as objects that processes hand to each other."""

from __future__ import annotations

import copy
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Any

import pytest

from checkpoints.exceptions import (
    AlreadyDecided,
    BlockingCallInAsyncCode,
    CheckpointsError,
    InvalidIdentifier,
    RoleInsufficient,
    SessionNotFound,
    VersionConflict,
)

ERRORS = [
    AlreadyDecided("s", "call_1", "It happened", "ada", datetime(2026, 1, 2, tzinfo=UTC)),
    BlockingCallInAsyncCode(),
    InvalidIdentifier("session id", "", "it is empty"),
    RoleInsufficient("reader", ["agent"]),
    SessionNotFound("s"),
    VersionConflict("s", 3, 4),
]


def describe_error(error: CheckpointsError) -> tuple[Any, ...]:
    return type(error), str(error), error.detail, error.args, vars(error)


def raise_error(position: int) -> None:
    raise ERRORS[position]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copied_errors_say_the_same(error: CheckpointsError, duplicate: Any) -> None:
    assert describe_error(duplicate(error)) == describe_error(error)


def test_errors_of_a_worker_process_are_raised_in_the_process_that_waits() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        raised = [workers.submit(raise_error, position).exception() for position in range(len(ERRORS))]

    assert [describe_error(error) for error in raised if isinstance(error, CheckpointsError)] == [
        describe_error(error) for error in ERRORS
    ]
