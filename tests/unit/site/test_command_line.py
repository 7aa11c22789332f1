"""The console script `harness` reports operator errors in one sentence."""

import os
import re
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command, get_commands
from django.db import OperationalError, ProgrammingError, connection
from django.db.migrations.exceptions import MigrationSchemaMissing
from django.db.transaction import TransactionManagementError

from checkpoints import __version__
from checkpoints.exceptions import ConnectionFailed, MigrationsMissing, WorkspaceNotFound
from harness_site import command_line
from harness_site.accounts import create_superuser_command
from harness_site.command_overview import COMMANDS, format_overview
from tests.support.exhaustive_mode import only_exhaustive

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version_is_that_of_this_package(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    command_line.main([argument])
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImproperlyConfigured("HARNESS_ADDRESS has no scheme."), "harness: HARNESS_ADDRESS has no scheme."),
        (ImproperlyConfigured("First.\nSecond."), "harness: First.\nharness: Second."),
        (
            OperationalError("no such table: django_session"),
            "harness: The tables are missing (no such table: django_session).",
        ),
        (ProgrammingError('relation "django_session" does not exist'), "harness: The tables are missing (relation"),
        (
            MigrationsMissing("no such table: checkpoints_run", may_have_happened=False),
            "harness: The tables are missing (no such table: ",
        ),
        (ProgrammingError("permission denied for schema public"), "harness: The database refused it: permission"),
        (
            MigrationSchemaMissing("Unable to create the table (permission denied for schema public\nLINE 1: …)"),
            "harness: The database refused it: Unable to create the table (permission denied for schema public",
        ),
        (OperationalError("unable to open database file"), "harness: The SQLite file "),
        (WorkspaceNotFound("x"), "harness: There is no workspace 'x' in this database. Create it"),
        (OperationalError("refused"), "harness: The database does not answer: refused. Check HARNESS_DATABASE_URL"),
    ],
)
def test_wrong_setting_is_reported_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(_: list[str]) -> None:
        raise error

    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    monkeypatch.setattr("django.core.management.execute_from_command_line", fail)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["migrate"])
    assert str(ended.value).startswith(words)
    with pytest.raises(type(error)):
        command_line.main(["migrate", "--traceback"])


@pytest.mark.parametrize("command", ["check", "pending"])
def test_settings_module_that_does_not_exist_is_named_without_a_traceback(command: str) -> None:
    arguments = ["-c", f"from harness_site.command_line import main; main(['{command}'])"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "otherproject.settings"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "harness: DJANGO_SETTINGS_MODULE is 'otherproject.settings', and there is no module 'otherproject'. Run this"
    )


def test_database_of_a_project_with_another_user_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: list[str]) -> None:
        try:
            raise OperationalError("no such table: main.auth_user")
        finally:
            raise TransactionManagementError("You can't execute queries until the end of the 'atomic' block.")

    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    monkeypatch.setattr("django.core.management.execute_from_command_line", fail)
    with pytest.raises(SystemExit, match="was migrated by a Django project with another user model"):
        command_line.main(["migrate"])
    with pytest.raises(TransactionManagementError):
        command_line.main(["sweep"])


class PoolTimeout(Exception):
    """Stands for the error of psycopg's pool, which does not know why it got no connection."""


def test_refused_login_is_reported_with_the_reason_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: list[str]) -> None:
        raise OperationalError("couldn't get a connection after 5.00 sec") from PoolTimeout()

    def build(asked: object, _: Exception) -> ConnectionFailed:
        assert getattr(asked, "alias", "") == connection.alias
        return ConnectionFailed("The database says: password authentication failed.", may_have_happened=False)

    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    monkeypatch.setattr("django.core.management.execute_from_command_line", fail)
    monkeypatch.setattr("checkpoints.db.connection.find_reason_and_build_connection_failed_error", build)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["migrate"])
    assert str(ended.value).startswith("harness: The database says: password authentication failed.")
    assert "Check host, port, database name, user and password" in str(ended.value)


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_overview_needs_no_settings(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no_such_module")
    command_line.main(arguments)
    assert capsys.readouterr().out == format_overview(is_site_installed=True) + "\n"


def test_checkout_is_told_the_program_that_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/srv/checkout/manage.py"])
    command_line.main(["help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("Usage: python manage.py COMMAND [options]")
    assert "python manage.py COMMAND --help describes the options of a command." in lines
    calls: list[list[str]] = []
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    monkeypatch.setattr("django.core.management.execute_from_command_line", calls.append)
    command_line.main(["migrate"])
    assert calls == [["manage.py", "migrate"]]


def test_overview_lists_each_command_of_the_project_and_none_that_is_missing() -> None:
    listed = [name for commands in COMMANDS.values() for name in commands]
    existing = get_commands()
    own = {name for name, app in existing.items() if str(app).startswith(("checkpoints", "harness_site"))}

    assert len(listed) == len(set(listed))
    assert own - set(listed) == set()
    assert set(listed) - {"mcp", "mcp-guard"} - set(existing) == set()
    assert max(map(len, format_overview(is_site_installed=True).splitlines())) <= 100


def test_overview_without_the_site_lists_the_commands_of_the_library() -> None:
    overview = format_overview(is_site_installed=False)

    assert "  verify_audit " in overview
    assert "  mcp-guard " in overview
    assert "createsuperuser" not in overview
    assert "People and programs" not in overview
    assert 'pip install "harness-checkpoints[site]"' in overview


def test_help_of_a_command_without_django_is_that_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["help", "mcp-guard"])
    assert ended.value.code == 0
    assert "usage: harness mcp-guard" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "unbuffered"), [(["--help"], "1"), (["migrate", "--help"], "")])
def test_output_that_nobody_reads_ends_the_command_quietly(arguments: list[str], unbuffered: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)  # as `head` does when it has enough
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    try:
        ended = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (ended.returncode, ended.stderr) == (141, "")


def run_harness(folder: Path, *commands: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other in one process, with a line `---` after the output of each."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "DJANGO_"))}
    variables |= {"HARNESS_STATE_DIR": str(folder), "DJANGO_SUPERUSER_PASSWORD": "correct-horse-battery"}
    code = "\n".join(
        (
            "import sys",
            "from harness_site.command_line import main",
            "for command in sys.argv[1:]:",
            "    main(command.split())",
            "    print('---')",
        )
    )
    return subprocess.run(
        [sys.executable, "-c", code, *commands],
        cwd=ROOT,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
    )


def test_only_the_reason_of_a_server_that_refuses_is_printed(tmp_path: Path) -> None:
    pytest.importorskip("psycopg_pool")
    with socket.socket() as taken:  # bound without listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://harness:secret@127.0.0.1:{taken.getsockname()[1]}/harness"
        ended = run_harness(tmp_path, "add_member ann admin", HARNESS_DATABASE_URL=url)
        described = run_harness(tmp_path, "add_member --help", HARNESS_DATABASE_URL=url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(r"harness: The database says: .*refused.*\n", ended.stderr), ended.stderr
    assert "secret" not in ended.stderr
    assert described.stdout.startswith("usage: ")


def test_createsuperuser_without_a_terminal_names_another_way() -> None:
    with pytest.raises(CommandError, match=r"There is no terminal that could ask .* setup_link prints a link"):
        call_command(create_superuser_command.Command(), stdin=StringIO())


@only_exhaustive
def test_createsuperuser_names_only_commands_that_exist_and_says_when_nobody_becomes_a_member(tmp_path: Path) -> None:
    create = "createsuperuser --noinput --email= --username"
    early = run_harness(tmp_path, f"{create} ann")
    assert (early.returncode, early.stdout) == (1, "")
    assert early.stderr == (
        "harness: The tables are missing (no such table: auth_user). Run harness migrate first, with the same "
        "HARNESS_STATE_DIR.\n"
    )
    commands = ("migrate --verbosity=0", f"{create} ann", "add_member ann admin", f"{create} root2")
    done = run_harness(tmp_path, *commands)
    assert done.returncode == 0, done.stderr
    _, first, _, second, _ = done.stdout.split("---\n")
    assert first == "Superuser created successfully.\n"
    assert second.startswith(
        "Superuser created successfully.\nThis installation has an admin already, so root2 is no member of a workspace "
        "yet. Make root2 one with "
    )
    assert second.endswith(" add_member root2 ROLE.\n")
