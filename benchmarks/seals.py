"""`python -m benchmarks.seals [database URL]`: cost of seals, each operation with them and without, alternating."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings

from benchmarks.call_costs import ARGS, RESULT
from checkpoints import SyncCheckpointer
from checkpoints.seals.keys import get_seal_keys

ROUNDS = 6
TURNS = 60
LOADS = 150
LOADED_MESSAGES = 400
TEXT = "The lamp arrived broken, and the second parcel was lost. " * 8


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{tempfile.mkdtemp()}/seals.db"
    checkpointer = SyncCheckpointer.open(url, migrate=True)
    with checkpointer:
        _print_comparison(_measure_turns(checkpointer))
        _print_comparison(_measure_loads(checkpointer))
        _print_verification(checkpointer)


def _switch_seals(*, on: bool) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32 if on else ""
    get_seal_keys.cache_clear()


def _build_message(number: int) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    return {"id": f"m{number}", "role": role, "blocks": [{"kind": "text", "text": f"{number} {TEXT}"}]}


def _measure_turns(checkpointer: SyncCheckpointer) -> dict[str, list[list[float]]]:
    """Measure the calls and saves of whole sessions: seconds without seals, and with them."""
    seconds: dict[str, list[list[float]]] = {"save": [[], []], "call and result": [[], []]}
    for number in range(ROUNDS):
        for on in (number % 2 == 0, number % 2 == 1):
            _switch_seals(on=on)
            _play_session(
                checkpointer, f"turns {number} {on}", seconds["save"][on].append, seconds["call and result"][on].append
            )
    return seconds


def _play_session(
    checkpointer: SyncCheckpointer,
    session_id: str,
    add_save: Callable[[float], object],
    add_call: Callable[[float], object],
) -> None:
    checkpointer.start_session(session_id)
    transcript = [_build_message(number) for number in range(20)]
    for turn in range(TURNS):
        start = time.perf_counter()
        checkpointer.record_tool_call_issued(session_id, f"c{turn}", "pay", {**ARGS, "n": turn}, f"{session_id} {turn}")
        checkpointer.record_tool_call_result(session_id, f"c{turn}", RESULT, True)
        add_call(time.perf_counter() - start)
        transcript = [*transcript, _build_message(len(transcript)), _build_message(len(transcript) + 1)]
        start = time.perf_counter()
        checkpointer.save_checkpoint(session_id, transcript, {"turn": turn}, 0.1)
        add_save(time.perf_counter() - start)
    checkpointer.release_session(session_id)


def _measure_loads(checkpointer: SyncCheckpointer) -> dict[str, list[list[float]]]:
    """Measure the processor time of loading a long transcript, whose verified beginning is remembered or not."""
    from checkpoints.versions.version_seals import verified_transcripts

    transcript = [_build_message(number) for number in range(LOADED_MESSAGES)]
    for on in (False, True):
        _switch_seals(on=on)
        checkpointer.start_session(f"load {on}")
        checkpointer.save_checkpoint(f"load {on}", transcript, {}, 0)
    kinds = {"load, first time": True, "load, again": False}
    seconds: dict[str, list[list[float]]] = {kind: [[], []] for kind in kinds}
    for _ in range(LOADS):
        for kind, is_first in kinds.items():
            for on in (False, True):
                _switch_seals(on=on)
                if is_first:
                    verified_transcripts.clear()
                start = time.thread_time()
                checkpointer.load_latest(f"load {on}")
                seconds[kind][on].append(time.thread_time() - start)
    return seconds


def _print_comparison(seconds: dict[str, list[list[float]]]) -> None:
    for name, (without, sealed) in seconds.items():
        before, after = statistics.median(without), statistics.median(sealed)
        print(f"{name:18} {before * 1e6:7.0f} µs  {after * 1e6:7.0f} µs with seals  {after / before - 1:+.1%}")


def _print_verification(checkpointer: SyncCheckpointer) -> None:
    from checkpoints.integrity.verification import VerificationCounts, find_session_problems
    from checkpoints.models import Session

    _switch_seals(on=True)
    counts, start = VerificationCounts(), time.thread_time()
    for session in Session.objects.using(checkpointer.store.using).exclude(row_seal=None):
        problems = list(find_session_problems(checkpointer.store.using, session, counts))
        assert not problems, problems  # noqa: S101 - a benchmark of something broken is worth nothing
    took = time.thread_time() - start
    print(f"verify_integrity   {counts.rows:,} rows, {counts.rows / took:,.0f} rows a second")


if __name__ == "__main__":
    main()
