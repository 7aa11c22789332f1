"""An index that was written by an older version is as good as a new one after the update."""

from tests.conftest import StartChild
from tests.integration.search.upgrading import upgraded


def test_what_was_indexed_before_letters_were_folded_is_found_as_what_comes_after(
    start_child: StartChild, fresh_url: str
) -> None:
    text, typed = "Ο ΔΡΟΜΟΣ: ВОЗВРАТ", "возврат δρομος"
    result = start_child(upgraded, fresh=True, url=fresh_url, text=text, typed=typed).result()
    assert result == {
        "before": 0,
        "kept": [[f"m{n}\n{text}", f"m{n}\nο δρομοσ: возврат"] for n in range(2)],
        "found": [0, 1],
    }
