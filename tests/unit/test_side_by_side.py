"""The script that runs the parts of `make test` at the same time."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "side-by-side"


def run_side_by_side(*commands: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *commands], capture_output=True, text=True, timeout=60)


def test_outputs_are_shown_one_after_the_other_in_the_order_of_the_commands() -> None:
    run = run_side_by_side("echo a; sleep 0.3; echo b", "echo c; echo d >&2", "echo e")
    assert (run.returncode, run.stdout) == (0, "a\nb\nc\nd\ne\n")


def test_commands_run_at_the_same_time(tmp_path: Path) -> None:
    """Each command waits for the other one."""
    run = run_side_by_side(
        *(
            f"cd {tmp_path}; touch {own}; timeout 30 bash -c 'until [ -e {other} ]; do sleep 0.05; done'"
            for own, other in (("a", "b"), ("b", "a"))
        )
    )
    assert run.returncode == 0


@pytest.mark.parametrize(
    "commands",
    [("exit 3", "echo b"), ("echo a", "exit 3"), ("false; true", "echo b"), ("echo a", "false; true", "echo c")],
    ids=["first", "last", "first-of-several", "between"],
)
def test_failed_command_is_reported_after_the_others_have_ended(commands: tuple[str, ...]) -> None:
    run = run_side_by_side(*commands)
    assert run.returncode == 1
    assert run.stdout.split() == [command.removeprefix("echo ") for command in commands if command.startswith("echo")]
