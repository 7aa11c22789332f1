"""What a witness knows of a session after its records."""

import pytest

from checkpoints.seals.witness_records import ADOPTED, CONFIRMED, EXPECTED, WitnessedHead, WitnessedSession


@pytest.mark.parametrize("number", [4, 5])
def test_writes_to_an_old_copy_do_not_become_known(number: int) -> None:
    known = WitnessedSession()
    known.apply_record(CONFIRMED, WitnessedHead("s", 5, b"newest"))
    for kind in (EXPECTED, CONFIRMED):
        known.apply_record(kind, WitnessedHead("s", number, b"other"))
        assert not known.knows_head(number, b"other")
        assert known.knows_head(5, b"newest")
    known.apply_record(ADOPTED, WitnessedHead("s", number, b"other"))
    assert known.knows_head(number, b"other")
