"""`harness serve` refuses an address on which it cannot listen before it loads the site."""

import socket
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from django.core.management import CommandError, call_command


@pytest.fixture(autouse=True)
def _server_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_options: Any) -> None:
        raise AssertionError("the server was started")

    monkeypatch.setattr(uvicorn, "run", fail)


def test_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"on 127.0.0.1, port {port}: Address already in use[.] Choose"):
            call_command("serve", port=port)


def test_socket_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"The folder of the socket does not exist, or .*: .*/missing"):
        call_command("serve", unix_socket=str(tmp_path / "missing" / "socket"))
