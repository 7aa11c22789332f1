"""Settings from environment variables, each tested in its own process."""

import json
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command

from harness_site.secret_key import require_strong_secret_key

ROOT = Path(__file__).parents[3]
KEY = "0123456789abcdefghijklmnopqrstuvwxyz"
#: Loads what the settings import from elsewhere, and evaluates expressions over new settings in forks: a new process
#: takes half a second of processor time for each.
EVALUATE = """
import json, os, sys, traceback
from harness_site import settings

for name in [name for name in sys.modules if name.partition(".")[0] in ("checkpoints", "harness_site")]:
    del sys.modules[name]
for line in sys.stdin:
    expression, environment = json.loads(line)
    ends = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        for number, (_, end) in enumerate(ends, 1):
            os.dup2(end, number)
        os.environ.clear()
        os.environ.update(environment)
        code = 0
        try:
            from harness_site import settings as s
            print(eval(expression))
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os._exit(code)
    said = []
    for reading, end in ends:
        os.close(end)
        with os.fdopen(reading) as file:
            said.append(file.read())
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *said]), flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def evaluating_process_ends() -> Iterator[None]:
    yield
    if start_evaluating_process.cache_info().currsize:
        start_evaluating_process().communicate(timeout=60)
        start_evaluating_process.cache_clear()


@cache
def start_evaluating_process() -> "subprocess.Popen[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    return subprocess.Popen(
        [sys.executable, "-c", EVALUATE],
        cwd=ROOT,
        env=inherited,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def shown(expression: str, **environment: str) -> str:
    """Evaluate an expression over the settings `s`, which are read with this environment."""
    done = _run(expression, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(**environment: str) -> str:
    done = _run("s.DEBUG", environment)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def _run(expression: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    process: Any = start_evaluating_process()
    process.stdin.write(json.dumps([expression, {**inherited, **environment}]) + "\n")
    process.stdin.flush()
    code, output, errors = json.loads(process.stdout.readline())
    return subprocess.CompletedProcess([], code, output, errors)


def test_defaults_are_for_a_single_machine() -> None:
    expression = "(s.DEBUG, s.ALLOWED_HOSTS, s.SESSION_COOKIE_SECURE, s.SECURE_SSL_REDIRECT, s.SECURE_HSTS_SECONDS)"
    assert shown(expression) == "(False, ['127.0.0.1', 'localhost'], False, False, 0)"


def test_default_database_is_a_file() -> None:
    assert shown("s.DATABASES['default']['NAME']") == str(ROOT / "var" / "harness.sqlite3")


def test_database_is_read_from_its_url() -> None:
    url = "postgresql://harness:secret@db.example:5433/agents"
    expression = "[s.DATABASES['default'][name] for name in ('ENGINE', 'HOST', 'PORT', 'NAME', 'USER')]"
    expected = ["django.db.backends.postgresql", "db.example", "5433", "agents", "harness"]
    assert shown(expression, HARNESS_DATABASE_URL=url) == str(expected)


def test_postgresql_uses_custom_plans() -> None:
    """With generic plans, the count of pending calls on every page would scan the whole log from the tenth time on."""
    options = shown("s.DATABASES['default']['OPTIONS']['options']", HARNESS_DATABASE_URL="postgresql://db/agents")
    assert "-c plan_cache_mode=force_custom_plan" in options


def test_postgresql_uses_no_parallel_workers_or_jit() -> None:
    options = shown("s.DATABASES['default']['OPTIONS']['options']", HARNESS_DATABASE_URL="postgresql://db/agents")
    assert "-c max_parallel_workers_per_gather=0 -c jit=off" in options


def test_postgresql_random_page_cost_is_low() -> None:
    options = shown("s.DATABASES['default']['OPTIONS']['options']", HARNESS_DATABASE_URL="postgresql://db/agents")
    assert "-c random_page_cost=1.1" in options


def test_site_with_postgresql_and_a_key_creates_no_state_folder(tmp_path: Path) -> None:
    state = tmp_path / "state"
    variables = {"HARNESS_STATE_DIR": str(state), "HARNESS_SECRET_KEY": KEY}
    assert shown("s.STATE_DIR", HARNESS_DATABASE_URL="postgresql://db/agents", **variables) == str(state)
    assert not state.exists()


def test_key_is_made_at_its_first_use(tmp_path: Path) -> None:
    variables = {"HARNESS_STATE_DIR": str(tmp_path / "state"), "HARNESS_DATABASE_URL": "postgresql://db/agents"}
    assert shown("s.STATE_DIR.exists()", **variables) == "False", "the administrator may be about to set one"
    assert shown("(len(s.SECRET_KEY), s.STATE_DIR.exists())", **variables) == "(64, True)"


def test_wrong_database_url_leaves_no_state_folder(tmp_path: Path) -> None:
    refused(HARNESS_DATABASE_URL="postgres:/x", HARNESS_STATE_DIR=str(tmp_path / "state"))
    assert list(tmp_path.iterdir()) == []


def test_sqlite_test_database_is_a_file(tmp_path: Path) -> None:
    name = shown("s.DATABASES['default']['TEST']['NAME']", HARNESS_DATABASE_URL=f"sqlite:///{tmp_path}/h.db")
    assert name.endswith(".sqlite3")


def test_https_is_enabled_by_one_setting() -> None:
    expression = "(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_SSL_REDIRECT, s.SECURE_HSTS_SECONDS)"
    assert shown(expression, HARNESS_HTTPS="1") == "(True, True, True, 31536000)"


def test_proxy_headers_are_trusted_only_if_configured() -> None:
    expression = "getattr(s, 'SECURE_PROXY_SSL_HEADER', None)"
    assert shown(expression) == "None"
    assert shown(expression, HARNESS_BEHIND_PROXY="yes") == "('HTTP_X_FORWARDED_PROTO', 'https')"


def test_reachable_site_requires_a_secret_key() -> None:
    said = refused(HARNESS_ALLOWED_HOSTS="harness.example")
    assert said.startswith("django.core.exceptions.ImproperlyConfigured: HARNESS_SECRET_KEY is not set.")
    assert "HARNESS_SECRET_KEY_FILE" in said
    assert "secrets.token_urlsafe(48)" in said


@pytest.mark.parametrize("command", [["-m", "harness"], ["manage.py", "serve"], ["manage.py", "check"]])
def test_every_wrong_setting_is_one_sentence_of_any_command(command: list[str]) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "DJANGO_"))}
    wrong = {
        "HARNESS_ALLOWED_HOSTS": "harness.example",
        "HARNESS_ADDRESS": "harness.example",
        "HARNESS_DATABASE_URL": "mysql://x",
        "HARNESS_EMAIL_URL": "nonsense",
        "HARNESS_OIDC_URL": "https://id.example",
        "HARNESS_LOG_LEVEL": "loud",
    }
    arguments = ["-c", "from harness_site.command_line import main; main(['migrate'])"]
    arguments = arguments if command == ["-m", "harness"] else command
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**inherited, **wrong}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    names = ["ADDRESS", "SECRET_KEY", "DATABASE_URL", "OIDC_URL", "EMAIL_URL", "LOG_LEVEL"]
    assert [line.split()[1].removeprefix("HARNESS_").rstrip(":") for line in lines] == names
    assert "set HARNESS_OIDC_CLIENT_ID as well" in done.stderr


def test_a_wrong_flag_number_or_folder_does_not_hide_other_wrong_settings(tmp_path: Path) -> None:
    done = _run(
        "s.DEBUG",
        {
            "HOME": str(tmp_path),
            "HARNESS_STATE_DIR": "relative",
            "HARNESS_DEBUG": "perhaps",
            "HARNESS_ADDRESS": "harness.example",
            "HARNESS_SECRET_KEY_FILE": str(tmp_path / "missing"),
            "HARNESS_HTTPS": "2",
            "HARNESS_HSTS_SECONDS": "1y",
            "HARNESS_CONNECTIONS": "0",
            "HARNESS_BODY_MEGABYTES": "0",
            "HARNESS_API_REQUESTS_PER_MINUTE": "many",
        },
    )
    assert done.returncode == 1
    text = done.stderr.partition("ImproperlyConfigured: ")[2]
    names = ["STATE_DIR", "DEBUG", "ADDRESS", "HTTPS", "SECRET_KEY_FILE", "HSTS_SECONDS", "BODY_MEGABYTES"]
    names += ["CONNECTIONS", "API_REQUESTS_PER_MINUTE"]
    assert [line.split()[0].removeprefix("HARNESS_") for line in text.splitlines()] == names
    assert "HARNESS_CONNECTIONS is '0': use a whole number of one or more." in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("HARNESS_ALLOWED_HOSTS", "a.example, https://harness.example.org/", "https://harness.example.org/"),
        ("HARNESS_ALLOWED_HOSTS", "harness.example.org:8000", "harness.example.org:8000"),
        ("HARNESS_ALLOWED_HOSTS", "a.example b.example", "a.example b.example"),
        ("HARNESS_TRUSTED_ORIGINS", "harness.example.org", "harness.example.org"),
        ("HARNESS_TRUSTED_ORIGINS", "https://harness.example.org/", "https://harness.example.org/"),
        ("HARNESS_OIDC_ORIGINS", "id.example.org", "id.example.org"),
        ("HARNESS_WEBHOOK_HOSTS", "http://hooks.internal/", "http://hooks.internal/"),
    ],
)
def test_a_host_or_origin_that_equals_none_of_a_request_is_refused(name: str, value: str, wrong: str) -> None:
    said = refused(**{name: value, "HARNESS_SECRET_KEY": KEY})
    assert said.startswith(f"django.core.exceptions.ImproperlyConfigured: {name} has {wrong!r}. List ")
    assert f"for example {name}=" in said


def test_hosts_and_origins_are_read() -> None:
    assert (
        shown(
            "(s.ALLOWED_HOSTS, s.CSRF_TRUSTED_ORIGINS, s.WEBHOOK_HOSTS)",
            HARNESS_ALLOWED_HOSTS="*, .example.org, 10.0.0.5, [::1], harness_web",
            HARNESS_TRUSTED_ORIGINS="https://*.example.org, http://10.0.0.5:8000",
            HARNESS_WEBHOOK_HOSTS="Hooks.internal, ::1",
            HARNESS_SECRET_KEY=KEY,
        )
        == "(['*', '.example.org', '10.0.0.5', '[::1]', 'harness_web'], "
        "['https://*.example.org', 'http://10.0.0.5:8000'], ['hooks.internal', '::1'])"
    )


def test_single_sign_on_that_is_set_in_part_is_refused() -> None:
    assert "HARNESS_OIDC_CLIENT_ID is set: set HARNESS_OIDC_URL as well." in refused(HARNESS_OIDC_CLIENT_ID="harness")
    said = refused(HARNESS_OIDC_URL="id.example.org", HARNESS_OIDC_CLIENT_ID="harness")
    assert "HARNESS_OIDC_URL is 'id.example.org': give the address of the provider with its scheme" in said


def test_log_level_is_read_in_any_letter_case() -> None:
    assert shown("s.LOGGING['root']['level']", HARNESS_LOG_LEVEL="info") == "INFO"


def test_key_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert shown("s.SECRET_KEY", HARNESS_SECRET_KEY_FILE=str(tmp_path / "key")) == KEY


@pytest.mark.parametrize("key", ["changeme", KEY[:31], "x" * 50, "abc" * 20, f"django-insecure-{KEY}"])
def test_weak_key_is_refused(key: str) -> None:
    said = refused(HARNESS_SECRET_KEY=key)
    assert "HARNESS_SECRET_KEY is too easy to guess" in said
    assert "secrets.token_urlsafe(48)" in said
    assert key not in said


def test_weak_key_is_accepted_in_development() -> None:
    assert shown("s.SECRET_KEY", HARNESS_SECRET_KEY="changeme", HARNESS_DEBUG="1") == "changeme"


def test_random_keys_are_accepted() -> None:
    for key in (secrets.token_hex(16), secrets.token_urlsafe(48), secrets.token_urlsafe(24)):
        require_strong_secret_key(key)


def test_generated_key_file_is_private() -> None:
    key = ROOT / "var" / "secret_key"
    assert shown("s.SECRET_KEY") == key.read_text().strip()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_deployment_passes_every_check(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdefghijklmnopqrstuvwxyz" * 2)
    environment = {
        "HARNESS_HTTPS": "1",
        "HARNESS_ALLOWED_HOSTS": "harness.example",
        "HARNESS_SECRET_KEY_FILE": str(tmp_path / "key"),
        "HARNESS_DATABASE_URL": f"sqlite:///{tmp_path}/h.db",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "INFO"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_cookies_are_bound_to_the_host_over_https() -> None:
    names = "(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME)"
    assert shown(names, HARNESS_HTTPS="1") == "('__Host-harness', '__Host-harness-form')"


def test_hsts_for_subdomains_is_optional() -> None:
    expression = "(s.SECURE_HSTS_INCLUDE_SUBDOMAINS, s.SECURE_HSTS_PRELOAD)"
    assert shown(expression, HARNESS_HTTPS="1") == "(False, False)"
    assert shown(expression, HARNESS_HTTPS="1", HARNESS_HSTS_SUBDOMAINS="1") == "(True, True)"


def test_fallback_keys_are_read() -> None:
    assert shown("s.SECRET_KEY_FALLBACKS", HARNESS_OLD_SECRET_KEYS="one, two") == "['one', 'two']"


def test_client_address_is_taken_from_a_proxy_only_if_configured() -> None:
    expression = "getattr(s, 'ALLAUTH_TRUSTED_PROXY_COUNT', 0)"
    assert (shown(expression), shown(expression, HARNESS_BEHIND_PROXY="1")) == ("0", "1")


@pytest.mark.django_db  # a check of a field asks the database what it supports, and the answer may be known already
def test_every_check_passes() -> None:
    call_command("check", fail_level="INFO")
    assert settings.ROOT_URLCONF == "harness_site.urls"


class TestMessages:
    def test_no_mail_backend_by_default(self) -> None:
        assert shown("(s.MAIL_SERVER, s.SITE_ADDRESS)") == "(None, 'http://127.0.0.1:8000')"

    def test_console_mail_backend_in_development(self) -> None:
        assert shown("s.MAIL_SERVER.security.name", HARNESS_DEBUG="1") == "CONSOLE"

    def test_mail_server_is_read_from_its_url(self, tmp_path: Path) -> None:
        (tmp_path / "url").write_text("smtp+starttls://har%40ness:pass%2Fword@mail.example\n")
        expression = "[str(getattr(s.MAIL_SERVER, name)) for name in ('security', 'host', 'port', 'user', 'password')]"
        said = shown(expression, HARNESS_EMAIL_URL_FILE=str(tmp_path / "url"))
        assert said == "['Security.STARTTLS', 'mail.example', '587', 'har@ness', 'pass/word']"
        ports = [
            shown("s.MAIL_SERVER.port", HARNESS_EMAIL_URL=f"{scheme}://mail.example") for scheme in ("smtp", "smtps")
        ]
        assert ports == ["25", "465"]

    def test_invalid_mail_url_is_not_shown(self) -> None:
        said = refused(HARNESS_EMAIL_URL="imap://user:password@mail.example")
        assert "HARNESS_EMAIL_URL is not understood" in said
        assert "password@mail" not in said

    def test_password_with_a_slash_in_the_mail_url_is_not_read_as_a_host(self) -> None:
        for rest in ("user:p@ss/w@mail.example:25", "user:pass/w@mail.example", "mail.example?x", "u:p#w@mail.example"):
            said = refused(HARNESS_EMAIL_URL=f"smtp://{rest}")
            assert "write / as %2F" in said, rest
            assert rest not in said
        assert shown("s.MAIL_SERVER.host", HARNESS_EMAIL_URL="smtp://mail.example/") == "mail.example"

    def test_sender_without_an_address_is_refused(self) -> None:
        for sender in ("foo", "Harness <harness>", "Harness <@example.org>"):
            assert "HARNESS_EMAIL_FROM has no e-mail address" in refused(HARNESS_EMAIL_FROM=sender)

    def test_links_start_with_the_site_address(self) -> None:
        key = {
            "HARNESS_SECRET_KEY": KEY,
            "HARNESS_ALLOWED_HOSTS": "127.0.0.1,harness.example",
            "HARNESS_HTTPS": "1",
        }
        expression = "(s.SITE_ADDRESS, s.MAIL_FROM)"
        assert shown(expression, **key) == "('https://harness.example', 'Harness <harness@harness.example>')"
        other = {"HARNESS_ADDRESS": "https://h.example/", "HARNESS_EMAIL_FROM": "Agents <agents@example.com>"}
        assert shown(expression, **key, **other) == "('https://h.example', 'Agents <agents@example.com>')"


def test_check_names_a_misspelt_variable_and_what_was_meant(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "DJANGO_"))}
    environment = {**inherited, "HARNESS_STATE_DIR": str(tmp_path), "HARNESS_ADRESS": "https://harness.example"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "(harness.W005) Nothing reads the environment variable HARNESS_ADRESS." in done.stderr
    assert "Did you mean HARNESS_ADDRESS?" in done.stderr


def test_check_refuses_an_address_of_a_database_without_both_slashes(tmp_path: Path) -> None:
    said = refused(HARNESS_DATABASE_URL="postgres:/x", HARNESS_STATE_DIR=str(tmp_path))
    assert "HARNESS_DATABASE_URL: The database cannot be opened: the value has a colon as a URL has, but no ://" in said
    assert "Use sqlite:///file.db, a path, or postgresql://" in said
    assert not list(tmp_path.glob("*.sqlite3"))
