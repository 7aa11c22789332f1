"""States that another version, another host or somebody else has written: typed errors, and nothing lost or run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from django.db.models import F
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.exceptions import CheckpointCorrupted, SchemaFromFuture
from checkpoints.models import Blob, Checkpoint, FrameworkState, Session
from checkpoints.versions.framework_value_blobs import convert_value_to_json
from tests.adapters.langgraph.agents import QUESTION, config

Open = Callable[..., SyncCheckpointer]


def _build_graph(saver: HarnessSaver, say: str = "yes") -> Any:
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [AIMessage(say)]})
    return graph.add_edge(START, "say").compile(checkpointer=saver)


def test_hosts_that_take_turns_lose_nothing(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    savers = [HarnessSaver(cp), HarnessSaver(open_checkpointer())]
    expected = []
    for turn in range(20):
        graph = _build_graph(savers[turn % 2], f"answer {turn}")
        graph.invoke({"messages": [HumanMessage(f"question {turn}")]}, config())
        expected += [f"question {turn}", f"answer {turn}"]
    for saver in savers:
        said = _build_graph(saver).get_state(config()).values["messages"]
        assert [message.content for message in said] == expected
    latest = cp.load_latest("s")
    assert latest is not None
    assert [message["content"] for message in latest["transcript"]] == expected


def test_a_newer_schema_is_refused_and_left_as_it_is(cp: SyncCheckpointer) -> None:
    graph = _build_graph(HarnessSaver(cp))
    graph.invoke(QUESTION, config())
    states = FrameworkState.objects.count()
    Checkpoint.objects.update(schema_version=99)
    Session.objects.update(revision=F("revision") + 1)  # as every write does
    with pytest.raises(SchemaFromFuture):
        graph.invoke({"messages": [HumanMessage("And now?")]}, config(), durability="sync")
    assert Checkpoint.objects.count() == 2
    assert FrameworkState.objects.count() <= states + 1  # a state without new messages changes no transcript


def test_a_state_that_names_a_program_is_shown_and_not_run(cp: SyncCheckpointer, tmp_path: Path) -> None:
    mark = tmp_path / "run"
    named = ormsgpack.packb(("os", "system", f"touch {mark}"))
    content = ormsgpack.packb(ormsgpack.Ext(0, named))
    shown: Any = convert_value_to_json(("msgpack", content))
    assert shown == {"type": "os.system", "value": f"touch {mark}"}
    assert not mark.exists()


def test_a_changed_blob_is_refused_before_it_is_read(cp: SyncCheckpointer, tmp_path: Path) -> None:
    mark = tmp_path / "run"
    graph = _build_graph(HarnessSaver(cp))
    graph.invoke(QUESTION, config())
    content = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch {mark}"))))
    Blob.objects.filter(type="msgpack").update(content=content, compressed=False)
    with pytest.raises(CheckpointCorrupted):
        _build_graph(HarnessSaver(cp)).get_state(config())
    assert not mark.exists()


@pytest.mark.parametrize("column", ["body", "body_type", "metadata", "metadata_type", "state_id"])
def test_an_altered_column_of_a_state_is_a_typed_error(
    cp: SyncCheckpointer, open_checkpointer: Open, column: str
) -> None:
    _build_graph(HarnessSaver(cp)).invoke(QUESTION, config())
    states = FrameworkState.objects.order_by("-state_id")
    newest, count = states[0], states.count()
    values: dict[str, list[Any]] = {
        "body": [b"", b"\x80", b"\xc0", bytes(newest.body)[:9]],
        "metadata": [b"", b"\xc0"],
        "state_id": [f"{newest.state_id}x", f"2{newest.state_id[1:]}"],
    }
    acts: list[Callable[[HarnessSaver], object]] = [
        lambda saver: _build_graph(saver).get_state(config()),
        lambda saver: list(_build_graph(saver).get_state_history(config())),
        lambda saver: _build_graph(saver).invoke({"messages": [HumanMessage("And now?")]}, config()),
        lambda saver: saver.build_resume(config()),
    ]
    if column.startswith("metadata"):
        acts.append(lambda saver: list(saver.list(None, filter={"step": 1})))
    for value in values.get(column, ["", "null", "json", "other"]):
        FrameworkState.objects.filter(pk=newest.pk).update(**{column: value})
        for act in acts:
            with pytest.raises(CheckpointCorrupted, match=r"session 's', the \w+ of the state"):
                act(HarnessSaver(open_checkpointer()))
    assert states.count() == count
    FrameworkState.objects.filter(pk=newest.pk).update(**{column: getattr(newest, column)})
    assert _build_graph(HarnessSaver(open_checkpointer())).get_state(config()).values["messages"]


def test_a_value_whose_type_is_gone_is_loaded_without_it(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    gone = ormsgpack.packb(ormsgpack.Ext(1, ormsgpack.packb(("shop_of_last_year", "Order", (17,)))))
    assert saver.serde.loads_typed(("msgpack", gone)) == [17]
    assert convert_value_to_json(("msgpack", gone)) == {"type": "shop_of_last_year.Order", "value": [17]}
