"""The complete agent of `docs/write-an-agent.md`: killed at each place that the page names, it does everything once."""

import signal
from pathlib import Path

import pytest

from tests.docs.page_files import ProgramFailed, commands_of, files_of, run

PAGE = "write-an-agent.md"


def test_agent_survives_the_crashes_that_the_page_names(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(files_of(PAGE)["agent.py"])
    commands = [command.partition("#")[0].split() for command in commands_of(PAGE)]
    assert len(commands) == 4

    for command in commands[:-1]:
        run(*command, folder=tmp_path, status=-signal.SIGKILL)
    said = [run(*commands[-1], folder=tmp_path) for _ in range(2)]

    assert said == ["The customer has been told.\n"] * 2
    assert (tmp_path / "outbox.jsonl").read_text().count("\n") == 1


def test_agent_without_its_verify_hook_asks_a_person(tmp_path: Path) -> None:
    source = files_of(PAGE)["agent.py"]
    (tmp_path / "agent.py").write_text(source.replace("verify=was_sent, ", ""))
    run("agent.py", "--after-mail", folder=tmp_path, status=-signal.SIGKILL)

    with pytest.raises(ProgramFailed, match="it is unknown whether this happened: send_mail"):
        run("agent.py", folder=tmp_path)
