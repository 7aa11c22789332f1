"""Model whose answers are stored when they arrive, and which repeats the one whose turn a crash has interrupted."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from agents import Model, ModelProvider, ModelResponse, RunConfig, Usage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItem
from pydantic import TypeAdapter, ValidationError

from checkpoints.adapters.openai_agents.agent_session import RunContext

Item = dict[str, Any]
#: Fields of the SDK's usage that a repeated answer has again.
_COUNTS: Final = ("requests", "input_tokens", "output_tokens", "total_tokens")
_CACHE_COUNTS: Final = ("cached_tokens", "cache_write_tokens")
_OUTPUT_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)


class DurableModel(Model):
    """Model of a run that is stored. Everything else is that of the model that it wraps."""

    def __init__(self, model: Model, run: RunContext) -> None:
        """Wrap a model.

        Args:
            model: The model.
            run: Run that asks it.
        """
        self.wrapped_model, self._run = model, run

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        stored = self._take_stored_answer()
        if stored is not None:
            output, about = stored
            return ModelResponse(output=output, usage=_build_usage(about), response_id=about.get("id"))
        response = await self.wrapped_model.get_response(*args, **options)
        await self._store_answer(response.output, response.response_id, response.usage)
        return response

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        stored = self._take_stored_answer()
        if stored is not None:
            yield _build_completed_event(*stored)
            return
        finished: list[Any] = []
        async for event in self.wrapped_model.stream_response(*args, **options):
            kind = getattr(event, "type", "")
            if kind == "response.output_item.done":
                finished.append(event.item)
            if kind == "response.completed":
                await self._store_answer(event.response.output or finished, event.response.id, event.response.usage)
            yield event

    def _take_stored_answer(self) -> tuple[list[Any], dict[str, Any]] | None:
        items, self._run.answer = self._run.answer, None
        return None if items is None else ([_parse_item(item) for item in items], self._run.response)

    async def _store_answer(self, output: list[Any], response_id: str | None, usage: Any) -> None:
        items = [_dump_item(item) for item in output]
        if items:
            about = {"id": response_id, "usage": _convert_usage_to_dict(usage)}
            if isinstance(model := getattr(self.wrapped_model, "model", None), str):
                about["model"] = model
            await self._run.store_model_answer(items, about)

    def get_retry_advice(self, request: Any) -> Any:
        return self.wrapped_model.get_retry_advice(request)

    async def close(self) -> None:
        await self.wrapped_model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.wrapped_model._cleanup_on_run_end(owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped_model, name)


class DurableModelProvider(ModelProvider):
    """Provider of models whose answers are stored."""

    def __init__(self, provider: ModelProvider, run: RunContext) -> None:
        """Wrap a provider.

        Args:
            provider: The provider.
            run: Run that asks its models.
        """
        self.wrapped_provider, self._run = provider, run

    def get_model(self, model_name: str | None) -> Model:
        return DurableModel(self.wrapped_provider.get_model(model_name), self._run)

    async def aclose(self) -> None:
        await self.wrapped_provider.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped_provider, name)


def build_config_without_durable_models(config: RunConfig) -> RunConfig:
    """Return the configuration of a run as the program gave it.

    The SDK hands the configuration of a run to its tools, and an agent that is a tool runs with it. What that agent's
    model answers belongs to no turn of the outer session.

    Args:
        config: Configuration of a run, whose models may be stored ones.

    Returns:
        The configuration with the models and the provider that these wrap.
    """
    model, provider = config.model, config.model_provider
    changes: dict[str, Any] = {}
    if isinstance(model, DurableModel):
        changes["model"] = model.wrapped_model
    if isinstance(provider, DurableModelProvider):
        changes["model_provider"] = provider.wrapped_provider
    return replace(config, **changes) if changes else config


def _dump_item(item: Any) -> Item:
    return dict(item) if isinstance(item, dict) else item.model_dump(mode="json", exclude_unset=True)


def _parse_item(item: Item) -> Any:
    """Return an item as the SDK has it. One of a kind that the SDK does not know stays an object of JSON."""
    try:
        return _OUTPUT_ITEM.validate_python(item)
    except ValidationError:
        return item


def _convert_usage_to_dict(usage: Any) -> dict[str, int]:
    counts = {name: getattr(usage, name, None) for name in _COUNTS}
    details = getattr(usage, "input_tokens_details", None)
    counts |= {name: count for name in _CACHE_COUNTS if (count := getattr(details, name, None))}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _build_usage(about: dict[str, Any]) -> Usage:
    counts = about.get("usage")
    return Usage(**{name: counts[name] for name in _COUNTS if name in counts}) if isinstance(counts, dict) else Usage()


def _build_completed_event(output: list[Any], about: dict[str, Any]) -> ResponseCompletedEvent:
    response = Response.model_construct(
        id=about.get("id") or "stored",
        created_at=time.time(),
        model="stored",
        object="response",
        output=output,
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
        usage=None,
    )
    return ResponseCompletedEvent.model_construct(response=response, sequence_number=0, type="response.completed")
