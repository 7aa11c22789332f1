import pytest

from checkpoints.enums import InterruptReason
from harness_site.core import unknown_outcome_reasons


@pytest.mark.parametrize("reason", InterruptReason)
def test_every_interrupt_reason_has_a_label(reason: str) -> None:
    assert not unknown_outcome_reasons.format_unknown_outcome_reason(reason, verifiable=False).startswith(
        "The reason is unknown"
    )
