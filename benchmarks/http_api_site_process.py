"""Site in a process of its own, on an empty database, for benchmarks of the HTTP API."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.benchmark_databases import KINDS, TITLES, run_temporary_postgresql_and_sqlite_folder

KIND_CHOICES = (*KINDS, "both")


def add_database_options_and_parse(parser: ArgumentParser) -> Namespace:
    """Parse the options of a benchmark, and those of `run_benchmark_module_on_each_database`."""
    parser.add_argument("--on", choices=KIND_CHOICES, default="both", help="database (default: both)")
    parser.add_argument("--database", default="", help="URL of the empty database of this process")
    return parser.parse_args()


def run_benchmark_module_on_each_database(module: str, options: Namespace, arguments: Sequence[str]) -> None:
    """Run `python -m module --database URL` with these arguments, once for each kind of database.

    A process can use one database only: the site's settings have one.
    """
    with run_temporary_postgresql_and_sqlite_folder() as databases:
        for kind in KINDS if options.on == "both" else (options.on,):
            url = databases.create_empty_database(kind, "http").url
            sys.stdout.write(f"{TITLES[kind]}\n")
            sys.stdout.flush()
            subprocess.run([sys.executable, "-m", module, f"--database={url}", *arguments], check=True)


@contextmanager
def migrate_and_serve_site(database: str, *, requests_per_minute: int = 1_000_000) -> Iterator[tuple[str, str]]:
    """Serve a site on an empty database. Yields its address, and a token of the role agent.

    The site answers 127.0.0.1 alone. Django is set up in this process with the settings and the database of the site.
    """
    os.environ["HARNESS_DATABASE_URL"] = database
    os.environ["HARNESS_API_REQUESTS_PER_MINUTE"] = str(requests_per_minute)
    os.environ["DJANGO_SETTINGS_MODULE"] = "harness_site.settings"
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0, interactive=False)
    token = _create_agent_token_secret()
    connection.close()
    from tests.support.site_process import Site

    with TemporaryDirectory(prefix="harness-benchmarks-") as folder, Site(database, Path(folder)) as site:
        yield site.address, token


def _create_agent_token_secret() -> str:
    from checkpoints.constants import DEFAULT_WORKSPACE
    from checkpoints.enums import ActorKind
    from checkpoints.models import Workspace
    from harness_site.accounts import api_tokens
    from harness_site.accounts.models import TokenRole

    workspace = Workspace.objects.get(slug=DEFAULT_WORKSPACE)
    issuer = api_tokens.TokenIssuer(ActorKind.MACHINE, "benchmark")
    return api_tokens.create_token_with_secret(
        workspace, name="benchmark", role=TokenRole.AGENT, lifetime=None, by=issuer
    )[1]
