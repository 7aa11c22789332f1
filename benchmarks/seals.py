"""`python -m benchmarks.seals [database URL]`: cost of seals, of a witness and of signatures, beside their targets.

Three processes do the same work on the same database: without seals, with them, and with a witness in a file too. They
take turns at each operation, and each one's first operation in its turn is not measured. So every measured operation
has a partner of the same moment, and what is printed is the median of the differences between partners.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connections

from benchmarks.call_costs import ARGS, RESULT
from benchmarks.duration_samples import shuffle_with_turn_as_seed
from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired
from checkpoints.seals.seal_keys import get_seal_keys

#: Measured operations of each kind, and those that are not measured, because a process makes some things once.
ROUNDS, LOADS, WARM_UP = 300, 150, 10
LOADED_MESSAGES = 400
FIRST_MESSAGES = 20
#: Decisions, half of them signed.
DECISIONS = 120
#: Short sessions that are verified, and the turns of each, with a call each.
SHORT_SESSIONS, SHORT_TURNS = 200, 10
TEXT = "The lamp arrived broken, and the second parcel was lost. " * 8
SEAL_KEY = "5e" * 32
#: Kinds of processes.
PLAIN, SEALED, WITNESSED = "without seals", "with seals", "with a witness"
#: Largest share by which an operation may be slower with seals.
TARGETS = {"save": 0.03, "dispatch": 0.03, "load_latest, cached": 0.10, "load_latest, cold": 0.40}
#: Largest number of seconds that a witness in a file may add to a write, and the writes of an operation.
WITNESS_TARGET = 0.0002
WRITES = {"save": 1, "dispatch": 2}


class OperationCost(NamedTuple):
    """Cost of one operation: seconds, seconds of the processor, and statements."""

    wall: float
    processor: float
    statements: int


@dataclass(frozen=True)
class CostComparison:
    """Costs of one operation before and after something is turned on, in pairs of the same moment."""

    before: Sequence[OperationCost]
    after: Sequence[OperationCost]

    def get_median_before(self, unit: str) -> float:
        """Return the median before."""
        return float(statistics.median(getattr(cost, unit) for cost in self.before))

    def compute_median_difference(self, unit: str) -> float:
        """Return the median of the differences between partners."""
        pairs = zip(self.before, self.after, strict=True)
        return float(statistics.median(getattr(after, unit) - getattr(before, unit) for before, after in pairs))

    def compute_relative_difference(self, unit: str) -> float:
        """Return the difference as a share of the median before."""
        return self.compute_median_difference(unit) / self.get_median_before(unit)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        _serve_operations_and_print_costs(*sys.argv[2:4])
        return
    url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{tempfile.mkdtemp()}/seals.db"
    with SyncCheckpointer.open(url, migrate=True) as checkpointer:
        _measure_and_print_seal_and_witness_overhead(url)
        _measure_and_print_witness_note_times()
        _measure_and_print_decision_signature_costs(checkpointer)
        _measure_and_print_verification_rate(checkpointer)


# Processes that take turns.


def _serve_operations_and_print_costs(url: str, kind: str) -> None:
    """Do one operation for each line of the standard input, and print its cost."""
    with SyncCheckpointer.open(url) as checkpointer:
        operations = _start_sessions_and_build_operations(checkpointer, kind)
        for line in sys.stdin:
            operation = operations[line.strip()]
            operation()
            print(json.dumps(operation()), flush=True)


def _start_sessions_and_build_operations(
    checkpointer: SyncCheckpointer, kind: str
) -> dict[str, Callable[[], OperationCost]]:
    """Build the measured operations of one process, each in a session of its own."""
    from checkpoints.versions.version_seals_and_transcript_verification import verified_transcripts

    using = checkpointer.store.using
    for name in ("save", "dispatch", "load"):
        checkpointer.start_session(f"{name} {kind}")
    transcript = [_build_message(number) for number in range(FIRST_MESSAGES)]
    checkpointer.save_checkpoint(f"load {kind}", [_build_message(n) for n in range(LOADED_MESSAGES)], {}, 0)
    registry = ToolRegistry(checkpointer=checkpointer, session_id=f"dispatch {kind}")
    registry.tool(name="pay")(lambda **_: RESULT)
    calls = iter(range(10**9))

    def measure_save() -> OperationCost:
        transcript.extend(_build_message(len(transcript) + number) for number in range(2))
        turn = {"turn": len(transcript)}
        return _measure_time_and_statements(
            using, lambda: checkpointer.save_checkpoint(f"save {kind}", transcript, turn, 0.1)
        )

    def measure_dispatch() -> OperationCost:
        number = next(calls)
        return _measure_time_and_statements(
            using, lambda: registry.dispatch("pay", {**ARGS, "order": number}, f"c{number}")
        )

    def measure_load() -> OperationCost:
        return _measure_time_and_statements(using, lambda: checkpointer.load_latest(f"load {kind}"))

    def measure_load_with_cold_cache() -> OperationCost:
        verified_transcripts.clear()
        return measure_load()

    return {
        "save": measure_save,
        "dispatch": measure_dispatch,
        "load_latest, cached": measure_load,
        "load_latest, cold": measure_load_with_cold_cache,
    }


def _measure_time_and_statements(using: str, work: Callable[[], object]) -> OperationCost:
    statements = [0]

    def count_and_execute_statement(execute: Callable[..., Any], *args: Any) -> Any:
        statements[0] += 1
        return execute(*args)

    with connections[using].execute_wrapper(count_and_execute_statement):
        start, processor_start = time.perf_counter(), time.process_time()
        work()
        processor, wall = time.process_time() - processor_start, time.perf_counter() - start
    return OperationCost(wall, processor, statements[0])


def _build_message(number: int) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    return {"id": f"m{number}", "role": role, "blocks": [{"kind": "text", "text": f"{number} {TEXT}"}]}


@contextmanager
def _start_worker(url: str, kind: str, witness: Path) -> Iterator[Callable[[str], OperationCost]]:
    """Start a process of a kind. Gives the function that has it do an operation, and returns the cost."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    if kind != PLAIN:
        environment["HARNESS_SEAL_KEY"] = SEAL_KEY
    if kind == WITNESSED:
        environment["HARNESS_WITNESS"] = str(witness)
    command = [sys.executable, "-m", "benchmarks.seals", "--worker", url, kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        requests, answers = process.stdin, process.stdout
        assert requests is not None  # noqa: S101 - they are pipes
        assert answers is not None  # noqa: S101

        def run_operation_and_get_cost(operation: str) -> OperationCost:
            print(operation, file=requests, flush=True)
            answer = answers.readline()
            if not answer:
                raise RuntimeError(f"The process {kind} has ended.")
            return OperationCost(*json.loads(answer))

        yield run_operation_and_get_cost
        requests.close()


def _measure_operations_alternating(url: str) -> dict[tuple[str, str], list[OperationCost]]:
    """Measure every operation in each kind of process. Returns the costs by operation and kind, in the same order."""
    from checkpoints.seals.witness_file import FileWitness

    costs: dict[tuple[str, str], list[OperationCost]] = {}
    with ExitStack() as stack:
        witness = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "witness"
        FileWitness.create_storage(witness)
        kinds = (PLAIN, SEALED, WITNESSED)
        workers = [(kind, stack.enter_context(_start_worker(url, kind, witness))) for kind in kinds]
        for operation in TARGETS:
            rounds = LOADS if operation.startswith("load") else ROUNDS
            for number in range(rounds + WARM_UP):
                for kind, run in shuffle_with_turn_as_seed(workers, number):
                    cost = run(operation)
                    if number >= WARM_UP:
                        costs.setdefault((operation, kind), []).append(cost)
    return costs


def _measure_and_print_seal_and_witness_overhead(url: str) -> None:
    costs = _measure_operations_alternating(url)
    for operation, target in TARGETS.items():
        sealed = CostComparison(costs[operation, PLAIN], costs[operation, SEALED])
        for unit in ("wall", "processor"):
            goal = f"target {target:+.0%}: {_describe_verdict(sealed.compute_relative_difference(unit) <= target)}"
            print(
                f"{operation:20} {unit:10} {sealed.get_median_before(unit) * 1e6:7.0f} µs "
                f"{sealed.compute_median_difference(unit) * 1e6:+7.1f} µs with seals "
                f"{sealed.compute_relative_difference(unit):+7.1%}  {goal}"
            )
        medians = [statistics.median(cost.statements for cost in costs[operation, kind]) for kind in (PLAIN, SEALED)]
        print(f"{operation:20} statements {medians[0]:7.0f}    {medians[1]:7.0f}    with seals")
    for operation, writes in WRITES.items():
        witnessed = CostComparison(costs[operation, SEALED], costs[operation, WITNESSED])
        for unit in ("wall", "processor"):
            seconds = witnessed.compute_median_difference(unit) / writes
            goal = f"target {WITNESS_TARGET * 1e6:+.0f} µs: {_describe_verdict(seconds <= WITNESS_TARGET)}"
            print(f"{operation:20} {unit:10} {'':10} {seconds * 1e6:+7.1f} µs a write with a witness file  {goal}")


def _describe_verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


# Costs without a target.


def _switch_seals_on() -> None:
    settings.HARNESS_SEAL_KEY = SEAL_KEY
    get_seal_keys.cache_clear()


def _measure_and_print_witness_note_times() -> None:
    """Print the time of the two notes that a witness of each kind takes for an operation, by themselves."""
    from checkpoints.seals.witness_file import FileWitness
    from checkpoints.seals.witness_folder import FolderWitness
    from checkpoints.seals.witness_records import WitnessedHead

    _switch_seals_on()
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
        print(f"witness, {kind:17} {statistics.median(seconds) * 1e6:7.0f} µs two notes")


def _measure_and_print_decision_signature_costs(checkpointer: SyncCheckpointer) -> None:
    """Print the time of a decision with a signature and without, and of its verification."""
    from checkpoints.calls import decision_signatures, verify_calls_against_decisions
    from checkpoints.seals.decision_keys import create_key_pair, get_decision_keys

    pair, using = create_key_pair(), checkpointer.store.using
    checkpointer.start_session("decisions")
    registry = ToolRegistry(checkpointer=checkpointer, session_id="decisions")
    registry.tool(requires_approval=True)(_simulate_payment)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(DECISIONS):
        with suppress(ApprovalRequired):
            registry.dispatch("_simulate_payment", {"order": number}, f"d{number}")
        settings.HARNESS_DECISION_SIGNING_KEY = pair.signing if number % 2 else None
        get_decision_keys.cache_clear()
        start = time.perf_counter()
        checkpointer.approve_call("decisions", f"d{number}", actor="alice", reason="I looked.", revision=1)
        seconds[bool(number % 2)].append(time.perf_counter() - start)
    decisions = list(
        verify_calls_against_decisions.select_decisions_joined_for_signatures(using).exclude(signature=None)
    )
    verifying, signing = [], []
    for decision in decisions:
        start = time.perf_counter()
        decision_signatures.verify_decision_signature(decision)
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


def _simulate_payment(order: int) -> str:
    """Answer as the tool of the decided calls; nothing is paid."""
    return f"paid {order}"


def _measure_and_print_verification_rate(checkpointer: SyncCheckpointer) -> None:
    """Print how many rows are verified in a second of processor time, of the sessions above and of short ones."""
    from checkpoints.integrity.verify_and_quarantine_sessions import (
        iterate_checked_sessions_and_quarantine_altered,
    )
    from checkpoints.integrity.verify_session_rows import VerificationCounts
    from checkpoints.models import Session

    _switch_seals_on()
    sessions = Session.objects.using(checkpointer.store.using).exclude(row_seal=None).order_by("pk")
    long = list(sessions)
    _create_short_sessions(checkpointer)
    for name, some in (("long", long), ("short", list(sessions.filter(pk__gt=long[-1].pk)))):
        counts, start = VerificationCounts(), time.process_time()
        for checked in iterate_checked_sessions_and_quarantine_altered(checkpointer.store.using, some, counts):
            assert not checked.problems, checked  # noqa: S101 - a benchmark of something broken is worth nothing
        took, each = time.process_time() - start, counts.rows / len(some)
        print(
            f"verify, {name:18} {counts.rows:7,} rows, {each:5,.0f} a session, {counts.rows / took:,.0f} rows a second"
        )


def _create_short_sessions(checkpointer: SyncCheckpointer) -> None:
    for number in range(SHORT_SESSIONS):
        name, transcript = f"short {number}", list[dict[str, Any]]()
        checkpointer.start_session(name)
        for turn in range(SHORT_TURNS):
            transcript += [_build_message(2 * turn), _build_message(2 * turn + 1)]
            checkpointer.save_checkpoint(name, transcript, {"turn": turn}, 0.1)
            checkpointer.record_tool_call_issued(name, f"c{turn}", "pay", {**ARGS, "order": turn}, f"{name} {turn}")
            checkpointer.record_tool_call_result(name, f"c{turn}", RESULT, True)


if __name__ == "__main__":
    main()
