"""The site's pages in another Django project, below a prefix, beside apps with the same names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import global_settings

from harness_site import base_settings, checks
from tests.integration.embedding.clinic import visit
from tests.support.exhaustive_mode import choose_each, mark_all_but_each
from tests.support.processes import ROOT
from tests.support.site_process import fresh_database
from tests.support.url_table import TABLE

CLINIC = "tests.integration.embedding.clinic"
#: Beginnings of the names of the settings of django-allauth.
OF_ALLAUTH = ("ACCOUNT_", "MFA_", "SOCIALACCOUNT_")
Run = Callable[..., Any]


def run_module(database: str, *arguments: str) -> str:
    """Run a module in a process of its own with the settings of the project; return what it prints."""
    given = {
        name: value for name, value in os.environ.items() if not name.startswith("HARNESS_") or "EXHAUSTIVE" in name
    }
    project = {"DJANGO_SETTINGS_MODULE": f"{CLINIC}.settings", "CLINIC_DATABASE_URL": database}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *arguments],
        cwd=ROOT,
        env={**given, **project},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Database with the tables of the project, which the tests use copies of."""
    with fresh_database(tmp_path_factory.mktemp("migrated")) as database:
        run_module(database, "django", "migrate", "--verbosity=0", "--run-syncdb")
        yield database


def run_clinic_module(database: str, name: str, *arguments: str) -> Any:
    """Run a module of the project; return the last line that it prints, read as JSON."""
    return json.loads(run_module(database, f"{CLINIC}.{name}", *arguments).splitlines()[-1])


@pytest.fixture
def run(migrated_database: str, tmp_path: Path) -> Iterator[Run]:
    with fresh_database(tmp_path, migrated_database) as database:
        yield partial(run_clinic_module, database)


def test_settings_for_projects_replace_no_other_setting() -> None:
    names: dict[str, Any] = {}
    exec("from harness_site.base_settings import *", names)  # noqa: S102 - as the settings of a project do
    assert {"HARNESS_APPS", "ACCOUNT_ADAPTER"} < set(names)
    assert [name for name in names if name.isupper() and hasattr(global_settings, name)] == []
    assert {name for name in names if not name.startswith("__") and not name.isupper()} == set()
    assert "BASE_DIR" not in names
    others = {name for name in names if name.isupper() and not name.startswith(("HARNESS_", *OF_ALLAUTH))}
    page = (ROOT / "docs/embedding.md").read_text()
    assert {name for name in others if f"`{name}`" not in page} == set()


def test_every_page_answers_below_a_prefix(run: Run) -> None:
    seen = run("visit")

    assert seen["asked"] > len(choose_each(3, TABLE)) > 25
    assert seen["different"] == {}
    # What the address /accounts/workspace/default/review/ itself asks for.
    assert seen["outside"] == ["/review/"]
    assert seen["typed"] == ["/harness/accounts/login/?next=/harness/review/", 302, "/harness/review/"]
    assert seen["styles"] == 200
    assert seen["prices"] == [200, {}]
    assert seen["admin"][0] == 200
    assert set(seen["admin"][1]) == {"Cache-Control"}  # of the admin itself
    assert seen["below the prefix"] == [200, {}]
    assert seen["nowhere"] == [404, {}]
    assert seen["sign-in of the clinic"] == [200, {}]
    assert seen["own policy"] == [200, {"Content-Security-Policy": "script-src 'self'"}]
    assert seen["zone"] == "Africa/Nairobi en-us"
    assert seen["page of the site"][0] == 200
    headers = seen["page of the site"][1]
    assert (set(headers), headers["Content-Language"]) == (set(visit.ADDED_HEADERS), "de")
    assert "script-src 'nonce-" in headers["Content-Security-Policy"]
    assert seen["decided"] == [302, "approved"]
    assert seen["written"] == [201, "api-1"]
    assert seen["atomic"] == [True, False]
    assert seen["live"] is True


@pytest.mark.parametrize(("arguments", "english"), mark_all_but_each(2, [(["all"], "/en"), ([], "")]))
def test_links_stay_in_the_language_of_the_address(run: Run, arguments: list[str], english: str) -> None:
    seen = run("languages", *arguments)

    assert seen["pages"]["outside"] == []
    assert seen["pages"]["sign-in"] == [
        f"{place}/harness/accounts/login/?next={place}/harness/review/" for place in (english, "/de")
    ]
    assert seen["pages"]["api"] == [200, 200]
    assert seen["pages"]["chosen"] == [200, "de", True]
    assert seen["live"] == [True, True]


def test_page_before_migrations_names_the_command_of_the_project(fresh_url: str) -> None:
    seen = run_clinic_module(fresh_url, "unmigrated")

    assert (seen["status"], seen["own"]) == (503, 200)
    assert "Run “python manage.py migrate” with the settings of this project." in seen["page"]
    assert "HARNESS_DATABASE_URL" not in seen["page"]


def test_system_checks_name_each_missing_part(run: Run) -> None:
    found = run("checks")

    expected = {
        "nothing": [],
        "harness_site.saved_views": ["harness.E003"],
        "allauth.usersessions": ["harness.E003"],
        **{name: ["harness.E004"] for name in base_settings.HARNESS_MIDDLEWARE},
        "middleware in another order": ["harness.W004"],
        **{name: ["harness.E005"] for name in ("SITE_ADDRESS", "MAIL_FROM", "MAIL_SERVER")},
        **{name: ["harness.E005"] for name in ("EVIDENCE_BYTES", "WEBHOOK_HOSTS", "BEHIND_PROXY")},
        **{name: ["harness.E005"] for name in ("SERVER_LIMITS", "API_REQUESTS_PER_MINUTE")},
        **{name: ["harness.E005"] for name in ("ACCOUNT_FORMS", "MFA_FORMS")},
        "CHANNEL_LAYERS": ["harness.E005"],
        "AUTH_USER_MODEL": ["harness.E006"],
        **{name: ["harness.E007"] for name in ("ACCOUNT_ADAPTER", "MFA_ADAPTER", "SOCIALACCOUNT_ADAPTER")},
        "AUTHENTICATION_BACKENDS": ["harness.E008"],
        "SESSION_ENGINE": ["harness.E009"],
        "ROOT_URLCONF": ["harness.E010"],
        "another sign-in": ["harness.E011"],
        "template backend": ["harness.E012"],
        "builtins": ["harness.E013"],
        "context processors": ["harness.E013"],
        "a template of the same name": ["harness.E014"],
        "STATICFILES_DIRS": ["harness.E015"],
        "WHITENOISE_USE_FINDERS": ["harness.W006"],
        **{name: ["harness.E016"] for name in ("agents elsewhere", "accounts elsewhere")},
        "ASGI_APPLICATION": ["harness.W002"],
        "default cache": ["harness.E005"],
        "CACHES": ["harness.W003"],
    }
    assert found == expected


def test_check_says_how_templates_are_found(settings: Any) -> None:
    engine = settings.TEMPLATES[0]
    settings.TEMPLATES = [{**engine, "DIRS": [], "APP_DIRS": False}]

    problems = [each for each in checks.check_template_engine_and_shadowed_files(None) if each.id == "harness.E014"]
    assert {"HARNESS_TEMPLATE_DIRS" in str(each.hint) for each in problems} == {True}


def test_django_admin_is_read_only_for_superusers(run: Run) -> None:
    found = run("administer")

    assert set(found["registered"]) == {model.__name__ for model in apps.get_app_config("checkpoints").get_models()}
    seen = found["seen"]
    assert {name for name, answers in seen.items() if answers["row"]} >= {"Session", "Message", "ToolCall", "Decision"}
    for answers in seen.values():
        assert answers == {
            "superuser": [200],
            "staff": [403],
            "posts": [403],
            "kept": True,
            "said": [],
            "row": answers["row"],
        }
