"""The programs on the page Connect an agent can be run unchanged."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils.html import strip_tags

from checkpoints.enums import Role
from checkpoints.seals.decision_keys import get_decision_keys
from harness_site.core import management_command_as_typed
from harness_site.installation import agent_connection_examples, views
from harness_site.installation.agent_connection_examples import CONNECTIONS, Connection, get_connection_or_first
from tests.support.django_commands import run_commands_without_error
from tests.support.factories import make_session, make_user
from tests.support.page_text import visible_text
from tests.support.sealed_mode import set_sealed_environment
from tests.support.site_process import fresh_database

#: Metadata of a session that was read from a file, and of one that the Claude Agent SDK sends.
IMPORTED = '{"import":{"estimate":{},"file":"a.jsonl","format":"claude-code"},"project":"claude-code"}'
MIRRORED = '{"import":{"format":"claude-agent-sdk"}}'
#: On PostgreSQL, the page asks the database whether it may create logins.
pytestmark = pytest.mark.django_db


def run_program(folder: Path, database: str) -> subprocess.CompletedProcess[str]:
    block = next(block for block in get_connection_or_first("python").build_blocks() if block.key == "program")
    (folder / "first_agent.py").write_text(block.text)
    environment = {"HARNESS_DATABASE_URL": database, "PYTHONPATH": str(settings.BASE_DIR)}
    return subprocess.run(
        [sys.executable, "first_agent.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("way", [way for way in CONNECTIONS if way.key != "django"], ids=lambda way: way.key)
def test_program_without_its_variables_says_what_to_run(way: Connection) -> None:
    guards = {
        "python": r'if not os\.environ\.get\("HARNESS_DATABASE_URL"\):\s+sys\.exit\("Run the line that ',
        "server": r'if not os\.environ\.get\("HARNESS_URL"\) or not os\.environ\.get\("HARNESS_TOKEN"\):\s+'
        r'sys\.exit\("Run the lines that ',
        "javascript": r"if \(!process\.env\.HARNESS_URL \|\| !process\.env\.HARNESS_TOKEN\) {\s+"
        r'console\.error\("Run the lines that ',
        "bash": r"\${HARNESS_TOKEN:\?Run the lines that ",
    }
    for program in filter(None, (way.build_blocks()[-1].text, way.approval_program)):
        guard = guards["server" if way.language == "python" and way.needs_token else way.language]
        assert len(re.split(guard + "begin", program)) > 1


def test_program_without_a_database_ends_with_what_to_run(tmp_path: Path) -> None:
    assert run_program(tmp_path, "").stderr == "Run the line that begins with export first, in this terminal.\n"


def test_program_runs_after_migrations_and_reports_missing_ones(tmp_path: Path) -> None:
    with fresh_database(tmp_path) as database:
        early = run_program(tmp_path, database)
        if database.startswith("postgresql"):  # a SQLite file is created with its tables
            assert "MigrationsMissing" in early.stderr
            assert "Where the site runs, with its settings, run `harness migrate`" in early.stderr
        else:
            assert early.stderr == f"Created the SQLite database {tmp_path / 'site.sqlite3'}.\n"
        run_commands_without_error(database, "migrate --verbosity=0")
        assert [run_program(tmp_path, database).stderr for _ in range(2)] == ["", ""], "it can be run twice"


@pytest.mark.parametrize("way", CONNECTIONS, ids=lambda way: way.key)
def test_copied_program_equals_the_displayed_one(client: Client, way: Connection) -> None:
    client.force_login(make_user(role=Role.ADMIN))
    page = client.get(f"/settings/connect/?how={way.key}").content.decode()
    shown = [unescape(strip_tags(block)) for block in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)]
    assert shown == [block.text for block in way.build_blocks()]


def test_each_program_has_a_session_of_its_own() -> None:
    """A program refuses to continue the finished session of another one."""
    names = [
        set(re.findall(r'"(first-[a-z-]+)"', program)) - {"first-user"}
        for way in CONNECTIONS
        for program in (way.build_blocks()[-1].text, way.approval_program)
    ]
    # Claude Code makes its own, and OpenTelemetry has no second program.
    assert sum(map(len, names)) == len(set().union(*names)) == 2 * (len(CONNECTIONS) - 1) - 1
    assert all(way.session_id.endswith("-session") or way.agent for way in CONNECTIONS)


def test_programs_contain_no_database_password() -> None:
    password = str(settings.DATABASES["default"].get("PASSWORD") or "no password")
    texts = [block.text for way in CONNECTIONS for block in way.build_blocks()]
    assert all(password not in text for text in texts)


def test_agent_is_told_to_set_the_keys_of_the_site_and_no_secret_is_shown(tmp_path: Path) -> None:
    with set_sealed_environment(tmp_path):
        blocks = {block.key: block.text for block in get_connection_or_first("python").build_blocks()}
        keys = get_decision_keys()
    assert keys is not None
    assert keys.signing is not None
    public = keys.signing.public_key().public_bytes_raw().hex()
    assert blocks["keys"].splitlines() == [
        "export HARNESS_SEAL_KEY=SEAL_KEY",
        f"export HARNESS_DECISION_VERIFY_KEYS={public}",
        "export HARNESS_WITNESS=WITNESS",
    ]
    assert "secrets]" in blocks["shell"]


@pytest.mark.parametrize("may_create", [True, False])
def test_project_that_includes_the_site_is_told_its_own_command(
    client: Client, monkeypatch: pytest.MonkeyPatch, may_create: bool
) -> None:
    monkeypatch.setattr(agent_connection_examples, "connection", SimpleNamespace(vendor="postgresql"))
    monkeypatch.setattr(views, "connection", SimpleNamespace(vendor="postgresql"))
    monkeypatch.setattr(agent_connection_examples, "may_create_roles", lambda: may_create)
    monkeypatch.setattr(management_command_as_typed, "is_standalone_site", lambda: False)
    monkeypatch.setattr(management_command_as_typed, "IS_CHECKOUT", False)
    client.force_login(make_user(role=Role.ADMIN))
    text = visible_text(client.get("/settings/connect/"))
    assert ("python manage.py create_agent_login my_agent --print-sql | " in text) is not may_create
    assert "psql does it as an administrator of the database" in text or may_create
    assert text.count("python manage.py create_agent_login my_agent") == 1
    assert (
        "Where the site runs, with its settings, run python manage.py migrate. Then run python manage.py create" in text
    )
    assert "harness create_agent_login" not in text


@pytest.mark.parametrize("way", CONNECTIONS, ids=lambda way: way.key)
def test_page_explains_the_errors_of_the_way(client: Client, way: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "IS_CHECKOUT", False)
    client.force_login(make_user(role=Role.ADMIN))
    text = visible_text(client.get(f"/settings/connect/?how={way.key}"))
    assert ("SessionBusy: another process works on the session, or was killed" in text) is way.needs_token
    assert ("MigrationsMissing: the database has no tables yet" in text) is not way.needs_token
    uses_pip = way.key not in ("django", "typescript", "opentelemetry")
    assert ("put the path of its file in the place of harness-checkpoints" in text) is uses_pip
    assert ("Run python3 -m venv .venv && . .venv/bin/activate, and then" in text) is uses_pip
    assert ("create_agent_login --rights-only" in text) is (connection.vendor == "postgresql" and not way.needs_token)


@pytest.mark.parametrize("way", [way for way in CONNECTIONS if way.approval_program], ids=lambda way: way.key)
def test_program_for_an_approval_is_complete(way: Connection) -> None:
    if way.language == "python":
        compile(way.approval_program, "first_approval.py", "exec")
    assert "The note waits for your decision." in way.approval_program


def test_page_waits_for_the_session_of_its_program(client: Client) -> None:
    """A session that was there before is not that of the program; one that has come since then is.

    One that was imported from a file never is, although its agent has the name of a program.
    """
    client.force_login(make_user(role=Role.ADMIN))
    arrived, waiting, following = "has arrived: ", "Waiting for the session", "Next: decide about a call"

    def read_page(query: str) -> list[bool]:
        page = visible_text(client.get(f"/settings/connect/?{query}"))
        return [text in page for text in (arrived, waiting, following)]

    old = make_session(session_id="of-another-program")
    assert read_page("how=langgraph") == read_page("how=claude") == [False, True, False]
    assert f"how=langgraph&amp;after={old.pk}" in client.get("/settings/connect/?how=langgraph").content.decode()
    assert read_page(f"how=langgraph&after={old.pk}") == [False, True, False]
    make_session(session_id="imported", agent="claude-code", metadata=IMPORTED)
    assert read_page("how=claude") == read_page(f"how=strands&after={old.pk}") == [False, True, False]
    make_session(session_id="first-langgraph-session", agent="claude-code", metadata=MIRRORED)
    assert read_page(f"how=strands&after={old.pk}") == [True, False, True]
    assert read_page("how=strands") == [False, True, False]
    assert read_page("how=langgraph") == read_page("how=claude") == [True, False, True]
    make_session(session_id="first-opentelemetry-session")
    assert read_page("how=opentelemetry") == [True, False, False], "observed calls wait for nobody"
