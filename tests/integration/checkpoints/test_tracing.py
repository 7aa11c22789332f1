"""OpenTelemetry spans of the library."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, VersionConflict
from tests.support.processes import ROOT


class RecordedSpan:
    """Span that records its attributes and status."""

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self.name, self.attributes, self.status, self.ended = name, attributes, "", 0

    def set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        self.attributes |= attributes

    def set_status(self, status: str) -> None:
        self.status = status

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[RecordedSpan]:
    recorded: list[RecordedSpan] = []

    def start_span(name: str, attributes: dict[str, Any]) -> RecordedSpan:
        recorded.append(RecordedSpan(name, attributes))
        return recorded[-1]

    api = SimpleNamespace(
        get_tracer=lambda name: SimpleNamespace(start_span=start_span),
        Status=lambda code, text: f"{code} {text}",
        StatusCode=SimpleNamespace(ERROR="error"),
    )
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)
    return recorded


def test_saves_calls_resumes_and_decisions_are_spans(cp: SyncCheckpointer, spans: list[RecordedSpan]) -> None:
    registry = ToolRegistry()
    registry.tool(name="pay", requires_approval=True)(_pay)
    with cp.session("s", "hello", registry=registry) as session:
        session.append([{"role": "user", "content": "a secret text"}])
        with pytest.raises(ApprovalRequired):
            session.dispatch("pay", {"to": "a secret text"}, "c1")
        (call,) = cp.pending_decisions()
        cp.approve_call("s", "c1", actor="alex", reason="a secret text", revision=call["revision"])
        session.dispatch("pay", {"to": "a secret text"}, "c1")
        session.dispatch("pay", {"to": "a secret text"}, "c1")
    with pytest.raises(VersionConflict):
        cp.append_checkpoint("s", [], expected_version=7)
    assert [(span.name, span.status) for span in spans] == [
        ("harness.resume", ""),
        ("harness.save", ""),
        ("execute_tool pay", "error ApprovalRequired"),
        ("harness.decide", ""),
        ("execute_tool pay", ""),
        ("execute_tool pay", ""),
        ("harness.save", "error VersionConflict"),
    ]
    assert {(span.ended, span.attributes["gen_ai.conversation.id"]) for span in spans} == {(1, "s")}
    assert [span.attributes.get("harness.call.replayed") for span in spans[4:6]] == [False, True]
    assert spans[4].attributes["gen_ai.tool.call.id"] == "c1"
    assert spans[3].attributes["harness.decision.kind"] == "approve"
    assert "secret" not in str([span.attributes for span in spans])


def _pay(to: str) -> str:
    return "paid"


def test_library_imports_no_opentelemetry() -> None:
    program = "import sys; from checkpoints import Checkpointer; assert not [n for n in sys.modules if 'opentel' in n]"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": str(ROOT)})
