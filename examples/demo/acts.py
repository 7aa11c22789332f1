"""One session being played: the agent's process, started again whenever it is killed, as a service manager would."""

from dataclasses import dataclass, field

from examples.demo.processes import Child, start_agent
from examples.demo.story import Story


@dataclass
class Act:
    """`database` is the agent's, `pace` the seconds its model takes to answer."""

    story: Story
    database: str
    pace: float
    _agent: Child | None = field(default=None, repr=False)

    def play(self) -> bool:
        """Look after the agent once; True when it is done. Raises `ProcessFailed` where a restart would not help."""
        agent = self._agent
        if agent is None:
            self._start()
            return False
        code = agent.code
        self.story.tell()
        if code is None:
            return False
        if agent.killed_by:
            self.story.killed(agent.pid, agent.killed_by)
            self._start()
        elif code:
            raise agent.failure("The agent")
        return code == 0

    def stop(self) -> None:
        if self._agent is not None:
            self._agent.stop()

    def _start(self) -> None:
        stage = self.story.stage
        self._agent = start_agent(stage.number, stage.session_id, stage.folder, database=self.database, pace=self.pace)
