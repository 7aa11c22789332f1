from checkpoints.formats.parse_message_parts import CallPart, Part, ResultPart, TextPart
from harness_site.sessions.selectors.call_result_pairs import pair_calls_with_results


def call(call_id: str) -> CallPart:
    return CallPart(call_id, "tool", {})


def result(call_id: str) -> ResultPart:
    return ResultPart(call_id, (TextPart("ok"),))


def test_results_are_paired_with_calls_in_any_order() -> None:
    messages: list[tuple[Part, ...]] = [(call("a"), call("b")), (result("b"),), (result("a"),)]
    assert pair_calls_with_results(messages).answers == {(0, 1): (1, 0), (0, 0): (2, 0)}


def test_calls_with_the_same_id_in_one_message_are_answered_in_order() -> None:
    messages: list[tuple[Part, ...]] = [(call("a"), call("a")), (result("a"), result("a"))]
    assert pair_calls_with_results(messages).answers == {(0, 0): (1, 0), (0, 1): (1, 1)}


def test_reused_id_does_not_answer_an_unanswered_call() -> None:
    messages: list[tuple[Part, ...]] = [(call("a"),), (TextPart("I died here."),), (call("a"),), (result("a"),)]
    assert pair_calls_with_results(messages).answers == {(2, 0): (3, 0)}


def test_result_without_a_call_stays_in_place() -> None:
    messages: list[tuple[Part, ...]] = [(result("a"),), (call("a"),)]
    pairs = pair_calls_with_results(messages)
    assert pairs.answers == {}
    assert pairs.taken == frozenset()
