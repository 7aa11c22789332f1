"""The quick start: its files and commands do what the page says, up to the decision in the browser."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_files import commands_of, environment, files_of, run
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.processes import ROOT

PAGE = "quick-start.md"
FILES = files_of(PAGE)
COMMANDS = commands_of(PAGE)
HARNESS = "from harness_site.command_line import main; main()"

#: What a person does in the browser: open the queue, follow its link, choose an answer, press the button.
DECIDE = """
import re
import os
import django
django.setup()
from django.test import Client
from django.urls import reverse

browser = Client(headers={"host": "127.0.0.1"})
account = {"username": "alice", "password": os.environ["DJANGO_SUPERUSER_PASSWORD"]}
assert browser.post(reverse("harness_accounts:login"), account).status_code == 302
assert "My lamp arrived broken" in browser.get("/sessions/").content.decode()
queue = browser.get("/review/").content.decode()
assert "Refund 40.00 for order 17" in queue
card = re.search(r"/review/calls/\\d+/", queue)[0]
page = browser.get(card).content.decode()
for words in ("It happened", "It did not happen", "Run it once more"):
    assert words in page
decision = {
    "kind": os.environ["DECISION"],
    "result": "Refunded 40.00 for order 17." if os.environ["DECISION"] == "confirm_landed" else "",
    "reason": "The ledger has it.",
    "revision": re.search(r'name="revision" value="(\\d+)"', page)[1],
}
assert browser.post(card, decision).status_code == 302
"""


def test_every_file_of_the_page_is_tested() -> None:
    assert list(FILES) == ["shop/settings.py", "first_session.py", "refund_desk.py"]


def test_library_in_a_foreign_project(tmp_path: Path) -> None:
    run("-m", "django", "startproject", "shop", ".", folder=tmp_path)
    with (tmp_path / "shop" / "settings.py").open("a") as settings:
        settings.write(FILES["shop/settings.py"])
    (tmp_path / "first_session.py").write_text(FILES["first_session.py"])
    for command in ("manage.py migrate", "manage.py check --fail-level WARNING"):
        assert command in COMMANDS
        run(*command.split(), folder=tmp_path)

    variables = {"DJANGO_SETTINGS_MODULE": "shop.settings"}
    printed = [run("first_session.py", folder=tmp_path, variables=variables) for _ in range(2)]

    assert printed == [f"Charged 40.00 for order 17. Version {version}\n" for version in (2, 4)]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an installation whose first account becomes the admin when it signs in; the tests use copies of it."""
    folder = tmp_path_factory.mktemp("installation")
    (folder / "state").mkdir()
    for command, further in (
        ("migrate", ""),
        ("createsuperuser --username alice", "--noinput --email="),
    ):
        assert command in COMMANDS
        run("-c", HARNESS, *command.split(), *further.split(), folder=folder, variables=variables_of(folder))
    return folder


@pytest.fixture
def site(installation: Path, tmp_path: Path) -> dict[str, str]:
    """The variables of an installation of the test's own."""
    shutil.copytree(installation, tmp_path, dirs_exist_ok=True)
    return variables_of(tmp_path)


def variables_of(folder: Path) -> dict[str, str]:
    return {
        "HARNESS_DATABASE_URL": f"sqlite:///{folder}/harness.db",
        "HARNESS_STATE_DIR": str(folder / "state"),
        "DJANGO_SUPERUSER_PASSWORD": "correct-horse-battery",
    }


def test_crash_is_resolved_in_the_browser(tmp_path: Path, site: dict[str, str]) -> None:
    crash(tmp_path, site)
    decide_while_agent_waits(tmp_path, site, "confirm_landed")


@only_exhaustive
def test_call_that_did_not_happen_is_made_by_the_answer_that_the_page_names(
    tmp_path: Path, site: dict[str, str]
) -> None:
    (sentence,) = re.findall(r"\(If the\s+ledger were empty,[^)]*\)", (ROOT / "docs" / PAGE).read_text())
    assert re.findall(r"\*\*(.+?)\*\*", sentence) == ["Run it once more"]
    crash(tmp_path, site)
    (tmp_path / "ledger.txt").write_text("")
    decide_while_agent_waits(tmp_path, site, "approve_rerun")


def crash(folder: Path, site: dict[str, str]) -> None:
    (folder / "refund_desk.py").write_text(FILES["refund_desk.py"])
    run("refund_desk.py", "--crash", folder=folder, status=-signal.SIGKILL, variables=site)


def decide_while_agent_waits(folder: Path, site: dict[str, str], decision: str) -> None:
    """Start the agent again and decide: the refund is in the ledger once."""
    second = subprocess.Popen(
        [sys.executable, "refund_desk.py"],
        cwd=folder,
        env=environment(site),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    variables = {"DJANGO_SETTINGS_MODULE": "harness_site.settings", "DECISION": decision}
    try:
        run("-c", DECIDE, folder=folder, variables=site | variables)
        printed, errors = second.communicate(timeout=60)
    finally:
        if second.poll() is None:
            second.kill()
            second.communicate()

    assert (printed, second.returncode) == ("Refunded 40.00 for order 17.\n", 0)
    assert errors == "Session 'order-17' waits until a person decides about: refund (call_1).\n"
    assert (folder / "ledger.txt").read_text() == "order 17: 40.00\n"
