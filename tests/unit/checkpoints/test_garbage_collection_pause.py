"""Pause of the garbage collector: it ends, whoever began it and however the block ends."""

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from checkpoints.adapters.garbage_collection_pause import pause_garbage_collection


@pytest.fixture(autouse=True)
def enabled_again() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_a_pause_ends_with_its_block_also_after_an_error() -> None:
    def fail_in_pause() -> None:
        with pause_garbage_collection():
            raise KeyError(gc.isenabled())

    with pytest.raises(KeyError, match="False"):
        fail_in_pause()
    assert gc.isenabled()


def test_a_collector_that_the_program_has_disabled_stays_disabled() -> None:
    gc.disable()
    with pause_garbage_collection():
        pass
    assert not gc.isenabled()


def test_the_pause_of_one_thread_is_not_made_longer_by_another_one() -> None:
    begun, ended = threading.Event(), threading.Event()

    def pause_meanwhile() -> None:
        with pause_garbage_collection():
            begun.set()
            ended.wait()

    other = threading.Thread(target=pause_meanwhile)
    with pause_garbage_collection():
        other.start()
        begun.wait()
        assert not gc.isenabled()
    is_enabled = gc.isenabled()
    ended.set()
    other.join()
    assert is_enabled
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The system cannot fork.")
def test_a_child_that_is_forked_in_a_pause_collects_garbage() -> None:
    reads, writes = os.pipe()
    begun, ended = threading.Event(), threading.Event()

    def pause_meanwhile() -> None:
        with pause_garbage_collection():
            begun.set()
            ended.wait()

    other = threading.Thread(target=pause_meanwhile)
    other.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        with pause_garbage_collection():
            can_pause = not gc.isenabled()
        os.write(writes, b"yes" if can_pause and gc.isenabled() else b"no")
        os._exit(0)
    ended.set()
    other.join()
    os.waitpid(child, 0)
    answer = os.read(reads, 3)
    os.close(reads)
    os.close(writes)
    assert answer == b"yes"
