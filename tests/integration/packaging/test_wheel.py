"""The wheel, installed into clean environments outside the checkout."""

import http.client
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.integration.packaging.clean_environment import (
    ROOT,
    clean_environment,
    create_environment,
    install,
    link_dependencies,
    list_installed,
    pip_install,
    run,
)
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.site_process import free_port


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs of an environment with the library only, shared by all tests."""
    return install(wheel, tmp_path_factory.mktemp("library"))


def test_wheel_contains_templates_styles_scripts_and_type_markers(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())

    packed = {name.removeprefix("harness_site/") for name in names}
    wanted = {
        str(path.relative_to(ROOT))
        for folder in ("templates", "static")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    assert wanted - packed == set()
    assert {"checkpoints/py.typed", "harness_site/py.typed"} <= names


SAVE_A_TURN = """
from checkpoints import SyncCheckpointer, ToolRegistry
with SyncCheckpointer("agent.db") as checkpointer:
    registry = ToolRegistry(checkpointer=checkpointer, session_id="order-17")

    @registry.tool
    def charge(amount: int) -> str:
        return f"charged {amount}"

    checkpointer.start_session("order-17", "Pay")
    checkpointer.save_checkpoint("order-17", [{"role": "user", "content": "Pay"}], None, 0)
    print(registry.dispatch("charge", {"amount": 4}, call_id="call-1").content)
"""

TYPED = """
from checkpoints import Checkpointer, SyncCheckpointer

def version(checkpointer: SyncCheckpointer) -> int:
    return checkpointer.load("order-17", "three")["version"]

async def save(checkpointer: Checkpointer) -> int:
    reveal_type(checkpointer.save_checkpoint)
    await checkpointer.load("order-17", "four")
    checkpointer.finish_session("order-17", "completed")
    return await checkpointer.save_checkpoint("order-17", [], None, 0, phase="turn")
"""
#: Of a method of the async class that is derived from the blocking one.
SAVED = "def (session_id: str, transcript: list[dict[str, Any]], plan:"


def test_library_requires_only_django(library: Path, tmp_path: Path) -> None:
    programs, work = library, tmp_path / "work"
    work.mkdir()

    assert list_installed(programs, work) == {"asgiref", "django", "harness-checkpoints", "sqlparse"}
    (work / "agent.py").write_text(SAVE_A_TURN)
    assert run(programs / "python", "agent.py", cwd=work) == "charged 4\n"
    url = f"sqlite:///{work / 'agent.db'}"
    assert "entries, all as they were recorded" in run(
        programs / "harness", "verify_audit", cwd=work, HARNESS_DATABASE_URL=url
    )

    (work / "typed.py").write_text(TYPED)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", programs / "python", "typed.py"],
        cwd=work,
        env=clean_environment(work),
        capture_output=True,
        text=True,
    )
    assert 'Argument 2 to "load" of "SyncCheckpointer" has incompatible type "str"; expected "int"' in checked.stdout
    assert 'typed.py:9: error: Argument 2 has incompatible type "str"; expected "int"' in checked.stdout
    assert 'typed.py:10: error: Value of type "Coroutine[Any, Any, None]" must be used' in checked.stdout
    assert "typed.py:11: error:" not in checked.stdout
    assert SAVED in checked.stdout
    assert "-> typing.Coroutine[Any, Any, int]" in checked.stdout


def test_commands_without_the_site_name_the_missing_extra(library: Path, tmp_path: Path) -> None:
    refused = subprocess.run(
        [library / "harness", "serve"], cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True
    )

    assert refused.returncode == 1
    assert "serve is a command of the site" in refused.stderr
    assert 'pip install "harness-checkpoints[site]"' in refused.stderr
    without_database = subprocess.run(
        [library / "harness", "pending"], cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True
    )
    assert without_database.returncode == 1
    assert "Set HARNESS_DATABASE_URL" in without_database.stderr
    assert "  verify_audit " in run(library / "harness", cwd=tmp_path)


#: Runs commands one after the other, because each process takes seconds to load the site.
IN_ONE_PROCESS = """
import sys
from harness_site.command_line import main
for command in sys.argv[1:]:
    main(command.split())
"""


def install_with_links(wheel: Path, folder: Path, extra: str) -> Path:
    """Install the wheel alone into a new environment, beside links to the packages that it needs."""
    programs = create_environment(folder)
    pip_install(programs, "--no-deps", f"harness-checkpoints @ {wheel.as_uri()}", folder=folder)
    link_dependencies(programs, wheel, extra.strip("[]"))
    return programs


@pytest.mark.parametrize("install_wheel", mark_all_but_each(2, [install_with_links, install]))
def test_site_serves_pages_from_the_wheel(
    wheel: Path, tmp_path: Path, install_wheel: Callable[[Path, Path, str], Path]
) -> None:
    programs = install_wheel(wheel, tmp_path, "[site]")
    work, state = tmp_path / "work", tmp_path / "state"
    work.mkdir()
    variables = {"HARNESS_STATE_DIR": str(state)}

    run(programs / "harness", "migrate", "--verbosity=0", cwd=work, **variables)
    password = {"DJANGO_SUPERUSER_PASSWORD": "correct-horse-battery"}
    create = "createsuperuser --noinput --username=owner --email="
    run(programs / "python", "-c", IN_ONE_PROCESS, create, "add_member owner admin", cwd=work, **variables, **password)
    with serving(programs, work, variables) as browser:
        status, page = browser.get("/accounts/login/")
        assert status == 200
        styles = re.findall(r'"(/static/[^"]+\.(?:css|js))"', page)
        assert len(styles) > 5
        assert [path for path in styles if browser.get(path)[0] != 200] == []
        browser.sign_in("owner", "correct-horse-battery")
        for path in ("/review/", "/sessions/", "/overview/", "/audit/", "/settings/members/"):
            assert browser.get(path)[0] == 200, path

    assert sorted(path.name for path in work.iterdir()) == []
    assert {"harness.sqlite3", "secret_key"} <= {path.name for path in state.iterdir()}


class Browser:
    """An HTTP client that keeps cookies."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookies: dict[str, str] = {}

    def get(self, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": cookies, "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        for header in response.headers.get_all("Set-Cookie") or ():
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value
        text = response.read().decode()
        connection.close()
        return response.status, text

    def sign_in(self, name: str, password: str) -> None:
        _, page = self.get("/accounts/login/")
        (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page))
        status, page = self.get("/accounts/login/", f"csrfmiddlewaretoken={token}&username={name}&password={password}")
        assert status == 302, page


@contextmanager
def serving(programs: Path, work: Path, variables: dict[str, str]) -> Iterator[Browser]:
    """The installed site on a free port, started in an empty folder."""
    port = free_port()
    arguments: list[str | Path] = [
        programs / "python",
        "-m",
        "uvicorn",
        "harness_site.asgi:application",
        f"--port={port}",
    ]
    environment = clean_environment(work) | variables
    site = subprocess.Popen([*arguments, "--log-level=warning"], cwd=work, env=environment)
    try:
        browser = Browser(port)
        deadline = time.monotonic() + 90
        while True:
            assert site.poll() is None
            assert time.monotonic() < deadline
            try:
                if browser.get("/health/")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        yield browser
    finally:
        site.terminate()
        site.wait(30)


@only_exhaustive
def test_library_works_in_another_django_project(library: Path, tmp_path: Path) -> None:
    run(library / "django-admin", "startproject", "shop", cwd=tmp_path)
    project = tmp_path / "shop"
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write('\nINSTALLED_APPS += ["checkpoints"]\n')
    (project / "agent.py").write_text(
        SAVE_A_TURN.replace('SyncCheckpointer("agent.db")', "SyncCheckpointer()").replace(
            "from checkpoints", "import django; django.setup()\nfrom checkpoints", 1
        )
    )

    run(library / "python", "manage.py", "migrate", "--verbosity=0", cwd=project)
    said = run(library / "python", "agent.py", cwd=project, DJANGO_SETTINGS_MODULE="shop.settings")

    assert said == "charged 4\n"
