"""The page about Pydantic AI is true, the example plays its story, and other versions are refused."""

from importlib import metadata
from pathlib import Path

import pytest

from checkpoints.adapters.framework_versions import require_version
from checkpoints.exceptions import FrameworkNotSupported
from examples.pydantic_ai_refunds.__main__ import play
from tests.docs.test_pages import run
from tests.support.processes import ROOT, database_url


def test_page_runs(tmp_path: Path) -> None:
    done = run(ROOT / "docs" / "pydantic-ai.md", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_example_refunds_once(workspace: object, effects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(database_url(), effects)
    assert capsys.readouterr().out.splitlines()[-1] == "Refunds in the end: 1."


@pytest.mark.parametrize("installed", ["2.67.9", "3.0.0", "", "unknown"])
def test_a_version_outside_the_range_is_refused(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    def get_version(package: str) -> str:
        if not installed:
            raise metadata.PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(metadata, "version", get_version)
    with pytest.raises(FrameworkNotSupported, match=r"pydantic-ai-slim>=2\.68,<3\.0"):
        require_version("pydantic-ai-slim", at_least=(2, 68), below=(3, 0))
