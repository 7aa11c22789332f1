"""Agent whose sessions are on a server, run where Django is not installed: `agent_of_a_server.py STAGE FOLDER`.

It prints one line of JSON: what the stage saw, and which of Django's packages were imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from checkpoints import (
    UNCHANGED,
    Checkpointer,
    Landed,
    NotLanded,
    RuntimeSnapshot,
    SyncCheckpointer,
    ToolPolicies,
    ToolRegistry,
    Unknown,
    exceptions,
    guard,
    tool,
)
from checkpoints.loop_state import PostLlm
from checkpoints.peers import Accepted, Join, PeerCall

ADDRESS, TOKEN = os.environ["ADDRESS"], os.environ["AGENT"]
QUESTION = [{"role": "user", "content": "Where is my refund?"}]


class Agent:
    """Refund desk that keeps what its tools did in a file."""

    def __init__(self, folder: Path) -> None:
        self._effects = folder / "effects"
        self.registry = ToolRegistry([tool(name="reserve", verify=self._find_reservation)(self.reserve)])
        self.registry.tool(name="refund")(self.refund)
        self.registry.tool(name="send_mail", requires_approval=True)(self.send_mail)

    def _has(self, effect: str) -> bool:
        return self._effects.exists() and effect in self._effects.read_text().splitlines()

    def _record(self, effect: str) -> None:
        with self._effects.open("a") as file:
            file.write(f"{effect}\n")

    def _find_reservation(self, args: dict[str, Any]) -> Landed | NotLanded | Unknown:
        return Landed("reserved") if self._has(f"reserve {args['order']}") else NotLanded()

    def reserve(self, order: int) -> str:
        self._record(f"reserve {order}")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never returned"

    def refund(self, order: int) -> str:
        self._record(f"refund {order}")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never returned"

    def send_mail(self, order: int) -> str:
        self._record(f"mail {order}")
        return f"told the customer of {order}"

    # stages

    def reserve_and_die(self) -> object:
        """Start, save, and be killed in a tool that has a verify hook."""
        with SyncCheckpointer(ADDRESS, token=TOKEN) as cp:
            cp.start_session("order-17", "Where is my refund?", agent="desk", labels=["vip"])
            self.registry.bind(cp, "order-17")
            cp.save_checkpoint("order-17", QUESTION, {"next": "reserve"}, 0.25, usage={"tokens": 5})
            return self.registry.dispatch("reserve", {"order": 17}, "call_1").content

    def refund_and_die(self) -> object:
        """Resume: the hook settles the reservation. Be killed in a tool without a hook."""
        with SyncCheckpointer(ADDRESS, token=TOKEN) as cp:
            point = cp.resume("order-17", self.registry, takeover="The process was killed.")
            assert point.run is not None
            assert (point.transcript, point.plan, point.run.number) == (QUESTION, {"next": "reserve"}, 2)
            assert point.replayable["call_1"].content == "reserved"
            return self.registry.dispatch("refund", {"order": 17}, "call_2").content

    def meet_the_gate(self) -> object:
        with SyncCheckpointer(ADDRESS, token=TOKEN) as cp:
            return cp.resume("order-17", self.registry, takeover="The process was killed.")

    def ask_for_approval(self) -> object:
        with (
            SyncCheckpointer(ADDRESS, token=TOKEN) as cp,
            cp.session("order-17", registry=self.registry) as session,
        ):
            assert session.dispatch("refund", {"order": 17}, "call_2").content == "refunded"
            return session.dispatch("send_mail", {"order": 17}, "call_3").content

    def finish(self) -> object:
        with (
            SyncCheckpointer(ADDRESS, token=TOKEN) as cp,
            cp.session("order-17", registry=self.registry) as session,
        ):
            mail = session.dispatch("send_mail", {"order": 17}, "call_3")
            session.append([{"role": "assistant", "content": mail.content}], plan=UNCHANGED)
            cp.save_phase("order-17", PostLlm(model="m"), snapshot=RuntimeSnapshot(step=1))
            policies = ToolPolicies({"get_*": {"side_effects": {"read"}}})
            seen = guard(cp, "order-17", "stamp", {"order": 17}, "call_4", self._stamp, policies=policies)
            workflow = cp.workflow("order-17", "closing")
            steps = [workflow.step("file", str.upper, "filed"), len(workflow.journal())]
            assert cp.fork_session("order-17", "order-17-again") == 1
            session.finish("completed", {"mail": mail.content})
            return [mail.content, seen.content, steps, len(cp.messages("order-17"))]

    def _stamp(self, args: dict[str, Any]) -> str:
        self._record(f"stamp {args['order']}")
        return "stamped"

    def wait_for_another_agent(self) -> object:
        return asyncio.run(self._wait_for_another_agent())

    async def _wait_for_another_agent(self) -> object:
        async with Checkpointer(ADDRESS, token=TOKEN) as cp:
            await cp.start_session("order-18")
            await cp.save_checkpoint("order-18", QUESTION)
            joins = [Join("answers", [PeerCall("ask-1", "stock", {"item": 3}, deadline=60)])]
            await cp.pause_for_peers("order-18", {"asked": 3}, joins)
            answer = await cp.accept_response("ask-1", {"left": 2})
            assert isinstance(answer, Accepted)
            task = await cp.take_paused("order-18")
            async with Checkpointer(ADDRESS, token=TOKEN) as other:
                with suppress(exceptions.SessionBusy):
                    await other.resume("order-18")
                    raise AssertionError
            return [task.results["ask-1"].result, task.state]

    def open_a_database(self) -> object:
        return SyncCheckpointer("agent.db")


def main(stage: str, folder: str) -> None:
    try:
        value = getattr(Agent(Path(folder)), stage)()
    except exceptions.CheckpointsError as error:
        value = error.code
    loaded = {name.partition(".")[0] for name in sys.modules} & {"asgiref", "django", "sqlparse"}
    print(json.dumps({"value": value, "loaded": sorted(loaded), "django": find_spec("django") is not None}))


if __name__ == "__main__":
    main(*sys.argv[1:])
