import pytest

from checkpoints.queries.keyset import Cursor


@pytest.mark.parametrize("time", ["2026-11-21 10:42:07", "2026-11-21 10:42:07.118", "2026-11-21 10:42:07.118000+00"])
def test_a_cursor_survives_an_address(time: str) -> None:
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
    ],
)
def test_anything_else_is_no_cursor(token: str) -> None:
    assert Cursor.parse(token) is None
