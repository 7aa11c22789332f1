"""The checkpointer is loaded by the paths of `langgraph.json`, as the agent server loads it."""

import asyncio
import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver

from checkpoints.adapters.langgraph.agent_server import open_checkpointer
from checkpoints.exceptions import InvalidInput
from checkpoints.models import Session
from examples.langgraph_refunds.agent import build_agent
from tests.adapters.langgraph import agents
from tests.docs.page_files import files_of
from tests.support.processes import ROOT, database_url


def _load(path: str, folder: Path) -> Any:
    """Load what a path names: a name in a file, or one in a module."""
    if ".py:" in path:
        file, name = path.rsplit(":", 1)
        spec = importlib.util.spec_from_file_location("checkpointer_of_the_server", folder / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module_name, name = path.rsplit(".", 1)
        module = importlib.import_module(module_name)
    return getattr(module, name)


def _list_paths() -> list[str]:
    """List the paths in the blocks of the page that are a `langgraph.json`."""
    blocks = (ROOT / "docs" / "langgraph.md").read_text().split("```json\n")[1:]
    configs = [json.loads(block.partition("```")[0]) for block in blocks]
    return [config["checkpointer"]["path"] for config in configs if "checkpointer" in config]


@pytest.mark.parametrize("path", _list_paths())
def test_paths_of_the_page_load_a_checkpointer_for_agents(
    workspace: object, tmp_path: Path, effects: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", database_url())
    (tmp_path / "checkpointer.py").write_text(files_of("langgraph.md")["checkpointer.py"])

    async def serve() -> list[Any]:
        async with _load(path, tmp_path)() as saver:
            assert isinstance(saver, BaseCheckpointSaver)
            agent = build_agent(saver, effects)
            state = await agent.ainvoke(agents.QUESTION, agents.config())
            checkpoints = [found async for found in saver.alist(agents.config())]
            await saver.aprune(["s"])
            await saver.acopy_thread("s", "copy")
            await saver.adelete_thread("s")
            return [state["messages"][-1].content, len(checkpoints) > 1, await saver.aget_tuple(agents.config())]

    assert asyncio.run(serve()) == ["refunded 40 for order 17", True, None]
    assert list(Session.objects.values_list("session_id", flat=True)) == ["copy"]


def test_missing_address_of_the_database_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)

    async def serve() -> None:
        async with open_checkpointer():
            pass

    with pytest.raises(InvalidInput, match="HARNESS_DATABASE_URL"):
        asyncio.run(serve())


def test_every_optional_method_of_the_server_is_there() -> None:
    async def list_missing() -> list[str]:
        names = ("adelete_thread", "adelete_for_runs", "acopy_thread", "aprune")
        saver = importlib.import_module("checkpoints.adapters.langgraph").HarnessSaver
        return [name for name in names if getattr(saver, name) is getattr(BaseCheckpointSaver, name)]

    assert asyncio.run(list_missing()) == []
