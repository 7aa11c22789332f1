"""What an ordinary run and a sampled run leave out."""

from itertools import combinations, product

import pytest

from tests.support.exhaustive_mode import choose_sample, mark_all_but_combinations


@pytest.mark.parametrize(("together", "count"), [(1, 4), (2, 8), (4, 32)])
def test_each_value_or_pair_of_values_is_in_a_case_of_an_ordinary_run(together: int, count: int) -> None:
    parameters = ["abcd", "EF", "gh", "IJ"]
    cases = mark_all_but_combinations(*parameters, together=together)
    ordinary = [case.values for case in cases if not case.marks]
    assert sorted(case.values for case in cases) == sorted(product(*parameters))
    assert len(ordinary) == count
    for chosen in combinations(range(4), together):
        met = {tuple(values[position] for position in chosen) for values in ordinary}
        assert met == set(product(*(parameters[position] for position in chosen)))


def test_a_tuple_gives_values_to_several_arguments() -> None:
    assert mark_all_but_combinations([("a", "b")], ["c"])[0].values == ("a", "b", "c")


def test_a_sample_has_both_of_two_cases_and_of_many_the_first_the_last_and_a_sixth() -> None:
    few, many = [f"few[{number}]" for number in range(2)], [f"many[{number}]" for number in range(300)]
    assert choose_sample(few) == set(few)
    sample = choose_sample(many)
    assert {many[0], many[-1]} <= sample < set(many)
    assert 30 < len(sample) < 70
    assert {number % 3 for number, case in enumerate(many) if case in sample} == {0, 1, 2}
