import pytest

from checkpoints.db.keyset_pagination import Cursor


@pytest.mark.parametrize(
    "time",
    ["2026-11-21 10:42:07", "2026-11-21 10:42:07.118", "2026-11-21 10:42:07.118000+00", "2026-11-21 10:42:07.1+05:30"],
)
def test_cursor_can_be_part_of_a_url(time: str) -> None:
    assert Cursor.parse(str(Cursor(time, 42))) == Cursor(time, 42)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "~",
        "2026-11-21 10:42:07",
        "2026-11-21 10:42:07~",
        "2026-11-21 10:42:07~-1",
        "2026-11-21 10:42:07~1~2",
        "2026-99-99 10:42:07~1",
        "2026-11-21 10:42:07'; --~1",
        "2026-11-21 10:42:07~9999999999999999999",
        "2026-11-21 10:42:07~\u0661",
        "1111111111~1",
        "2026-11-21 10:42:07+23:59~1",
        "2026-11-21 24:00:00~1",
        "0001-01-01 00:00:00+14~1",
        "9999-12-31 23:59:59-14~1",
    ],
)
def test_invalid_cursor_is_refused(token: str) -> None:
    assert Cursor.parse(token) is None
