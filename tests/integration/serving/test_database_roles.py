"""Privileges of the PostgreSQL roles, tested by processes on a separate server."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from types import SimpleNamespace
from typing import Final, LiteralString
from urllib.parse import urlencode

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from psycopg import sql

from harness_site import postgresql_role_statements
from harness_site.installation.agent_connection_examples import get_connection_or_first
from tests.support.cluster import Cluster
from tests.support.django_commands import run_commands, run_commands_without_error
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import PASSWORD, Agent, Site, create_tables_and_accounts

ROOT: Final = Path(__file__).parents[3]
ROLES: Final = ("agent", "site", "migration")
PATIENCE: Final = 90


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """URLs of one database by role; `owner` is the superuser who created it. All processes have a key of seals."""
    with pytest.MonkeyPatch.context() as environment, Cluster() as server:
        environment.setenv("HARNESS_SEAL_KEY", "5e" * 32)
        script = create_tables_and_accounts(server.url, "database_roles")
        for _ in range(2):  # it may run again
            with psycopg.connect(server.url, autocommit=True) as admin:
                admin.execute(script.encode())
        found = {"owner": server.url}
        with psycopg.connect(server.url, autocommit=True) as admin:
            for role in ROLES:
                login, group = sql.Identifier(f"{role}_1"), sql.Identifier(f"harness_{role}")
                admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret' IN ROLE {}").format(login, group))
                if role == "migration":
                    admin.execute("ALTER ROLE migration_1 SET role = 'harness_migration'")
                found[role] = re.sub(r"//.*@", f"//{role}_1:secret@", server.url)
        yield found


def manage(url: str, *commands: str) -> str:
    """Run commands in one process with this database, and return the output of the first one."""
    return run_commands_without_error(url, *commands)[0]


def python(url: str, code: str) -> None:
    """Run a script that opens this database as users of the library do."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    code = f"from checkpoints import SyncCheckpointer\ncp = SyncCheckpointer.open({url!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def refused(url: str, statement: LiteralString) -> bool:
    with psycopg.connect(url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(statement)
    return True


def test_agent_and_site_work_with_their_roles(urls: dict[str, str], tmp_path: Path) -> None:
    """The agent dies during a payment, a person decides in the browser, and the agent continues."""
    with Site(urls["site"], tmp_path) as site:
        agent = Agent(17, tmp_path / "17", urls["agent"], 0.0)
        try:
            browser = Browser(site.address)
            browser.sign_in("alice")
            browser.decide(interrupted_call(urls["owner"]))
            agent.wait()
        finally:
            agent.stop()
        session = value(urls["owner"], "SELECT id FROM checkpoints_session WHERE session_id = 'order-17'")
        for path in ("/review/", "/sessions/", "/sessions/?q=lamp", "/overview/", "/calls/", "/audit/", "/accounts/"):
            browser.get(path)
        for path in ("", "timeline/", "versions/", "history/", "export/jsonl/", "export/html/"):
            browser.get(f"/sessions/{session}/{path}")
        browser.post(f"/sessions/{session}/fork/", {"session_id": "another-17"}, hidden="version")
        log = site.log()
        assert "permission denied" not in log, log
    assert value(urls["owner"], "SELECT status FROM checkpoints_session WHERE session_id = 'order-17'") == "completed"
    assert value(urls["owner"], "SELECT count(*) FROM checkpoints_session WHERE session_id = 'another-17'") == 1
    assert (agent.refunds, agent.mails) == (1, 1)
    manage(urls["site"], "sweep", "deliver", "index_search", "verify_audit", "pending")


@only_exhaustive
def test_all_rows_can_be_verified_with_every_role_again_and_again(urls: dict[str, str]) -> None:
    python(urls["agent"], "cp.start_session('verified'); cp.save_checkpoint('verified', [], {}, 0)")
    for role, more in (("site", ()), ("agent", ()), ("site", ("verify_audit",))):
        manage(urls[role], "verify_integrity --all", *more)
        assert value(urls["owner"], "SELECT finished FROM checkpoints_integritycheck") is True


def interrupted_call(url: str) -> int:
    """Return the interrupted call of the dead agent, after another process has detected it."""
    deadline = time.monotonic() + PATIENCE
    statement: Final = "SELECT min(id) FROM checkpoints_toolcall WHERE status = 'interrupted'"
    while (found := value(url, statement)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert isinstance(found, int)
    return found


def value(url: str, statement: LiteralString) -> object:
    with psycopg.connect(url) as session:
        row = session.execute(statement).fetchone()
    assert row is not None
    return row[0]


class Browser:
    """HTTP client that signs in and submits forms."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def sign_in(self, name: str) -> None:
        self.post("/accounts/login/", {"username": name, "password": PASSWORD})

    def decide(self, pk: int) -> None:
        form = {"kind": "confirm_landed", "result": "Refunded 40.00 EUR.", "reason": "Seen in the ledger."}
        self.post(f"/review/calls/{pk}/", form, hidden="revision")

    def get(self, path: str) -> str:
        with self._opener.open(f"{self._address}{path}", timeout=PATIENCE) as response:
            assert response.status == 200
            return str(response.read().decode())

    def post(self, path: str, form: dict[str, str], *, hidden: str = "csrfmiddlewaretoken") -> None:
        """Submit a form of a page with its hidden fields."""
        page = self.get(path)
        for name in {"csrfmiddlewaretoken", hidden}:
            found = re.search(rf'name="{name}" value="([^"]+)"', page)
            assert found
            form = {**form, name: found[1]}
        body = urlencode(form).encode()
        with self._opener.open(f"{self._address}{path}", body, timeout=PATIENCE) as response:
            assert response.status == 200


def test_agent_role_cannot_read_tables_of_the_site(urls: dict[str, str]) -> None:
    tables = {
        model._meta.db_table
        for model in postgresql_role_statements.list_models_sorted_by_table()
        if model._meta.app_label != "checkpoints"
    }
    assert {
        "auth_user",
        "django_session",
        "harness_accounts_apitoken",
        "harness_accounts_throttleentry",
        "mfa_authenticator",
    } <= tables
    assert rights(urls, "agent", tables) == set()
    assert refused(urls["agent"], "SELECT password FROM auth_user")
    assert refused(urls["agent"], "SELECT * FROM django_session")
    assert refused(urls["agent"], "INSERT INTO harness_accounts_throttleentry VALUES ('a', 'b', now())")


@pytest.mark.parametrize("role", ["agent", "site"])
def test_audit_rows_cannot_be_changed_or_deleted(urls: dict[str, str], role: str) -> None:
    records = {"checkpoints_auditevent", "checkpoints_decision", "checkpoints_lateresult"}
    given = rights(urls, role, records)
    assert given == {(table, right) for table in records for right in ("SELECT", "INSERT")}
    assert refused(urls[role], "UPDATE checkpoints_auditevent SET actor = 'somebody else'")
    assert refused(urls[role], "DELETE FROM checkpoints_auditevent")
    assert refused(urls[role], "UPDATE checkpoints_decision SET actor = 'somebody else'")
    assert refused(urls[role], "DELETE FROM checkpoints_decision")
    assert refused(urls[role], "TRUNCATE checkpoints_decision CASCADE")


def test_only_the_site_role_seals_audit_entries(urls: dict[str, str]) -> None:
    assert refused(urls["agent"], "UPDATE checkpoints_auditevent SET seal = ''")
    with psycopg.connect(urls["site"]) as session:
        session.execute("UPDATE checkpoints_auditevent SET seal = seal, number = number")
        session.rollback()


@pytest.mark.parametrize("role", ["agent", "site"])
def test_agent_and_site_roles_cannot_change_the_schema(urls: dict[str, str], role: str) -> None:
    assert refused(urls[role], "CREATE TABLE another (id int)")
    assert refused(urls[role], "ALTER TABLE checkpoints_decision DISABLE TRIGGER ALL")
    assert refused(urls[role], "DROP TABLE checkpoints_decision")
    assert refused(urls[role], "DELETE FROM checkpoints_session")


def test_migration_role_changes_and_prunes_tables(urls: dict[str, str]) -> None:
    save = "for n in range(3): cp.save_checkpoint('done', [{'id': n}], None, 0.0)"
    python(urls["agent"], f"cp.start_session('done')\n{save}")
    assert refused(urls["agent"], "DELETE FROM checkpoints_checkpoint")
    manage(urls["migration"], "migrate --verbosity=0", "prune done --keep-last 1")
    python(urls["agent"], "cp.start_session('done', takeover=True); cp.finish_session('done', 'completed')")
    manage(urls["migration"], "delete_session done")
    assert value(urls["owner"], "SELECT count(*) FROM checkpoints_session WHERE session_id = 'done'") == 0
    with psycopg.connect(urls["migration"]) as session:
        session.execute("ALTER TABLE harness_saved_savedview ADD COLUMN more int")
        session.rollback()


def test_login_of_agents_needs_the_tables_first(urls: dict[str, str]) -> None:
    with psycopg.connect(urls["owner"], autocommit=True) as admin:
        admin.execute("CREATE DATABASE without_tables")
    url = re.sub(r"/[^/]*$", "/without_tables", urls["owner"])
    for done in run_commands(url, "create_agent_login", "create_agent_login --print-sql"):
        assert done.error == (
            "The tables of the library are missing in this database. Run python manage.py migrate first."
        )
        assert done.output == ""


@only_exhaustive
@pytest.mark.django_db
def test_login_of_agents_is_created_by_the_owner_and_runs_the_connect_page(tmp_path: Path) -> None:
    """The commands of the page Connect, exactly as they stand, on a database whose owner is an ordinary user."""
    with Cluster() as server:
        owner, database = "office", "harness_office"
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {owner} LOGIN CREATEROLE PASSWORD 'secret'".encode())
            admin.execute(f"CREATE DATABASE {database} OWNER {owner}".encode())
        url = re.sub(r"//.*@(.*)/.*", rf"//{owner}:secret@\1/{database}", server.url)
        create_tables_and_accounts(url)
        line = manage(url, "create_agent_login").strip()
        login = line.removeprefix("export HARNESS_DATABASE_URL='").removesuffix("'")
        assert re.fullmatch(rf"postgresql://my_agent:[\w-]{{32}}@127.0.0.1:\d+/{database}", login)
        block = next(block for block in get_connection_or_first("python").build_blocks() if block.key == "program")
        (tmp_path / "first_agent.py").write_text(block.text)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        script = f"{line}\n{sys.executable} first_agent.py"
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert value(url, "SELECT count(*) FROM checkpoints_session WHERE status = 'completed'") == 1
        assert refused(login, "SELECT * FROM auth_user")
        assert refused(login, "DELETE FROM checkpoints_message")
        migrated, again, rights, *of_others = run_commands(
            url,
            "migrate --verbosity=0",  # the tables keep their owner
            "create_agent_login",
            "create_agent_login --rights-only",
            *(f"create_agent_login second --role {taken}" for taken in (owner, "my_agent")),
        )
        assert (migrated.error, rights.error) == ("", "")
        assert "There is a role my_agent already, and it stays as it is." in again.error
        assert [refused.error for refused in of_others] == [
            f"The role {taken} is a login or owns tables. Choose a role that only agents have."
            for taken in (owner, "my_agent")
        ]
        assert value(url, "SELECT count(*) FROM checkpoints_session") == 1
        with_options = manage(f"{url}?sslmode=prefer&prepare_threshold=none", "create_agent_login third").strip()
        assert with_options.endswith(f"/{database}?prepare_threshold=none&sslmode=prefer'")
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE {owner} NOCREATEROLE".encode())
        may_not, rights_only, printed = run_commands(
            url,
            "create_agent_login second",
            "create_agent_login --rights-only --role no_role_yet",
            "create_agent_login second --print-sql",
        )
        psql = re.sub(r".*:(\d+)/.*", r"sudo -u postgres psql -q -p \1 harness_office", url)
        assert f"python manage.py create_agent_login second --print-sql | {psql}" in may_not.error
        assert f"create_agent_login --rights-only --role no_role_yet --print-sql | {psql}" in rights_only.error
        with psycopg.connect(re.sub(r"/[^/]*$", f"/{database}", server.url), autocommit=True) as admin:
            admin.execute(printed.output.encode())
            admin.execute("REVOKE harness_agent FROM third")
        (without_rights,) = run_commands(with_options.partition("'")[2].removesuffix("'"), "pending")
        assert "permission denied" in without_rights.error
        assert "The login lacks a right." in without_rights.error
        assert "need a login in the role that migrates" in without_rights.error
        second = printed.error_output.strip().removeprefix("export HARNESS_DATABASE_URL='").removesuffix("'")
        assert value(second, "SELECT count(*) FROM checkpoints_session") == 1


@pytest.mark.parametrize(
    ("host", "port", "command"),
    [
        ("", "", "sudo -u postgres psql -q office"),
        ("/run/postgresql", "5433", "sudo -u postgres psql -q -p 5433 office"),
        ("/srv/my sockets", "", "sudo -u postgres psql -q -h '/srv/my sockets' office"),
        ("db.internal", "5432", "psql -q -h db.internal -U postgres office"),
    ],
)
def test_psql_of_an_administrator(monkeypatch: pytest.MonkeyPatch, host: str, port: str, command: str) -> None:
    values = {"HOST": host, "PORT": port, "NAME": "office"}
    monkeypatch.setattr(postgresql_role_statements, "connection", SimpleNamespace(settings_dict=values))
    assert postgresql_role_statements.format_psql_command_of_administrator() == command


def rights(urls: dict[str, str], role: str, tables: set[str]) -> set[tuple[str, str]]:
    """Return the privileges of a role on each table."""
    names = ("SELECT", "INSERT", "UPDATE", "DELETE")
    with psycopg.connect(urls["owner"]) as session:
        return {
            (table, right)
            for table in tables
            for right in names
            if session.execute("SELECT has_table_privilege(%s, %s, %s)", (f"{role}_1", table, right)).fetchone()
            == (True,)
        }


def test_roles_are_refused_on_sqlite() -> None:
    if connection.vendor == "postgresql":
        call_command("database_roles")
        return
    with pytest.raises(CommandError, match="SQLite has no roles"):
        call_command("database_roles")
    with pytest.raises(CommandError, match="SQLite has no logins"):
        call_command("create_agent_login")
