"""Site, and programs on its database, in processes forked from a launcher that has loaded the site and its templates.

A new interpreter takes three seconds of processor time for that. `Site` starts a new one too, for tests of the start
itself and of what the environment sets: a forked site has the environment of the launcher, except for its database, and
hashes passwords quickly.
"""

import os
import sys
from importlib import import_module

#: What `serve` and its server import when they start.
SERVER_MODULES = ("harness_site.asgi", "uvicorn.loops.auto", "uvicorn.protocols.websockets.auto", "websockets.legacy")
#: With the hasher of the site, a password takes half a second of processor time.
QUICK_PASSWORD_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"


def preload() -> None:
    """Load the site and its templates, without opening its database."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "harness_site.settings"
    import django

    django.setup()
    from django.conf import settings

    settings.PASSWORD_HASHERS = [QUICK_PASSWORD_HASHER]
    for module in SERVER_MODULES:
        import_module(module)
    _load_templates()


def _load_templates() -> None:
    from django.template.loader import get_template

    from harness_site.base_settings import HARNESS_TEMPLATE_DIRS

    for folder in HARNESS_TEMPLATE_DIRS:
        for file in folder.rglob("*.html"):
            get_template(str(file.relative_to(folder)))


def serve(database: str, port: int) -> None:
    """Run the site as `manage.py serve` does; what it prints goes to the error output."""
    from django.core.management import call_command

    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    use_database(database)
    call_command("serve", port=port, log_level="warning", graceful_seconds=1)


def use_database(database: str) -> None:
    """Make the database with that path or URL the one of this process, which has opened none."""
    from django.conf import settings

    from checkpoints.database_url import database_from_url

    default, other = settings.DATABASES["default"], database_from_url(database)
    assert default["ENGINE"] == other["ENGINE"], "A forked site has the kind of database that its launcher has."
    default["NAME"] = other["NAME"]


def run_refund_desk(arguments: list[str]) -> None:
    """Run a process of the refund desk; what it prints goes to the error output."""
    from examples.refund_desk.__main__ import main

    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.exit(main(arguments))
