"""The console script `harness` reports operator errors in one sentence."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, ProgrammingError

from checkpoints import __version__
from checkpoints.exceptions import WorkspaceNotFound
from harness_site import command_line


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
            OperationalError("no such table: auth_user"),
            "harness: The tables are missing (no such table: auth_user).",
        ),
        (ProgrammingError('relation "auth_user" does not exist'), "harness: The tables are missing (relation"),
        (ProgrammingError("permission denied for schema public"), "harness: The database refused it: permission"),
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
