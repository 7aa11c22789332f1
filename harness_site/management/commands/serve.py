import contextlib
import os
import socket
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.urls import reverse

from harness_site.accounts import first_admin
from harness_site.core.redact_secrets_in_one_time_links import copy_config_with_access_log_filter
from harness_site.installation.database_readiness import probe
from harness_site.serving.limited_http_connection import LimitedConnection
from harness_site.site_address import build_absolute_url, is_guessed_address_local


class Command(BaseCommand):
    help = "Serves the site: uvicorn with the limits on connections and clients that docs/operations.md lists."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
        parser.add_argument("--unix-socket", help="path of a socket to listen on instead, for a proxy in front")
        parser.add_argument(
            "--log-level",
            default="warning",
            choices=["critical", "error", "warning", "info", "debug"],
            help="level of the server's own entries in the log; that of the site is HARNESS_LOG_LEVEL "
            "(default: warning)",
        )
        parser.add_argument(
            "--access-log", action="store_true", help="print a line for each request except those for static files"
        )
        parser.add_argument(
            "--graceful-seconds", type=int, default=10, help="time for requests to end at a stop (default: 10)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["unix_socket"]:
            _require_writable_socket_folder(Path(options["unix_socket"]).absolute().parent)
        else:
            _refuse_unusable_address(options["host"], options["port"])
        if is_guessed_address_local():
            settings.SITE_ADDRESS = f"http://127.0.0.1:{options['port']}"
        bool(
            settings.SECRET_KEY
        )  # made now if it has to be, so that no request meets a folder that cannot be written to
        probe.call_now_or_once_tables_complete(self._print_setup_link)
        probe.find_problem()
        self._print_addresses(options["unix_socket"] or _format_local_address(options["host"], options["port"]))
        limits = settings.SERVER_LIMITS
        uvicorn.run(
            "harness_site.asgi:direct_application",
            host=options["host"],
            port=options["port"],
            uds=options["unix_socket"],
            http=LimitedConnection,
            h11_max_incomplete_event_size=limits.header_bytes,
            ws_max_size=limits.websocket_message_bytes,
            ws_per_message_deflate=False,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=options["graceful_seconds"],
            log_config=copy_config_with_access_log_filter(uvicorn.config.LOGGING_CONFIG, options["log_level"]),
            access_log=options["access_log"],
            # Proxies are trusted through Django's own settings only.
            proxy_headers=False,
            server_header=False,
        )

    def _print_addresses(self, local: str) -> None:
        """Print where people open the site, and where this process listens if that is another address."""
        site = build_absolute_url(reverse("harness:home")).rstrip("/")
        self.stdout.write(f"The address of the site is {site}")
        if site != local:
            self.stdout.write(f"This process listens on {local}")
        self.stdout.flush()

    def _print_setup_link(self) -> None:
        """Print how to create the first account, if there is none."""
        with contextlib.suppress(Error):  # the database has gone away meanwhile
            if first_admin.is_installation_without_accounts():
                link = first_admin.build_setup_link()
                hours = first_admin.LIFETIME.total_seconds() / 3600
                self.stderr.write(
                    "No account exists yet. Open this link to create the first admin "
                    f"(it works once, within {hours:.0f} hours):\n\n    {link}\n"
                )


def _format_local_address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refuse_unusable_address(host: str, port: int) -> None:
    """Refuse an address before the site is loaded, because uvicorn says that only after its message of success."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except (OSError, OverflowError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]
        raise CommandError(
            f"The site cannot listen on {host}, port {port}: {reason}. Choose others with --host and --port."
        ) from error


def _require_writable_socket_folder(folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise CommandError(f"The folder of the socket does not exist, or cannot be written to: {folder}")
