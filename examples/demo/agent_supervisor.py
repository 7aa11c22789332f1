"""Supervision of one session's agent process, restarted whenever it is killed, as a service manager does."""

from dataclasses import dataclass, field

from examples.demo.demo_processes import ChildProcess, start_refund_desk_process
from examples.demo.event_narration import EventNarrator


@dataclass
class AgentSupervisor:
    """Supervisor of one agent; `database` is the agent's URL, `pace` the seconds its model takes to answer."""

    story: EventNarrator
    database: str
    pace: float
    _agent: ChildProcess | None = field(default=None, repr=False)

    def poll_and_restart_if_killed(self) -> bool:
        """Check the agent once and restart it if needed; return True when it has finished.

        Raises `ProcessFailed` if a restart would not help.
        """
        agent = self._agent
        if agent is None:
            self._start_agent_process()
            return False
        code = agent.code
        self.story.print_new_events()
        if code is None:
            return False
        if agent.kill_signal_name:
            self.story.print_kill(agent.pid, agent.kill_signal_name)
            self._start_agent_process()
        elif code:
            raise agent.build_failure_with_log_end("The agent")
        return code == 0

    def stop(self) -> None:
        if self._agent is not None:
            self._agent.stop()

    def _start_agent_process(self) -> None:
        stage = self.story.stage
        self._agent = start_refund_desk_process(
            stage.number, stage.session_id, stage.folder, database=self.database, pace=self.pace
        )
