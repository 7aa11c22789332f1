"""Exit codes in the results of tools."""

import json

import pytest

from checkpoints.formats.shell_command_exit_codes import find_exit_code, split_output_and_exit_code


@pytest.mark.parametrize(
    ("tool", "result", "code"),
    [
        ("Bash", "Exit code 2\nbash: syntax error", 2),
        ("exec_command", "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\na", 0),
        ("shell", '{"output":"fatal","metadata":{"exit_code":128}}', 128),
        ("apply_patch", '{"output":"no such file","metadata":{"exit_code":1}}', 1),
        ("powershell", '{"output":"","exit_code":3221225477}', 3221225477),
        ("bash", '{"stdout":"","stderr":"no such file","returncode":2}', 2),
        ("run_shell_command", '{"exitCode":1,"stdout":"a\\n"}', 1),
        ("shell", f"{'x' * 200_000}\nExit code: 4", 4),
        ("shell", "failed in sandbox, exit code: 2, stdout: a", 2),
        ("shell", "[Command exited with code 1]", 1),
        ("shell", "The tool prints Exit code: 3", None),
        ("shell", "worker-1 exited with code 137", None),
        ("shell", "a", None),
        ("shell", '{"output":"","exit_code":true}', None),
        ("shell", f'{{"output":"","exit_code":{2**64}}}', None),
        ("shell", "Exit code: 9999999999", None),
        ("pay", "Exit code 2", None),
    ],
)
def test_exit_code_is_found_in_results_of_commands_and_patches(tool: str, result: str, code: int | None) -> None:
    assert find_exit_code(tool, json.dumps(result)) == code


def test_output_of_a_command_is_both_of_its_streams() -> None:
    split = split_output_and_exit_code('{"stdout":"1 passed\\n","stderr":"warning: slow","returncode":0}')
    assert split == ("1 passed\nwarning: slow", 0)
    assert split_output_and_exit_code('{"stdout":1,"returncode":2}') == ('{"stdout":1,"returncode":2}', None)


def test_call_without_a_result_has_no_exit_code() -> None:
    assert find_exit_code("shell", None) is None
