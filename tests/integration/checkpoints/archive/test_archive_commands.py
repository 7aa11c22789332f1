"""`manage.py export_session` and `import_session`."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session


def run(*words: str, **options: Any) -> str:
    output = StringIO()
    call_command(*words, stdout=output, **options)
    return output.getvalue().strip()


def test_session_is_exported_and_imported(open_checkpointer: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "s.session")
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("a"), None, 0)
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    size = json.loads(run("export_session", "s", path, json=True))["size"]
    assert run("export_session", "s", path) == f"Version 1, {size:,} bytes: {path}"
    cp.finish_session("s", "cancelled")
    with pytest.raises(CommandError, match="already is a session"):
        run("import_session", path)
    cp.mark_failed("s", "call_1", actor="alice", reason="I looked.", revision=2)
    cp.delete_session("s")

    with pytest.raises(CommandError, match="not 'other'"):
        run("import_session", path, session_id="other")
    assert run("import_session", path) == "Session 's' is here at version 1. 1 calls need a decision."


def test_import_as_json(open_checkpointer: Open, tmp_path: Path) -> None:
    cp = start_session(open_checkpointer())
    run("export_session", "s", str(tmp_path / "f"))
    cp.close()
    cp.delete_session("s")

    text_message = json.loads(run("import_session", str(tmp_path / "f"), json=True))
    assert text_message == {"session_id": "s", "version": 0, "undecided": 0}


def test_unknown_session_and_missing_file_are_reported(open_checkpointer: Open, tmp_path: Path) -> None:
    open_checkpointer()

    with pytest.raises(CommandError, match="There is no session 'unknown'"):
        run("export_session", "unknown", str(tmp_path / "f"))
    with pytest.raises(CommandError, match="cannot be read"):
        run("import_session", str(tmp_path / "f"))
