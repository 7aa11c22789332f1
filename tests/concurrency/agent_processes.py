"""Functions for the child processes of these tests."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, exceptions
from tests.support.processes import append_line, die, send_to_parent, wait_for_parent
from tests.support.sleep_recorder import record_sleeps

Message = dict[str, Any]


def outcome(attempt: Callable[[], Any]) -> Any:
    """Return the result of `attempt`, or the name of its error."""
    try:
        return attempt()
    except exceptions.CheckpointsError as error:
        return type(error).__name__


def welcoming(cp: SyncCheckpointer | Checkpointer, session_id: str, effects: str, seconds: float = 0) -> ToolRegistry:
    """Build a registry with a slow tool whose key is the same in all sessions."""
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    @registry.tool(scope="workspace")
    def welcome(customer: str) -> str:
        append_line(effects, f"welcome {customer}")
        time.sleep(seconds)
        return f"welcomed {customer}"

    return registry


def dispatch_one_key(url: str, session_id: str, effects: str) -> Any:
    """Make a call when told to, at the same time as other processes."""
    with SyncCheckpointer.open(url) as cp:
        registry = welcoming(cp, session_id, effects, seconds=0.2)
        cp.start_session(session_id)
        send_to_parent("ready")
        wait_for_parent()
        result = registry.dispatch("welcome", {"customer": "bob"}, "call_1")
        return [result.content, result.replayed]


def dispatch_from_many_tasks(url: str, session_id: str, effects: str) -> Any:
    """Make the call from many tasks of an event loop."""

    async def main() -> Any:
        async with Checkpointer.open(url) as cp:
            registry = welcoming(cp, session_id, effects, seconds=0.1)
            await cp.start_session(session_id)
            send_to_parent("ready")
            await asyncio.to_thread(wait_for_parent)
            results = await asyncio.gather(
                *[registry.adispatch("welcome", {"customer": "bob"}, f"call_{number}") for number in range(10)]
            )
            return [[result.content, result.replayed] for result in results]

    return asyncio.run(main())


def own_in_two_databases(url: str, still: str) -> None:
    """Own a session in each of two databases until told to stop; a witness may know both, by their names."""
    with SyncCheckpointer(still, lease_seconds=1.5) as other, SyncCheckpointer.open(url, lease_seconds=3) as cp:
        other.start_session("still")
        send_to_parent("began")
        wait_for_parent()
        cp.start_session("s")
        send_to_parent("owns both")
        wait_for_parent()


def stay_inside_the_tool(url: str, session_id: str, effects: str, before_effect: bool = False) -> Any:
    """Start a call and stay inside the tool until told; return its outcome."""
    cp = SyncCheckpointer.open(url)
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    @registry.tool(scope="workspace")
    def welcome(customer: str) -> str:
        if not before_effect:
            append_line(effects, f"welcome {customer}")
        send_to_parent("inside")
        wait_for_parent()
        if before_effect:
            append_line(effects, f"welcome {customer}")
        return f"welcomed {customer}"

    cp.start_session(session_id)
    cp.save_checkpoint(session_id, [{"turn": 1}], None, 0.5)
    called = outcome(lambda: registry.dispatch("welcome", {"customer": "bob"}, "call_1").content)
    return {
        "dispatch": called,
        "save": outcome(lambda: cp.save_checkpoint(session_id, [{"turn": "stale"}], None, 9)),
        "finish": outcome(lambda: cp.finish_session(session_id, "completed")),
    }


def wait_for_the_other(url: str, session_id: str, effects: str) -> Any:
    """Make a call that another process is executing."""
    with SyncCheckpointer.open(url) as cp:
        registry = welcoming(cp, session_id, effects)
        cp.start_session(session_id)
        send_to_parent("waiting")
        return outcome(lambda: registry.dispatch("welcome", {"customer": "bob"}, "call_1").content)


def take_at_once(url: str, session_id: str, how: str) -> Any:
    """Take a session at the same time as other processes, and hold it until told."""
    cp = SyncCheckpointer.open(url)
    send_to_parent("ready")
    wait_for_parent()
    take: Callable[[str], object] = cp.resume if how == "resume" else cp.start_session
    lost = outcome(lambda: [take(session_id)])
    said = lost if isinstance(lost, str) else "owner"
    send_to_parent("took", said)
    wait_for_parent()
    cp.close()
    return said


def take_over_for_each_save(url: str, session_id: str, saves: int) -> list[int]:
    """Take over a session again and again while others do the same; return the versions written."""
    cp = SyncCheckpointer.open(url)
    send_to_parent("ready")
    wait_for_parent()
    written: list[int] = []
    while len(written) < saves:
        try:
            cp.start_session(session_id, takeover=True)
            written.append(cp.save_checkpoint(session_id, [{"by": len(written)}], None, 0))
        except (exceptions.OwnershipLost, exceptions.NotOwner, exceptions.StorageBusy):
            continue
    cp.close()
    return written


def stall(url: str, session_id: str) -> Any:
    """Own a session, wait until told, and then try every operation."""
    cp = SyncCheckpointer.open(url)
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)
    ran: list[int] = []
    registry.tool(name="act")(lambda: ran.append(1))
    cp.start_session(session_id)
    cp.save_checkpoint(session_id, [{"turn": 1}], None, 0)
    cp.record_tool_call_issued(session_id, "call_1", "pay", {}, "key 1")
    send_to_parent("ready")
    attempts: dict[str, Callable[[], Any]] = {
        "save": lambda: cp.save_checkpoint(session_id, [{"turn": "stale"}], None, 9),
        "append": lambda: cp.append_checkpoint(session_id, [{"turn": "stale"}], expected_version=1),
        "issue": lambda: cp.record_tool_call_issued(session_id, "call_2", "pay", {}, "key 2"),
        "dispatch": lambda: registry.dispatch("act", {}, "call_3"),
        "finish": lambda: cp.finish_session(session_id, "completed"),
        "settle": lambda: cp.record_tool_call_result(session_id, "call_1", "paid", True),
    }
    return [outcome(attempts[wait_for_parent()]), ran]


def save_until_lost(url: str, session_id: str) -> Any:
    """Save versions until another process has taken the session."""
    cp = SyncCheckpointer.open(url)
    cp.start_session(session_id)
    transcript: list[Message] = []
    versions: list[int] = []
    send_to_parent("saving")
    while True:
        transcript.append({"by": "first", "n": len(transcript)})
        version = outcome(lambda: cp.save_checkpoint(session_id, transcript, None, 0))
        if not isinstance(version, int):
            return [versions, version]
        versions.append(version)


def die_at(url: str, session_id: str, effects: str, point: str) -> None:
    """Pay an order, and die at a named point."""
    cp = SyncCheckpointer.open(url)
    registry = paying(cp, session_id, effects, point)
    cp.start_session(session_id)
    cp.save_checkpoint(session_id, [{"turn": 1}], {"goal": "pay"}, 0.5)
    registry.dispatch("pay", {"order": 17}, "call_1")
    if point == "after the call":
        die()
    cp.save_checkpoint(session_id, [{"turn": 1}, {"turn": 2}], {"goal": "done"}, 1)
    if point == "after the save":
        die()
    cp.finish_session(session_id, "completed", "paid")
    die()


def paying(cp: SyncCheckpointer, session_id: str, effects: str, point: str = "") -> ToolRegistry:
    """Build a registry whose tool `pay` appends a line for each payment."""
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    def key(args: dict[str, Any]) -> str:
        if point == "before the intent":
            die()
        return f"order {args['order']}"

    @registry.tool(idempotency=key)
    def pay(order: int) -> str:
        if point == "before the effect":
            die()
        append_line(effects, f"pay {order}")
        if point == "after the effect":
            die()
        return f"paid {order}"

    return registry


def take_turns(url: str, session_id: str) -> dict[str, int]:
    """Do one turn whenever told to; return the number of sleeps and refusals."""
    refused = 0
    with SyncCheckpointer.open(url) as cp, record_sleeps() as slept:
        send_to_parent("ready")
        while wait_for_parent() == "turn":
            try:
                with cp.session(session_id) as session:
                    version = session.append([{"pid": os.getpid(), "turn": session.version + 1}])
            except exceptions.SessionBusy:
                refused += 1
            else:
                send_to_parent("saved", version)
    return {"slept": len(slept), "refused": refused}


def stall_inside_a_turn(url: str, session_id: str) -> list[Any]:
    """Stop between two saves of a turn, and return the error of each write method afterwards."""
    with SyncCheckpointer.open(url) as cp, cp.session(session_id) as session:
        session.append([{"turn": 0}])
        send_to_parent("inside")
        wait_for_parent()
        return [
            outcome(lambda: session.append([{"turn": "late"}])),
            outcome(lambda: session.save([{"turn": "late"}])),
            outcome(lambda: session.finish("completed")),
        ]


def fork_and_dispatch(url: str, number: int, rounds: int) -> list[str]:
    """Fork, take, use and delete sessions together with other processes; return the errors."""
    random, met = Random(number), []
    with SyncCheckpointer.open(url) as cp:
        for _ in range(rounds):
            session_id, origin = (f"fork {random.randrange(4)}" for _ in range(2))
            work: list[Callable[[], object]] = [
                partial(cp.fork_session, random.choice(["origin", origin]), session_id),
                partial(cp.start_session, session_id, takeover=True),
                partial(cp.delete_session, session_id),
                partial(cp.save_checkpoint, session_id, [{"by": number}], None, 0),
                *[partial(_storming_call, cp, session_id, random.randrange(6)) for _ in range(4)],
            ]
            with ThreadPoolExecutor(4) as threads:
                met += [_error(future) for future in [threads.submit(act) for act in random.sample(work, len(work))]]
    return met


def _storming_call(cp: SyncCheckpointer, session_id: str, number: int) -> object:
    registry = ToolRegistry(checkpointer=cp, session_id=session_id, idempotency="unanswered")
    registry.tool(name="pay")(lambda order: "paid")
    registry.tool(name="welcome", scope="workspace", idempotency="once")(lambda order: "welcomed")
    registry.tool(name="ask", scope="workspace", idempotency="once", requires_approval=True)(lambda order: "asked")
    tool = ["pay", "welcome", "ask"][number % 3]
    return registry.dispatch(tool, {"order": number}, f"call_{number}", in_progress="raise")


def _error(future: Future[object]) -> str:
    """Return the name of the library's error of a future; raise other errors."""
    try:
        future.result()
    except exceptions.CheckpointsError as error:
        if type(error) is exceptions.StorageError:  # the database refused what the library should not have asked for
            raise
        return type(error).__name__
    return ""
