"""Messages that another thread changes during a save."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, SyncWriteBehind
from checkpoints.exceptions import ConcurrentModification
from checkpoints.models import Checkpoint
from tests.integration.checkpoints.session_setups import start_session
from tests.support.exhaustive_mode import count_examples

#: The thread that changes the message uses the processor as long as the saves take.
SAVES = count_examples(20)


class Growing(dict[str, Any]):
    """Dictionary that gets another key at each read of its items, as if another thread changed it."""

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        for item in super().items():
            self[f"key {len(self)}"] = 1
            yield item


@pytest.mark.parametrize("place", ["message", "inside", "plan", "payload"])
def test_growing_value_is_refused_and_nothing_is_written(cp: SyncCheckpointer, place: str) -> None:
    growing = Growing(a=1, b=2)
    messages: dict[str, list[dict[str, Any]]] = {"message": [growing], "inside": [{"blocks": [growing]}]}
    plan, payload = (growing if place == name else None for name in ("plan", "payload"))

    with pytest.raises(ConcurrentModification) as refused:
        start_session(cp).save_checkpoint("s", messages.get(place, []), plan, 0, payload=payload)
    assert "another thread" in str(refused.value)
    assert Checkpoint.objects.count() == 0


def test_growing_appended_message_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(ConcurrentModification):
        start_session(cp).append_checkpoint("s", [Growing(a=1, b=2)], expected_version=0)
    with SyncWriteBehind(cp) as behind, pytest.raises(ConcurrentModification):
        behind.save_checkpoint("s", [Growing(a=1, b=2)], None, 0)
    assert Checkpoint.objects.count() == 0


class Late(dict[str, Any]):
    """Dictionary that changes before its items are read for the third time: for the check, the encoding, the copy."""

    read = 0

    def items(self) -> Any:
        self.read += 1
        if self.read == 3:
            self["text"] = "changed"
        return super().items()


def test_change_during_a_save_is_in_the_next_version(cp: SyncCheckpointer) -> None:
    message = Late(text="as it was")
    start_session(cp).save_checkpoint("s", [message], None, 0)
    cp.save_checkpoint("s", [message], None, 0)

    latest = cp.load_latest("s")
    assert latest is not None
    assert latest["transcript"] == [{"text": "changed"}]


def test_concurrent_changes_lead_to_a_version_or_a_typed_error(cp: SyncCheckpointer) -> None:
    start_session(cp)
    message: dict[str, Any] = {str(number): number for number in range(500)}
    done = threading.Event()

    def change() -> None:
        number = 0
        while not done.is_set():
            message[f"more {number % 300}"] = number
            message.pop(f"more {(number + 150) % 300}", None)
            number += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        refused = 0
        for _ in range(SAVES):
            try:
                cp.save_checkpoint("s", [message], None, 0)
            except ConcurrentModification:
                refused += 1
    finally:
        done.set()
        thread.join()

    assert Checkpoint.objects.count() == SAVES - refused
    final = dict(message)
    cp.save_checkpoint("s", [message], None, 0)
    latest = cp.load_latest("s")
    assert latest is not None
    assert latest["transcript"] == [final]
