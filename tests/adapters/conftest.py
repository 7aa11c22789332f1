"""Pages, examples and programs of users, in processes that an ordinary run forks from one with the framework loaded.

A new interpreter takes two to three seconds of processor time to load a framework. An exhaustive run starts new ones
too.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.adapters import user_programs
from tests.conftest import StartChild
from tests.docs.page_files import leave_out_log_of_new_databases
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.processes import ROOT, Child, database_url

#: Function that gets the name of a page and returns what it wrote to stderr; the page must end without an error.
RunPage = Callable[[str], str]
#: Function that gets the name of an example and returns the last line of its story.
PlayStory = Callable[[str], str]
#: Function that gets the name of an example of the same framework, and a program; it starts that.
StartProgram = Callable[[str, Path], Child]


@pytest.fixture(params=[False, pytest.param(True, marks=only_exhaustive)], ids=["forked", "new interpreter"])
def fresh(request: pytest.FixtureRequest) -> bool:
    """Whether processes are new interpreters."""
    return bool(request.param)


@pytest.fixture
def run_page(start_child: StartChild, fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPage:
    def run(name: str) -> str:
        monkeypatch.setenv("HARNESS_SECRET_KEY", "a key for the pages, long enough")
        page = ROOT / "docs" / f"{name}.md"
        example = page.stem.removesuffix("-agent-sdk").replace("-", "_")
        child = start_child(
            user_programs.run_blocks_of_page,
            fresh=fresh,
            modules=[f"examples.{example}_refunds.agent"],
            page=str(page),
            folder=str(tmp_path),
        )
        child.result()
        return leave_out_log_of_new_databases(child.read_error_output())

    return run


@pytest.fixture
def start_program(start_child: StartChild, fresh: bool) -> StartProgram:
    def start(example: str, path: Path) -> Child:
        return start_child(
            user_programs.run_file,
            fresh=fresh,
            modules=[f"examples.{example}.agent"],
            path=str(path),
            folder=str(path.parent),
        )

    return start


@pytest.fixture
def play_story(
    start_child: StartChild,
    fresh: bool,
    effects: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[PlayStory]:
    def play(example: str) -> str:
        story = import_module(f"examples.{example}.__main__")

        def run_agent_in_fork_that_is_killed(module: str, database: str, effects: Path) -> None:
            arguments = [database, str(effects)]
            child = start_child(
                user_programs.run_module, modules=[f"{module}.agent"], module=module, arguments=arguments
            )
            assert child.died_by() == signal.SIGKILL

        if not fresh:
            monkeypatch.setattr(story, "run_agent_in_process_that_is_killed", run_agent_in_fork_that_is_killed)
        story.play_killed_agent_and_confirmed_refund(database_url(), effects)
        return capsys.readouterr().out.splitlines()[-1]

    yield play
    # The story of the OpenAI Agents SDK replaces the default runner of this process, which later tests use.
    if runners := sys.modules.get("agents.run"):
        runners.set_default_agent_runner(None)
