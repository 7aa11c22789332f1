"""Session of one demo run: its number, session id, and a folder for ledger and outbox."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import FINISHED_SESSION_STATUSES
from checkpoints.models import Session
from checkpoints.store.run_liveness_check import is_run_alive

FIRST_NUMBER = 17
AGENT = "refund-desk"


@dataclass(frozen=True)
class DemoSession:
    """Session of one demo run; `folder` is named by the number alone, so that no id becomes a path."""

    number: int
    folder: Path

    @property
    def session_id(self) -> str:
        return f"order-{self.number}"

    def load_session_or_none(self) -> Session | None:
        """Load the session; None until the agent has started it."""
        sessions = Session.objects.filter(workspace__slug=DEFAULT_WORKSPACE, session_id=self.session_id)
        return sessions.select_related("owner").first()

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def refunds(self) -> list[dict[str, Any]]:
        """Refunds that were really made."""
        return _read_json_lines(self.ledger)

    @property
    def mails(self) -> list[dict[str, Any]]:
        """Mails that were really sent."""
        return _read_json_lines(self.folder / "outbox.jsonl")


def reserve_demo_session_folder(root: Path) -> DemoSession:
    """Reserve the first number that is unused in the database and in `root` by creating its folder."""
    root.mkdir(parents=True, exist_ok=True)
    for number in count(FIRST_NUMBER):
        demo_session = DemoSession(number, root / str(number))
        if demo_session.load_session_or_none() is None and _try_to_create_folder(demo_session.folder):
            return demo_session
    raise AssertionError("unreachable: there always is another number")


def iterate_abandoned_sessions(root: Path) -> Iterator[DemoSession]:
    """Yield unfinished sessions of earlier demos without a live run."""
    numbers = sorted(int(folder.name) for folder in root.glob("*") if folder.name.isdecimal())
    for number in numbers:
        demo_session = DemoSession(number, root / str(number))
        session = demo_session.load_session_or_none()
        if session is None or session.agent != AGENT or session.status in FINISHED_SESSION_STATUSES:
            continue
        if session.owner is None or not is_run_alive(session.owner):
            yield demo_session


def _try_to_create_folder(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
