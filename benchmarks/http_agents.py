"""Benchmark of many agents over HTTP against one server: `python -m benchmarks.http_agents`.

`--agents` of them work for `--seconds`, with a turn every `--pace` seconds. Each is a thread with a client of its own,
which keeps its lease; in every turn it dispatches a call and saves. Prints the turns, what was refused by type, what
was acknowledged and is lost, and what happened twice.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from argparse import ArgumentParser
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.duration_samples import DurationSamples
from benchmarks.http_api_site_process import (
    add_database_options_and_parse,
    migrate_and_serve_site,
    run_benchmark_module_on_each_database,
)

#: Bytes of the stack of a thread: an agent needs little.
_STACK_BYTES: Final = 512 * 1024


@dataclass
class Tally:
    """What one agent did. `acknowledged` are the versions that the server confirmed."""

    session_id: str
    acknowledged: list[int] = field(default_factory=list)
    effects: Counter[int] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600.0, help="time for which the agents work")
    parser.add_argument("--pace", type=float, default=8.0, help="seconds between the starts of two turns of an agent")
    options = add_database_options_and_parse(parser)
    if not options.database:
        arguments = [f"--agents={options.agents}", f"--seconds={options.seconds}", f"--pace={options.pace}"]
        run_benchmark_module_on_each_database("benchmarks.http_agents", options, arguments)
        return
    with migrate_and_serve_site(options.database) as (address, token):
        tallies = run_agents_and_get_tallies(address, token, options.agents, options.seconds, options.pace)
        sys.stdout.write(f"  {json.dumps(summarize_turns_and_count_lost_work(address, token, tallies))}\n")


def run_agents_and_get_tallies(address: str, token: str, agents: int, seconds: float, pace: float) -> list[Tally]:
    """Let agents work on a site, each in a session of its own. Returns what each did."""
    threading.stack_size(_STACK_BYTES)
    tallies = [Tally(f"agent-{number}") for number in range(agents)]
    ends_at = time.monotonic() + seconds
    threads = [
        threading.Thread(
            target=_run_agent_and_fill_tally, args=(address, token, tally, ends_at, pace, number * pace / agents)
        )
        for number, tally in enumerate(tallies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tallies


def _run_agent_and_fill_tally(
    address: str, token: str, tally: Tally, ends_at: float, pace: float, delay: float
) -> None:
    """Work in turns until the time is over. After a refusal the agent opens its session again."""
    from checkpoints import SyncCheckpointer, ToolRegistry
    from checkpoints.exceptions import CheckpointsError

    def simulate_and_count_payment(turn: int) -> str:
        tally.effects[turn] += 1
        return f"paid {turn}"

    registry = ToolRegistry()
    registry.tool(name="pay", side_effects={"mutate"}, idempotency="once")(simulate_and_count_payment)
    next_turn_at = time.monotonic() + delay
    turn = 0
    while time.monotonic() < ends_at:
        try:
            with (
                SyncCheckpointer(address, token=token) as cp,
                cp.session(tally.session_id, "Pay.", registry=registry) as session,
            ):
                while (now := time.monotonic()) < ends_at:
                    if now < next_turn_at:
                        time.sleep(min(next_turn_at, ends_at) - now)
                        continue
                    next_turn_at += pace
                    session.dispatch("pay", {"turn": turn}, f"call_{turn}")
                    tally.acknowledged.append(session.append([{"role": "user", "content": f"turn {turn}"}]))
                    tally.seconds.append(time.monotonic() - now)
                    turn += 1
        except CheckpointsError as error:
            tally.refused[type(error).__name__] += 1
            time.sleep(min(1.0, pace))


def summarize_turns_and_count_lost_work(address: str, token: str, tallies: list[Tally]) -> dict[str, Any]:
    """Compare what the agents did with what the server has.

    `lost` are acknowledged versions that are not there, and calls that happened and have no result. `twice` are calls
    that were executed more than once, and versions that hold a turn another version has already.
    """
    from checkpoints import SyncCheckpointer

    lost = twice = 0
    with SyncCheckpointer(address, token=token) as cp:
        for tally in tallies:
            if not tally.acknowledged:
                continue
            transcript = cp.load(tally.session_id, tally.acknowledged[-1])["transcript"]
            turns = Counter(message["content"] for message in transcript)
            lost += len(set(tally.acknowledged)) - len(turns) if len(turns) < len(set(tally.acknowledged)) else 0
            lost += len(cp.pending_tool_calls(tally.session_id))
            twice += sum(count - 1 for count in turns.values())
            twice += sum(count - 1 for count in tally.effects.values())
    times = [seconds for tally in tallies for seconds in tally.seconds]
    refused: Counter[str] = sum((tally.refused for tally in tallies), Counter())
    return {
        "agents": len(tallies),
        "turns": len(times),
        "p50_ms": round(DurationSamples(times).median_ms, 1) if times else None,
        "p95_ms": round(DurationSamples(times).p95_ms, 1) if times else None,
        "refused": dict(refused),
        "lost": lost,
        "twice": twice,
    }


if __name__ == "__main__":
    main()
