"""Page of the files that the calls of a session touched."""

import re
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session, ToolCall
from tests.support.factories import make_call, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def session() -> Session:
    """Make a session that edited and read one file, wrote a longer one, and read a third."""
    session = make_session()
    edit = {"file_path": "src/shop/lamp.py", "old_string": "off", "new_string": "on"}
    calls = (
        ("Read", {"file_path": "src/shop/lamp.py"}, CallStatus.COMPLETED),
        ("Edit", edit, CallStatus.COMPLETED),
        ("Edit", edit, CallStatus.FAILED),
        ("Write", {"file_path": "src/b.py", "content": "1\n2\n3\n"}, CallStatus.COMPLETED),
        ("Read", {"file_path": "docs/a.md"}, CallStatus.COMPLETED),
    )
    for number, (tool, args, status) in enumerate(calls):
        make_call(session=session, call_id=f"c{number}", tool=tool, args=args, status=status)
    return session


def find_paths(client: Client, session: Session, query: str = "") -> list[str]:
    html = client.get(f"/sessions/{session.pk}/files/{query}").content.decode()
    return re.findall(r'<th scope="row"[^>]*>(?:<a[^>]*>)?([^<]*)', html.replace("<wbr>", ""))


def test_calls_of_a_file_are_counted_and_unfold(session: Session, reader: Client) -> None:
    response = reader.get(f"/sessions/{session.pk}/files/")
    html = response.content.decode()
    assert html.count("<summary>1 edit · 1 read · 1 not counted</summary>") == 2  # in the list and above the difference
    assert "changed by Edit" in visible_text(response)


def test_files_of_a_fork_tell_copied_changes_from_its_own(reader: Client) -> None:
    fork = make_session()

    def write(call_id: str, path: str, step: int) -> None:
        args = {"file_path": path, "content": "1\n"}
        make_call(
            session=fork,
            call_id=call_id,
            tool="Write",
            args=args,
            status=CallStatus.COMPLETED,
            step=step,
            answered_version=1,
        )

    write("c1", "a.py", -1)
    write("c2", "b.py", -2)
    response = reader.get(f"/sessions/{fork.pk}/files/")
    words = visible_text(response)
    assert "2 files, 0 changed by this session. 2 files were changed only by calls copied from the original." in words
    # in the list and above the differences
    assert response.content.decode().count(">copied from the original</") == 4
    write("c3", "b.py", 1)
    response = reader.get(f"/sessions/{fork.pk}/files/")
    words = visible_text(response)
    assert "2 files, 1 changed by this session. 1 file was changed only by calls copied from the original." in words
    assert "a.py +1 −0 copied from the original Write" in words
    # a.py as a whole, and one of the two calls of b.py
    assert response.content.decode().count(">copied from the original</") == 4


def test_files_of_a_fork_leave_out_what_the_original_changed_after_its_version(reader: Client) -> None:
    origin = make_session()
    fork = make_session(forked_from=origin, forked_version=9)
    args = {"file_path": "a.py", "content": "1\n"}
    later = {"file_path": "a.py", "old_string": "1", "new_string": "2"}
    other = {"file_path": "b.py", "content": "1\n2\n"}
    values: dict[str, Any] = {"session": fork, "status": CallStatus.COMPLETED}
    make_call(call_id="c1", tool="Write", args=args, step=-3, answered_version=1, **values)
    make_call(call_id="c2", tool="Edit", args=later, step=-2, answered_version=None, **values)
    make_call(call_id="c3", tool="Write", args=other, step=-1, answered_version=None, **values)
    words = visible_text(reader.get(f"/sessions/{fork.pk}/files/"))
    assert "1 file, 0 changed by this session." in words
    state, _title, after = words.partition("Changed by the original after version 9")
    assert "a.py" in state
    assert "b.py" not in state
    assert "a.py +1 −1 Edit" in after
    assert "b.py +2 −0 Write" in after
    ToolCall.objects.filter(call_id="c2").update(answered_version=3)  # the fork has made the same call
    words = visible_text(reader.get(f"/sessions/{fork.pk}/files/"))
    assert "b.py +2 −0 Write" in words.partition("Changed by the original after version 9")[2]
    assert "a.py +1 −1" not in words


def test_files_of_a_session_without_copied_calls_have_no_mark(session: Session, reader: Client) -> None:
    words = visible_text(reader.get(f"/sessions/{session.pk}/files/"))
    assert "3 files, 2 changed." in words
    assert "copied" not in words


def test_files_are_sorted(session: Session, reader: Client) -> None:
    lamp, other, read = "src/shop/lamp.py", "src/b.py", "docs/a.md"
    assert find_paths(reader, session) == [lamp, other, read]
    assert find_paths(reader, session, "?order=path") == [read, other, lamp]
    assert find_paths(reader, session, "?order=changes") == [other, lamp, read]
    assert find_paths(reader, session, "?order=calls") == [lamp, other, read]
    assert find_paths(reader, session, "?order=unknown") == [lamp, other, read]


def test_paths_are_searched(session: Session, reader: Client) -> None:
    assert find_paths(reader, session, "?path=SRC") == ["src/shop/lamp.py", "src/b.py"]
    html = reader.get(f"/sessions/{session.pk}/files/?path=lamp+shop").content.decode()
    assert "1 of 3 files." in html
    assert re.findall(r'id="file-(\d)"', html) == ["0"]
    assert "No path contains “vase”." in visible_text(reader.get(f"/sessions/{session.pk}/files/?path=vase"))


def test_small_changes_are_counted_and_sorted_beside_one_that_is_too_large_to_be_counted(
    session: Session, reader: Client
) -> None:
    large = {"file_path": "large.txt", "old_string": "a\n" * 90_000, "new_string": "b\n" * 90_000}
    longest = {"file_path": "c.py", "content": "1\n" * 9}
    for name, args in (("Edit", large), ("Write", longest)):
        make_call(session=session, call_id=args["file_path"], tool=name, args=args, status=CallStatus.COMPLETED)
    assert find_paths(reader, session, "?order=changes") == [
        *("large.txt", "c.py", "src/b.py", "src/shop/lamp.py", "docs/a.md"),
    ]
    page = visible_text(reader.get(f"/sessions/{session.pk}/files/?order=changes"))
    assert "large.txt changed" in page
    assert "c.py +9" in page


def test_relative_paths_count_from_the_directory_of_the_call_or_of_the_session(reader: Client) -> None:
    session = make_session(metadata=to_canonical_json({"working_directories": ["/srv/shop"]}))
    calls: tuple[tuple[str, dict[str, object]], ...] = (
        ("shell", {"command": "cat a.py", "workdir": "/srv/shop/src"}),
        ("shell", {"command": "cat src/a.py b.py", "workdir": "."}),
        ("shell", {"command": "cat ../src/a.py", "dir_path": "docs"}),
        ("edit_file", {"path": "src/a.py", "old": "off", "new": "on"}),
        ("Read", {"file_path": "/srv/shop/src/a.py"}),
    )
    for number, (tool, args) in enumerate(calls):
        make_call(session=session, call_id=f"c{number}", tool=tool, args=args, status=CallStatus.COMPLETED)
    assert find_paths(reader, session) == ["src/a.py", "b.py"]
    assert "1 edit · 4 reads" in visible_text(reader.get(f"/sessions/{session.pk}/files/"))


def test_relative_path_stays_if_the_session_had_several_directories(reader: Client) -> None:
    session = make_session(metadata=to_canonical_json({"working_directories": ["/srv/shop", "/srv/mail"]}))
    for number, path in enumerate(("a.py", "/srv/mail/b.py")):
        make_call(session=session, call_id=f"c{number}", tool="Read", args={"path": path}, status=CallStatus.COMPLETED)
    assert find_paths(reader, session) == ["a.py", "b.py"]


def test_page_does_not_say_that_no_file_was_named(reader: Client) -> None:
    session = make_session()
    make_call(session=session, tool="Reformat", args={"path": "a.py"}, status=CallStatus.COMPLETED)
    assert "This page found no file in the tool calls." in visible_text(reader.get(f"/sessions/{session.pk}/files/"))
