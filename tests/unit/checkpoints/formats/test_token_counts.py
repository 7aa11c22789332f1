"""Tokens have one meaning, whatever a provider calls them: the cache is counted once."""

from typing import Any

import pytest

from checkpoints.formats.token_counts import TokenCounts, parse_token_counts

OF_ANTHROPIC = {
    "input_tokens": 100,
    "output_tokens": 10,
    "cache_read_input_tokens": 900,
    "cache_creation_input_tokens": 50,
}


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (OF_ANTHROPIC, TokenCounts(100, 10, 900, 50, 1060)),
        # A stated total that leaves out the cache.
        ({**OF_ANTHROPIC, "total_tokens": 110}, TokenCounts(100, 10, 900, 50, 1060)),
        ({**OF_ANTHROPIC, "cache_creation": {"ephemeral_5m_input_tokens": 50}}, TokenCounts(100, 10, 900, 50, 1060)),
        (
            {"input_tokens": 1000, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 900}},
            TokenCounts(100, 10, 900, None, 1010),
        ),
        (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 10,
                "total_tokens": 1010,
                "prompt_tokens_details": {"cached_tokens": 900, "audio_tokens": 0},
            },
            TokenCounts(100, 10, 900, None, 1010),
        ),
        ({"input_tokens": 1000, "cached_tokens": 900}, TokenCounts(100, None, 900, None, 1000)),
        # LiteLLM adds Anthropic's names to an input that includes the cache.
        (
            {
                "prompt_tokens": 1050,
                "completion_tokens": 10,
                **{name: OF_ANTHROPIC[name] for name in OF_ANTHROPIC if "cache" in name},
            },
            TokenCounts(100, 10, 900, 50, 1060),
        ),
        (
            {
                "input_tokens": 1050,
                "output_tokens": 10,
                "total_tokens": 1060,
                "input_token_details": {"cache_read": 900, "cache_creation": 50},
            },
            TokenCounts(100, 10, 900, 50, 1060),
        ),
        (
            {"input_tokens": 1050, "output_tokens": 10, "cache_read_tokens": 900, "cache_write_tokens": 50},
            TokenCounts(100, 10, 900, 50, 1060),
        ),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}, TokenCounts(5, None, 9, None, 14)),
        # Gemini's, as Google ADK stores them: the prompt includes the cache, and thoughts are output.
        (
            {
                "promptTokenCount": 980,
                "toolUsePromptTokenCount": 20,
                "cachedContentTokenCount": 900,
                "candidatesTokenCount": 7,
                "thoughtsTokenCount": 3,
                "totalTokenCount": 1010,
            },
            TokenCounts(100, 10, 900, None, 1010),
        ),
        # Bedrock's: the input does not include the cache.
        (
            {
                "inputTokens": 100,
                "outputTokens": 10,
                "cacheReadInputTokens": 900,
                "cacheWriteInputTokens": 50,
                "totalTokens": 1060,
            },
            TokenCounts(100, 10, 900, 50, 1060),
        ),
        (
            {"inputTokens": 1000, "cachedInputTokens": 900, "outputTokens": 10, "totalTokens": 1010},
            TokenCounts(100, 10, 900, None, 1010),
        ),
        (
            {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_cache_hit_tokens": 900},
            TokenCounts(100, 10, 900, None, 1010),
        ),
        ({"input_tokens": 3, "inputTokens": None}, TokenCounts(input=3, total=3)),
        ({"total_tokens": 7}, TokenCounts(total=7)),
        ({"input_tokens": 3, "total_tokens": 7}, TokenCounts(input=3, total=7)),
        ({"input_tokens": -3, "output_tokens": True, "total_tokens": "7"}, TokenCounts()),
        ({"input_tokens": 2**61, "output_tokens": 2**61}, TokenCounts(2**61, 2**61)),
        ({"input_tokens_details": 4, "by_model": {}}, TokenCounts()),
        (
            {"by_model": {"large-1": OF_ANTHROPIC, "small-1": {"input_tokens": 5, "total_tokens": 9}, "tiny-1": 7}},
            TokenCounts(105, 10, 900, 50, 1069),
        ),
        ({"input_tokens": 3, "by_model": {"large-1": OF_ANTHROPIC}}, TokenCounts(input=3, total=3)),
        ({"by_model": {name: {"total_tokens": 2**62 - 1} for name in "ab"}}, TokenCounts()),
        ({"by_model": {"large-1": {"by_model": {"small-1": OF_ANTHROPIC}}}}, TokenCounts()),
        ("damaged", TokenCounts()),
        (None, TokenCounts()),
    ],
)
def test_cache_is_counted_once(usage: Any, counts: TokenCounts) -> None:
    assert parse_token_counts(usage) == counts


def test_kinds_and_other_tokens_add_up_to_the_total() -> None:
    counts = parse_token_counts({**OF_ANTHROPIC, "total_tokens": 2000})
    kinds = (counts.input, counts.output, counts.cache_read, counts.cache_write)
    assert sum(count or 0 for count in kinds) + counts.other == counts.total == 2000
    assert parse_token_counts({"total_tokens": 2000}).other == 0


def test_share_of_the_cache_is_a_part_of_the_whole_input() -> None:
    counts = parse_token_counts(OF_ANTHROPIC)
    assert (counts.whole_input, counts.cache_hit_ratio) == (1050, 900 / 1050)
    assert parse_token_counts({"input_tokens": 5}).cache_hit_ratio is None
    assert parse_token_counts({"cache_read_input_tokens": 0}).cache_hit_ratio is None


def test_difference_is_unknown_if_any_count_went_down() -> None:
    earlier = TokenCounts(input=900, output=120, total=1020)
    assert TokenCounts(1000, 130, total=1130).subtract(earlier) == TokenCounts(100, 10, total=110)
    assert TokenCounts(1000, 30, total=1030).subtract(earlier) == TokenCounts()
    assert TokenCounts(1000, 130, total=1130).subtract(TokenCounts(900, 120, total=1100)) == TokenCounts()
    assert not earlier.has_fallen_since(TokenCounts())
