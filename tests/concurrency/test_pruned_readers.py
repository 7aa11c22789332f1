"""Readers during repeated replacement and pruning of the conversation."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import VersionNotFound
from checkpoints.versions import load_version
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.exhaustive_mode import count_examples
from tests.support.processes import database_url, send_to_parent

ROUNDS = count_examples(30)
#: A transcript of several statements' work to read.
LETTERS = "abcdefghij" * 4


def transcript(version: int) -> list[dict[str, Any]]:
    """Return the content of version `version`, which shares nothing with another one."""
    return conversation([f"{version}-{letter}{place}" for place, letter in enumerate(LETTERS)])


def replace_and_prune(url: str) -> int:
    cp = SyncCheckpointer.open(url)
    start_session(cp)
    version = cp.save_checkpoint("s", transcript(1), None, 0)
    send_to_parent("saved")
    for _ in range(ROUNDS):
        version = cp.save_checkpoint("s", transcript(version + 1), None, 0)
        cp.prune("s", keep_last=1)
    cp.close()
    return version


def test_readers_see_complete_versions_while_old_ones_are_removed(
    start_child: StartChild, cp: SyncCheckpointer
) -> None:
    child = start_child(replace_and_prune, url=database_url())
    child.expect("saved")
    seen: list[int] = []
    while child.code is None:
        latest = cp.load_latest("s") or {}
        assert latest["transcript"] == transcript(latest["version"])
        seen.append(latest["version"])
        with suppress(VersionNotFound):
            assert cp.load("s", latest["version"])["transcript"] == latest["transcript"]
        tail = load_version.load_latest_version_with_last_messages(cp.store, "s", 3) or {}
        assert tail["transcript"] == transcript(tail["version"])[-3:]

    assert seen == sorted(seen)
    assert child.result() == ROUNDS + 1
