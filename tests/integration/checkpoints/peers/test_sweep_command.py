"""`manage.py sweep`."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from checkpoints import SyncCheckpointer
from checkpoints.models import Workspace
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import expire_deadlines, join, lose_run, pause


def swept(**options: Any) -> str:
    out = StringIO()
    call_command("sweep", stdout=out, **options)
    return out.getvalue().strip()


def test_sweep_covers_all_workspaces(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    pause(cp, join("j", "c1"))
    pause(open_checkpointer(workspace="other"), join("j", "c2"), session_id="elsewhere")
    expire_deadlines("c1", "c2")
    open_checkpointer().start_session("gone")
    lose_run("gone")

    assert json.loads(swept(json=True)) == {
        "lost": ["gone"],
        "expired": ["c1", "c2"],
        "complete": [["s", "j"], ["elsewhere", "j"]],
    }
    assert swept() == "0 runs were gone, 0 calls to other agents were given up."


def test_sweep_of_one_workspace_prints_its_counts(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    pause(cp, join("j", "c1"))
    expire_deadlines("c1")
    open_checkpointer().start_session("gone")
    lose_run("gone")

    assert swept(workspace="other").startswith("0 runs")
    assert swept(workspace="default").splitlines() == [
        "run lost: gone",
        "no answer in time: c1",
        "complete: join j of s",
        "1 runs were gone, 1 calls to other agents were given up.",
    ]


def test_unknown_workspace_is_an_error(cp: SyncCheckpointer) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        swept(workspace="nowhere")
