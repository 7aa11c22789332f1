"""Where one story plays: a number, the session named after it, and a folder for the ledger and the outbox."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from checkpoints.enums import FINISHED_SESSION
from checkpoints.models import DEFAULT_WORKSPACE, Session
from checkpoints.saving.liveness import is_alive

FIRST_NUMBER = 17
AGENT = "refund-desk"


@dataclass(frozen=True)
class Stage:
    """`folder` is named by the number alone: no id ever becomes a path."""

    number: int
    folder: Path

    @property
    def session_id(self) -> str:
        return f"order-{self.number}"

    def session(self) -> Session | None:
        """None until the agent has begun."""
        found = Session.objects.filter(workspace__slug=DEFAULT_WORKSPACE, session_id=self.session_id)
        return found.select_related("owner").first()

    @property
    def refunds(self) -> list[dict[str, Any]]:
        """What really left the shop's account."""
        return _entries(self.folder / "ledger.jsonl")

    @property
    def mails(self) -> list[dict[str, Any]]:
        """What really was sent."""
        return _entries(self.folder / "outbox.jsonl")


def new_stage(root: Path) -> Stage:
    """The first number that neither the database nor `root` knows, taken by making its folder."""
    root.mkdir(parents=True, exist_ok=True)
    for number in count(FIRST_NUMBER):
        stage = Stage(number, root / str(number))
        if stage.session() is None and _made(stage.folder):
            return stage
    raise AssertionError("unreachable: there always is another number")


def abandoned_stages(root: Path) -> Iterator[Stage]:
    """Where an earlier demo was ended before its session was: nobody drives it any more."""
    numbers = sorted(int(folder.name) for folder in root.glob("*") if folder.name.isdecimal())
    for number in numbers:
        stage = Stage(number, root / str(number))
        session = stage.session()
        if session is None or session.agent != AGENT or session.status in FINISHED_SESSION:
            continue
        if session.owner is None or not is_alive(session.owner):
            yield stage


def _made(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
