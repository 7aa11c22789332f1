from typing import Any

from checkpoints.formats import digests


def test_chain_of_no_messages_is_empty() -> None:
    assert digests.compute_hash_chains([]) == []


def test_chain_continues_from_any_link() -> None:
    whole = digests.compute_hash_chains(["a", "b", "c"])

    assert digests.compute_hash_chains(["c"], whole[1]) == whole[2:]


def test_chain_depends_on_everything_before() -> None:
    assert digests.compute_hash_chains(["a", "c"])[1] != digests.compute_hash_chains(["b", "c"])[1]


def test_chain_distinguishes_message_boundaries() -> None:
    assert digests.compute_hash_chains(["ab", "c"])[-1] != digests.compute_hash_chains(["a", "bc"])[-1]


def test_chain_distinguishes_a_repeated_message() -> None:
    once, twice = digests.compute_hash_chains(["a", "a"])

    assert once != twice


def test_links_have_32_bytes() -> None:
    assert (
        [len(link) for link in digests.compute_hash_chains(["", "a"])]
        == [digests.DIGEST_SIZE, digests.DIGEST_SIZE]
        == [32, 32]
    )


def test_text_digest_accepts_lone_surrogates() -> None:
    assert digests.digest_text("\ud800") != digests.digest_text("?")


def test_equal_parts_have_equal_keys() -> None:
    assert digests.digest_key_parts("args", ["w", "s"], "t", {"a": 1, "b": 2}) == digests.digest_key_parts(
        "args", ["w", "s"], "t", {"b": 2, "a": 1}
    )


DIFFERENT: list[tuple[Any, ...]] = [
    ("a:b", "c"),
    ("a", "b:c"),
    ("a", "b", "c"),
    ("a:b:c",),
    ('a","b', "c"),
    (["a", "b"], "c"),
    ("a", ["b", "c"]),
    ({"1": "x"},),
    ({"1": 1},),
    ({"1": 1.0},),
    ({"1": True},),
    ({"1": "1"},),
    ({"1": None},),
    ({},),
    (None,),
    ("",),
    ("", ""),
    (True,),
    (1,),
    (1.0,),
    ("1",),
    ("True",),
]


def test_different_parts_have_different_keys() -> None:
    assert len({digests.digest_key_parts(*parts) for parts in DIFFERENT}) == len(DIFFERENT)


def test_the_last_link_is_that_of_the_whole_chain() -> None:
    whole = digests.compute_hash_chains(["a", "b", "é"])
    assert digests.compute_last_hash_chain(["a", "b", "é"]) == whole[-1]
    assert digests.compute_last_hash_chain(["b", "é"], whole[0]) == whole[-1]
    assert digests.compute_last_hash_chain([], whole[0]) == whole[0]
    assert digests.compute_last_hash_chain([]) == digests.EMPTY_CHAIN
