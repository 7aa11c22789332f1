"""The generated page about the states of a call is up to date."""

from tests.support import state_table


def test_page_is_up_to_date() -> None:
    # To write it anew: python -m tests.support.state_table
    assert state_table.PAGE.read_text() == state_table.build_page()
