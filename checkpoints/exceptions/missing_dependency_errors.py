"""Errors about a package that is not installed, or whose version does not fit."""

from __future__ import annotations

from checkpoints.exceptions.base_error import CheckpointsError


class DriverMissing(CheckpointsError):
    """The Python package that talks to this kind of database is not installed."""

    code = "driver_missing"
    hint = "Install it with its connection pool: pip install 'psycopg[binary,pool]'."

    def __init__(self, using: str, why: str) -> None:
        self.using = using
        super().__init__(f"The database under the alias {using!r} cannot be opened: {why}.")


class HttpClientMissing(DriverMissing):
    """The Python package that talks to a server, `httpx`, is not installed."""

    code = "http_client_missing"
    hint = "Install it: pip install 'harness-checkpoints[remote]'."

    def __init__(self, url: str) -> None:
        self.using = url
        CheckpointsError.__init__(self, f"The server {url!r} cannot be reached: httpx is not installed.")


class DjangoMissing(CheckpointsError, ImportError):
    """Django is not installed, and a database of this process was asked for."""

    code = "django_missing"
    hint = (
        "Install it: pip install 'django>=5.2'. An agent whose sessions are on a server needs none: "
        'Checkpointer("https://…", token=…).'
    )

    def __init__(self) -> None:
        super().__init__("A database of this process needs Django, which is not installed.")


class FrameworkNotSupported(CheckpointsError, ImportError):
    """An agent framework is missing, or its version is not one that its adapter is made for."""

    code = "framework_not_supported"
    hint = "Install a version in that range: its adapter may lose something with another one."

    def __init__(self, package: str, installed: str, wanted: str) -> None:
        self.package, self.installed, self.wanted = package, installed, wanted
        found = f"version {installed} is installed" if installed else "it is not installed"
        super().__init__(f"The adapter needs {package}{wanted}, and {found}.")
