"""Numbers of tokens in the usage objects of model providers, with one meaning whatever their names are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

#: Gemini states the whole prompt, and the two parts of the output.
_PROMPT: Final = ("prompt_tokens", "prompt_token_count")
_OUTPUT: Final = ("output_tokens", "completion_tokens")
_PARTS_OF_OUTPUT: Final = ("candidates_token_count", "thoughts_token_count")
_TOTAL: Final = ("total_tokens", "total_token_count")
#: Names of Anthropic and Bedrock. The input beside them does not include the cache, unless it is called a prompt.
_CACHE_READ_BESIDE_INPUT: Final = ("cache_read_input_tokens",)
_CACHE_WRITE_BESIDE_INPUT: Final = ("cache_creation_input_tokens", "cache_write_input_tokens")
#: Names of other programs, at the top or in the details of the input. Their input includes the cache.
_CACHE_READ_IN_INPUT: Final = (
    *("cached_tokens", "cached_input_tokens", "cache_read_tokens", "cache_read"),
    *("cached_content_token_count", "prompt_cache_hit_tokens"),
)
_CACHE_WRITE_IN_INPUT: Final = ("cache_write_tokens", "cache_creation_tokens", "cache_creation")
#: Objects that divide the input: OpenAI's Responses, OpenAI's Chat Completions, LangChain.
_INPUT_DETAILS: Final = ("input_tokens_details", "prompt_tokens_details", "input_token_details")
#: Largest number that counts as one of tokens.
MAX_TOKEN_COUNT: Final = 2**62 - 1
#: Longest name of a model in a usage by model, and largest number of its models. Every version stores it again.
MAX_MODEL_NAME_LENGTH: Final = 255
MAX_MODELS: Final = 100
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens by kind; None if unknown. `input` leaves out what came from or went to the cache.

    `total` is the sum of the kinds, or more if the usage states a larger one; it may be known without the kinds.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    total: int | None = None

    @property
    def has_kinds(self) -> bool:
        """Whether the number of any kind is known."""
        return any(count is not None for count in self._get_counts_by_kind())

    @property
    def other(self) -> int:
        """Tokens of the total whose kind the usage does not state; 0 if it states no kind at all."""
        return (self.total or 0) - sum(count or 0 for count in self._get_counts_by_kind()) if self.has_kinds else 0

    @property
    def whole_input(self) -> int | None:
        """Return the tokens that the model read: input and cache; None if none of them is known."""
        known = [count for count in (self.input, self.cache_read, self.cache_write) if count is not None]
        return sum(known) if known else None

    @property
    def cache_hit_ratio(self) -> float | None:
        """Return the part of the whole input that came from the cache, from 0 to 1; None if unknown."""
        if self.cache_read is None and self.cache_write is None:
            return None
        return (self.cache_read or 0) / self.whole_input if self.whole_input else None

    def has_fallen_since(self, earlier: TokenCounts) -> bool:
        """Return whether a number is lower than in `earlier`, as in totals that began again."""
        pairs = zip(
            (*self._get_counts_by_kind(), self.total), (*earlier._get_counts_by_kind(), earlier.total), strict=True
        )
        fallen = (now is not None and now < (before or 0) for now, before in pairs)
        return any(fallen) or (self.has_kinds and self.other < earlier.other)

    def subtract(self, earlier: TokenCounts) -> TokenCounts:
        """Return what was added since `earlier`; no number if one has fallen, as all may have begun again."""
        if self.has_fallen_since(earlier):
            return TokenCounts()
        return TokenCounts(
            _subtract_earlier_if_known(self.input, earlier.input),
            _subtract_earlier_if_known(self.output, earlier.output),
            _subtract_earlier_if_known(self.cache_read, earlier.cache_read),
            _subtract_earlier_if_known(self.cache_write, earlier.cache_write),
            _subtract_earlier_if_known(self.total, earlier.total),
        )

    def _get_counts_by_kind(self) -> tuple[int | None, ...]:
        return (self.input, self.output, self.cache_read, self.cache_write)


def parse_token_counts(usage: Any) -> TokenCounts:
    """Count the tokens of a usage object by kind; one that states them only by model has the sums of its models.

    A cache is counted once: Anthropic's `input_tokens` leave it out, the input of OpenAI and of others includes it.
    Names may be in camel case.
    """
    if not isinstance(usage, Mapping):
        return TokenCounts()
    counts = _parse_counts_without_models(usage)
    by_model = usage.get("by_model")
    if counts != TokenCounts() or not isinstance(by_model, Mapping):
        return counts
    models = [model for model in list(by_model.values())[:MAX_MODELS] if isinstance(model, Mapping)]
    return _sum_counts([_parse_counts_without_models(model) for model in models])


def _parse_counts_without_models(usage: Mapping[str, Any]) -> TokenCounts:
    usage = {_convert_to_snake_case(name): value for name, value in usage.items() if value is not None}
    prompt = _sum_known((_find_count(usage, _PROMPT), _find_count(usage, ("tool_use_prompt_token_count",))))
    whole_input = _find_count(usage, ("input_tokens",))
    whole_input = prompt if whole_input is None else whole_input
    details: Mapping[str, Any] = next(
        (usage[name] for name in _INPUT_DETAILS if isinstance(usage.get(name), Mapping)), {}
    )
    read_in_input = _find_count({**usage, **details}, _CACHE_READ_IN_INPUT)
    written_in_input = _find_count({**usage, **details}, _CACHE_WRITE_IN_INPUT)
    read = _find_count(usage, _CACHE_READ_BESIDE_INPUT)
    written = _find_count(usage, _CACHE_WRITE_BESIDE_INPUT)
    is_cache_in_input = read_in_input is not None or written_in_input is not None or prompt is not None
    read = read_in_input if read is None else read
    written = written_in_input if written is None else written
    if is_cache_in_input and whole_input is not None:
        # More cache than input is no part of it.
        rest = whole_input - (read or 0) - (written or 0)
        whole_input = rest if rest >= 0 else whole_input
    output = _find_count(usage, _OUTPUT)
    if output is None:
        output = _sum_known(tuple(_find_count(usage, (name,)) for name in _PARTS_OF_OUTPUT))
    counts = (whole_input, output, read, written)
    totals = [total for total in (_find_count(usage, _TOTAL), _sum_known(counts)) if is_token_count(total)]
    return TokenCounts(*counts, max(totals, default=None))


def _sum_counts(counts: Sequence[TokenCounts]) -> TokenCounts:
    """Add the counts that are known; a total that is too large to be one of tokens is unknown."""
    total = _sum_known(tuple(each.total for each in counts))
    return TokenCounts(
        _sum_known(tuple(each.input for each in counts)),
        _sum_known(tuple(each.output for each in counts)),
        _sum_known(tuple(each.cache_read for each in counts)),
        _sum_known(tuple(each.cache_write for each in counts)),
        total if is_token_count(total) else None,
    )


def truncate_model_name_or_empty_if_list_full(model: str, listed: Collection[str]) -> str:
    """Return the name under which a usage by model lists a model; empty if the list is full.

    Args:
        model: Name of the model, which is cut if it is long.
        listed: Names that the list has.
    """
    name = model[:MAX_MODEL_NAME_LENGTH]
    return name if name in listed or len(listed) < MAX_MODELS else ""


def is_token_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKEN_COUNT


def _convert_to_snake_case(name: Any) -> str:
    text = str(name)
    return text if text.islower() else _WORD_START.sub("_", text).lower()


def _sum_known(counts: tuple[int | None, ...]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _find_count(usage: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    values = (usage.get(name) for name in names)
    return next((value for value in values if is_token_count(value)), None)


def _subtract_earlier_if_known(now: int | None, earlier: int | None) -> int | None:
    return None if now is None else now - (earlier or 0)
