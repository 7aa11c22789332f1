from dataclasses import dataclass

import pytest

from checkpoints.enums import DecisionKind
from harness_site.core.folded_verify_hook_answers import fold_repeated_hook_answers

UNKNOWN = DecisionKind.PROBE_UNKNOWN


@dataclass(frozen=True)
class Answer:
    number: int
    kind: str = UNKNOWN
    actor: str = "hook"
    reason: str = "503"


@pytest.mark.parametrize(("are_reasons_shown", "folded"), [(True, [(2, 2), (3, 1)]), (False, [(3, 3)])])
def test_equal_answers_in_a_row_are_one(are_reasons_shown: bool, folded: list[tuple[int, int]]) -> None:
    answers = [Answer(1), Answer(2), Answer(3, reason="404")]
    shown = fold_repeated_hook_answers(answers, are_reasons_shown=are_reasons_shown)
    assert [(answer.number, count) for answer, count in shown] == folded


def test_other_decisions_and_answers_after_them_stay_apart() -> None:
    approve = DecisionKind.APPROVE
    decisions = [Answer(1), Answer(2, approve), Answer(3, approve), Answer(4), Answer(5, actor="other hook")]
    shown = fold_repeated_hook_answers(decisions, are_reasons_shown=False)
    assert [(answer.number, count) for answer, count in shown] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]
