"""Each adapter refuses a version of its framework that it was not made for."""

import importlib
import sys
from importlib import metadata

import pytest

from checkpoints.exceptions import FrameworkNotSupported


@pytest.mark.parametrize(
    ("adapter", "package", "refused", "wanted"),
    [
        ("claude", "claude-agent-sdk", "0.3.0", ">=0.2.187,<0.3"),
        ("google_adk", "google-adk", "2.14.0", ">=2.13,<2.14"),
        ("langgraph", "langgraph", "2.0.0", ">=1.2.20,<2.0"),
        ("langgraph", "langgraph", "1.2.19", ">=1.2.20,<2.0"),
        ("openai_agents", "openai-agents", "0.25.1", ">=0.24,<0.25"),
        ("pydantic_ai", "pydantic-ai-slim", "3.0.0", ">=2.68,<3.0"),
        ("strands", "strands-agents", "2.0.0", ">=1.62,<2.0"),
    ],
)
def test_an_untested_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, adapter: str, package: str, refused: str, wanted: str
) -> None:
    module = importlib.import_module(f"checkpoints.adapters.{adapter}")
    installed = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: refused if name == package else installed(name))
    monkeypatch.delitem(sys.modules, module.__name__)
    with pytest.raises(FrameworkNotSupported) as caught:
        importlib.import_module(module.__name__)
    assert (caught.value.package, caught.value.installed, caught.value.wanted) == (package, refused, wanted)
