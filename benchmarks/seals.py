"""`python -m benchmarks.seals [database URL]`: cost of seals, each operation with them and without, alternating."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from benchmarks.call_costs import ARGS, RESULT
from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired
from checkpoints.seals.seal_keys import get_seal_keys

ROUNDS = 60
#: Turns of a session in one round; the first one is not measured, because it makes what a process makes once.
TURNS = 6
LOADS = 150
LOADED_MESSAGES = 400
#: Decisions, half of them signed.
DECISIONS = 120
TEXT = "The lamp arrived broken, and the second parcel was lost. " * 8
#: Seconds of an operation without seals, and with them.
Seconds = tuple[list[float], list[float]]


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{tempfile.mkdtemp()}/seals.db"
    checkpointer = SyncCheckpointer.open(url, migrate=True)
    with checkpointer:
        _print_comparison(_measure_turns(checkpointer))
        _print_comparison(_measure_loads(checkpointer))
        _print_witness()
        _print_decisions(checkpointer)
        _print_verification(checkpointer)


def _switch_seals(*, on: bool) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32 if on else ""
    get_seal_keys.cache_clear()
    get_seal_keys()


def _build_message(number: int) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    return {"id": f"m{number}", "role": role, "blocks": [{"kind": "text", "text": f"{number} {TEXT}"}]}


def _measure_turns(checkpointer: SyncCheckpointer) -> dict[str, Seconds]:
    """Measure the calls and saves of two sessions in turn: one without seals, one with them."""
    names = ("save", "save, processor", "call and result", "call and result, processor")
    seconds: dict[str, Seconds] = {name: ([], []) for name in names}
    sessions = []
    for on in (False, True):
        _switch_seals(on=on)
        checkpointer.start_session(f"turns {on}")
        sessions.append([_build_message(number) for number in range(20)])
    for number in range(ROUNDS):
        for on in (False, True) if number % 2 else (True, False):
            _switch_seals(on=on)
            for turn in range(TURNS):
                sessions[on], *took = _play_turn(checkpointer, f"turns {on}", sessions[on])
                if turn:
                    for name, measured in zip(names, took, strict=True):
                        seconds[name][on].append(measured)
    return seconds


def _play_turn(
    checkpointer: SyncCheckpointer, session_id: str, transcript: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], float, float, float, float]:
    """Make a call and save a version. Returns the transcript, and the seconds and processor seconds of each."""
    turn = len(transcript)
    start, cpu_start = time.perf_counter(), time.thread_time()
    checkpointer.record_tool_call_issued(session_id, f"c{turn}", "pay", {**ARGS, "n": turn}, f"{session_id} {turn}")
    checkpointer.record_tool_call_result(session_id, f"c{turn}", RESULT, True)
    call, cpu_call = time.perf_counter() - start, time.thread_time() - cpu_start
    transcript = [*transcript, _build_message(turn), _build_message(turn + 1)]
    start, cpu_start = time.perf_counter(), time.thread_time()
    checkpointer.save_checkpoint(session_id, transcript, {"turn": turn}, 0.1)
    return transcript, time.perf_counter() - start, time.thread_time() - cpu_start, call, cpu_call


def _measure_loads(checkpointer: SyncCheckpointer) -> dict[str, Seconds]:
    """Measure the processor time of loading a long transcript, whose verified beginning is remembered or not."""
    from checkpoints.versions.version_seals import verified_transcripts

    transcript = [_build_message(number) for number in range(LOADED_MESSAGES)]
    for on in (False, True):
        _switch_seals(on=on)
        checkpointer.start_session(f"load {on}")
        checkpointer.save_checkpoint(f"load {on}", transcript, {}, 0)
    kinds = {"load, first time": True, "load, again": False}
    seconds: dict[str, Seconds] = {kind: ([], []) for kind in kinds}
    for _ in range(LOADS):
        for kind, is_first in kinds.items():
            for on in (False, True):
                _switch_seals(on=on)
                checkpointer.load_latest(f"load {on}")  # makes what a process makes once
                if is_first:
                    verified_transcripts.clear()
                start = time.thread_time()
                checkpointer.load_latest(f"load {on}")
                seconds[kind][on].append(time.thread_time() - start)
    return seconds


def _print_comparison(seconds: dict[str, Seconds]) -> None:
    for name, (without, sealed) in seconds.items():
        before, after = statistics.median(without), statistics.median(sealed)
        print(f"{name:26} {before * 1e6:7.0f} µs  {after * 1e6:7.0f} µs with seals  {after / before - 1:+.1%}")


def _print_witness() -> None:
    """Print the time that a witness adds to an operation: one note before its commit, one after."""
    from checkpoints.seals.witness_file import FileWitness
    from checkpoints.seals.witness_folder import FolderWitness
    from checkpoints.seals.witness_records import WitnessedHead

    _switch_seals(on=True)
    kinds = ((FileWitness, False, "file, batched"), (FileWitness, True, "file, each"))
    for make, sync_each, kind in (
        *kinds,
        (FolderWitness, False, "folder, batched"),
        (FolderWitness, True, "folder, each"),
    ):
        path = Path(tempfile.mkdtemp()) / "witness"
        make.create_storage(path)
        witness, seconds = make(path, sync_each=sync_each), []
        for number in range(300):
            head, start = WitnessedHead("5e" * 16, number, bytes(32)), time.perf_counter()
            witness.record_expected_head(head)
            witness.record_written_head(head)
            seconds.append(time.perf_counter() - start)
        print(f"witness, {kind:17} {statistics.median(seconds) * 1e6:7.0f} µs an operation")


def _print_decisions(checkpointer: SyncCheckpointer) -> None:
    """Print the time of a decision with a signature and without, and of its verification."""
    from checkpoints.calls import decision_signatures, signed_decisions
    from checkpoints.seals.decision_keys import create_key_pair, get_decision_keys

    pair, using = create_key_pair(), checkpointer.store.using
    checkpointer.start_session("decisions")
    registry = ToolRegistry(checkpointer=checkpointer, session_id="decisions")
    registry.tool(requires_approval=True)(_pay)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(DECISIONS):
        with suppress(ApprovalRequired):
            registry.dispatch("_pay", {"order": number}, f"d{number}")
        settings.HARNESS_DECISION_SIGNING_KEY = pair.signing if number % 2 else None
        get_decision_keys.cache_clear()
        start = time.perf_counter()
        checkpointer.approve_call("decisions", f"d{number}", actor="alice", reason="I looked.", revision=1)
        seconds[bool(number % 2)].append(time.perf_counter() - start)
    decisions = list(signed_decisions.select_decisions(using).exclude(signature=None))
    verifying, signing = [], []
    for decision in decisions:
        start = time.perf_counter()
        decision_signatures.verify_signature(decision)
        middle = time.perf_counter()
        decision_signatures.sign_decision(decision, decision.signed_terms or "")
        verifying.append(middle - start)
        signing.append(time.perf_counter() - middle)
    settings.HARNESS_DECISION_SIGNING_KEY = None
    get_decision_keys.cache_clear()
    without, signed = (statistics.median(seconds[on]) * 1e6 for on in (False, True))
    print(f"decision                   {without:7.0f} µs  {signed:7.0f} µs with its signature")
    for name, took in (("sign a decision", signing), ("verify a decision", verifying)):
        print(f"{name:26} {statistics.median(took) * 1e6:7.0f} µs")


def _pay(order: int) -> str:
    return f"paid {order}"


def _print_verification(checkpointer: SyncCheckpointer) -> None:
    from checkpoints.integrity.verification import VerificationCounts, find_session_problems
    from checkpoints.models import Session

    _switch_seals(on=True)
    counts, start = VerificationCounts(), time.thread_time()
    for session in Session.objects.using(checkpointer.store.using).exclude(row_seal=None):
        problems = list(find_session_problems(checkpointer.store.using, session, counts))
        assert not problems, problems  # noqa: S101 - a benchmark of something broken is worth nothing
    took = time.thread_time() - start
    print(f"verify_integrity           {counts.rows:,} rows, {counts.rows / took:,.0f} rows a second")


if __name__ == "__main__":
    main()
