"""Random histories of a session, compared with a list of saved transcripts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import VersionConflict
from checkpoints.models import Message, Session
from tests.conftest import Open
from tests.support.exhaustive_mode import count_examples

Transcript = list[dict[str, Any]]
Step = tuple[str, int, list[int], bool]

#: Few different messages, so that histories repeat themselves and share prefixes by chance.
contents = st.integers(0, 5)
steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "save", "compact", "edit", "truncate", "repeat", "undo"]),
        st.integers(0, 12),
        st.lists(contents, max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


def message(content: int) -> dict[str, Any]:
    return {"n": content, "blocks": [{"kind": "text", "text": f"text {content}"}]}


def changed(transcript: Transcript, saved: list[Transcript], step: Step) -> Transcript:
    """Return the transcript after a step; edits happen in place, as loops do."""
    kind, place, new, _ = step
    place = min(place, len(transcript))
    added = [message(content) for content in new]
    if kind in {"append", "save"}:
        transcript.extend(added)
    elif kind == "compact":
        transcript[:place] = [{"summary": place}, *added]
    elif kind == "edit" and place < len(transcript):
        transcript[place]["n"] = [transcript[place].get("n"), new]
    elif kind == "truncate":
        del transcript[place:]
        transcript.extend(added)
    elif kind == "undo" and saved:
        transcript = copy.deepcopy(saved[place % len(saved)]) + added
    return transcript


class History:
    """Session, and the list of all its saved transcripts."""

    def __init__(self, open_checkpointer: Open, session_id: str) -> None:
        self.open_checkpointer, self.session_id = open_checkpointer, session_id
        self.cp: SyncCheckpointer = open_checkpointer()
        self.cp.start_session(session_id)
        self.transcript: Transcript = []
        self.saved: list[Transcript] = []

    def take(self, step: Step) -> None:
        kind, _, new, crashes = step
        if kind == "append":
            version = self._append([message(content) for content in new])
        else:
            self.transcript = changed(self.transcript, self.saved, step)
            version = self.cp.save_checkpoint(self.session_id, self.transcript, {"v": len(self.saved)}, 0)
        self.saved.append(copy.deepcopy(self.transcript))
        assert version == len(self.saved)
        if crashes:
            self.crash()

    def _append(self, new: Transcript) -> int:
        """Append to the newest version, whatever transcript the loop has in memory."""
        self.transcript = copy.deepcopy(self.saved[-1]) if self.saved else []
        self.transcript.extend(new)
        return self.cp.append_checkpoint(self.session_id, new, expected_version=len(self.saved))

    def crash(self) -> None:
        """Start the next run from the stored transcript."""
        self.cp = self.open_checkpointer()
        self.transcript = self.cp.resume(self.session_id, takeover=True).transcript

    def check(self) -> None:
        stored = [self.cp.load(self.session_id, number + 1)["transcript"] for number in range(len(self.saved))]
        assert stored == self.saved
        row = Session.objects.get(session_id=self.session_id)
        assert (row.latest_version, row.message_count) == (len(self.saved), len(self.saved[-1]))
        assert Message.objects.filter(session=row).count() <= sum(len(transcript) for transcript in self.saved)


def histories(run: Callable[[Open, list[Step]], None]) -> Callable[..., None]:
    """Many histories on one emptied database, each in a session of its own."""
    decorated: Callable[..., None] = settings(
        max_examples=count_examples(8),
    )(given(steps=steps)(run))
    return decorated


@histories
def test_every_version_of_a_random_history_is_exact(open_checkpointer: Open, steps: list[Step]) -> None:
    history = History(open_checkpointer, f"s{Session.objects.count()}")
    for step in steps:
        history.take(step)
    history.check()


@histories
def test_growing_history_stores_each_message_once(open_checkpointer: Open, steps: list[Step]) -> None:
    session_id = f"s{Session.objects.count()}"
    history = History(open_checkpointer, session_id)
    for _, place, new, crashes in steps:
        history.take(("save" if place % 2 else "append", 0, new, crashes))
    history.check()

    assert Message.objects.filter(session__session_id=session_id).count() == len(history.saved[-1])


@histories
def test_stale_expectation_never_writes(open_checkpointer: Open, steps: list[Step]) -> None:
    history = History(open_checkpointer, f"s{Session.objects.count()}")
    for step in steps:
        history.take(step)
        for expected in {len(history.saved) - 1, len(history.saved) + 1}:
            with pytest.raises(VersionConflict) as caught:
                history.cp.save_checkpoint(history.session_id, [{"stale": True}], None, 0, expected_version=expected)
            assert caught.value.latest == len(history.saved)
    history.check()
