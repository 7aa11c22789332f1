"""Moved messages, and expanding unchanged ones."""

import pytest
from django.test import Client

from checkpoints.models import Session
from harness_site.sessions.compare import compare_versions
from harness_site.sessions.compare.message_alignment import Added, Fold, FurtherMessages, Moved, MovedAway, Same
from tests.integration.sessions.compare_helpers import compared, rewrite, say
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import make_checkpoint, make_run, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


def stored(session: Session, names: str) -> None:
    """Create a version with one message for each letter of `names`."""
    rewrite(session, 0)
    for name in names:
        say(session, f"What {name} says.", id=name)
    make_checkpoint(session=session)


def test_message_at_another_position_has_moved(session: Session, reader: Client) -> None:
    stored(session, "abcd")
    stored(session, "bcda")
    found = compared(session, 1, 2)
    assert [line.kind for line in found.lines] == ["left", "fold", "moved"]
    assert (found.added_count, found.removed_count, found.moved_count, found.unchanged_count) == (0, 0, 1, 3)
    page = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert "Messages4 1 moved" in page
    assert "Moved from here:" in page
    assert "Moved here · see its place in version 1" in page


def test_moved_and_edited_message_shows_changed_words(session: Session, reader: Client) -> None:
    stored(session, "abcd")
    rewrite(session, 0)
    for name in "bcd":
        say(session, f"What {name} says.", id=name)
    say(session, "What a said.", id="a")
    make_checkpoint(session=session)
    found = compared(session, 1, 2)
    left, moved = found.lines[0], found.lines[-1]
    assert isinstance(left, MovedAway)
    assert isinstance(moved, Moved)
    assert (left.new.position, moved.old.position) == (3, 0)
    html = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2").content.decode()
    assert " <del>says</del><ins>said</ins>" in html
    assert 'href="#moved-3"' in html


def test_long_moved_range_is_shortened(session: Session) -> None:
    names = [chr(0x4E00 + number) for number in range(100)]
    stored(session, "".join(names[:40] + names[40:]))
    stored(session, "".join(names[40:] + names[:40]))
    found = compared(session, 1, 2)
    assert (found.moved_count, found.unchanged_count) == (40, 60)
    assert [line.kind for line in found.lines] == [
        *["left"] * 25,
        "more",
        *["left"] * 4,
        "fold",
        *["moved"] * 25,
        "more",
        *["moved"] * 4,
    ]
    assert found.lines[25] == FurtherMessages("left", 11, 25)


@pytest.fixture
def folded(session: Session) -> Session:
    """Session with a new message after 200 unchanged ones."""
    say(session, *[f"message {number}" for number in range(200)])
    make_checkpoint(session=session)
    say(session, "new")
    make_checkpoint(session=session)
    return session


@pytest.mark.parametrize(
    ("opened", "expected"),
    mark_all_but_each(
        2,
        [
            ((0,), [("same", 0, 50), ("fold", 50, 150), ("added", 200, 1)]),
            ((150,), [("fold", 0, 150), ("same", 150, 50), ("added", 200, 1)]),
            ((20, 150), [("fold", 0, 20), ("same", 20, 50), ("fold", 70, 80), ("same", 150, 50), ("added", 200, 1)]),
            ((0, 30), [("same", 0, 80), ("fold", 80, 120), ("added", 200, 1)]),
            ((190,), [("fold", 0, 190), ("same", 190, 10), ("added", 200, 1)]),
            ((200, 999), [("fold", 0, 200), ("added", 200, 1)]),
        ],
    ),
)
def test_fold_is_expanded_on_request(
    folded: Session, opened: tuple[int, ...], expected: list[tuple[str, int, int]]
) -> None:
    found = compare_versions.compare_two_versions(folded.pk, 1, 2, opened=opened)
    assert found is not None
    stretches: list[tuple[str, int, int]] = []
    for line in found.lines:
        if isinstance(line, Fold):
            stretches.append(("fold", line.position, line.count))
            continue
        assert isinstance(line, Same | Added)
        if stretches and stretches[-1][0] == line.kind:
            stretches[-1] = (line.kind, stretches[-1][1], stretches[-1][2] + 1)
        else:
            stretches.append((line.kind, line.message.position, 1))
    assert stretches == expected
    assert (found.unchanged_count, found.added_count) == (200, 1)


def test_links_expand_several_folds(folded: Session, reader: Client) -> None:
    path = f"/sessions/{folded.pk}/compare/"
    html = reader.get(f"{path}?a=1&b=2").content.decode()
    assert 'href="?a=1&amp;b=2&amp;open=0#m-0">show the first 50 here' in html
    assert 'href="?a=1&amp;b=2&amp;open=150#m-150">show the last 50 here' in html
    answer = reader.get(f"{path}?a=1&b=2&open=0")
    html = answer.content.decode()
    assert 'id="m-49"' in html
    assert 'id="m-50"' not in html
    assert 'href="?a=1&amp;b=2&amp;open=0&amp;open=50#m-50"' in html
    assert "150 unchanged messages are folded · fold all" in visible_text(answer)


@pytest.mark.parametrize("value", mark_all_but_each(2, ["-1", "x", "9" * 40, "", "²"]))
def test_invalid_position_expands_nothing(folded: Session, reader: Client, value: str) -> None:
    answer = reader.get(f"/sessions/{folded.pk}/compare/?a=1&b=2&open={value}")
    assert "200 unchanged messages are folded" in visible_text(answer)
