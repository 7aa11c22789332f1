import pytest

from checkpoints.enums import InterruptReason
from harness_site.core import call_explanation_texts


@pytest.mark.parametrize("reason", InterruptReason)
def test_every_interrupt_reason_has_a_label(reason: str) -> None:
    assert not call_explanation_texts.format_unknown_outcome_reason(reason, verifiable=False).startswith(
        "The reason is unknown"
    )
