"""Benchmark of saving as a session grows, and the bytes it leaves on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.contenders.contender import Contender
from benchmarks.duration_samples import DurationSamples, shuffle_with_turn_as_seed
from benchmarks.full_and_quick_run_sizes import MeasurementPlan

WARM_UP = 10


@dataclass(frozen=True)
class SaveCost:
    samples: DurationSamples
    #: True if the session holds no earlier versions, because they would take gigabytes.
    jumped: bool = False


@dataclass(frozen=True)
class SaveCosts:
    """Costs by contender and turn; the other values by contender."""

    costs: dict[tuple[str, int], SaveCost] = field(default_factory=dict)
    #: First turns of a new session, alternating with the last turns of the long one.
    young: dict[str, DurationSamples] = field(default_factory=dict)
    bytes_on_disk: dict[str, int] = field(default_factory=dict)

    def get_median_ms(self, key: str, turn: int) -> float:
        """Return the median in milliseconds."""
        return self.costs[key, turn].samples.median_ms

    def merge_samples_of_turns(self, key: str, turns: Sequence[int]) -> DurationSamples:
        """Return all measured saves at `turns` together."""
        return DurationSamples([second for turn in turns for second in self.costs[key, turn].samples.seconds])


def measure_saving(contenders: Sequence[Contender], plan: MeasurementPlan) -> SaveCosts:
    for contender in contenders:
        contender.begin_session("warm-up")
        for turn in range(1, WARM_UP + 1):
            contender.measure_save(turn)
    results = SaveCosts()
    _measure_first_turns_and_bytes_on_disk(contenders, plan, results)
    for turn in plan.turns:
        if turn > plan.together:
            _measure_late_turn_and_young_session(contenders, turn, plan, results)
    return results


def _measure_first_turns_and_bytes_on_disk(
    contenders: Sequence[Contender], plan: MeasurementPlan, results: SaveCosts
) -> None:
    """Save every turn with every contender, alternating, so that disturbances of the machine affect all of them."""
    initial_sizes = {contender.key: contender.database.measure_bytes_on_disk() for contender in contenders}
    seconds: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    for contender in contenders:
        contender.begin_session("measured")
    for turn in range(1, plan.together + 1):
        for contender in shuffle_with_turn_as_seed(contenders, turn):
            seconds[contender.key].append(contender.measure_save(turn))
    for contender in contenders:
        results.bytes_on_disk[contender.key] = contender.database.measure_bytes_on_disk() - initial_sizes[contender.key]
        _require_transcript_read_back(contender, plan.together)
        for turn in plan.turns:
            if turn <= plan.together:
                first_turn = max(0, turn - plan.window)
                window = seconds[contender.key][first_turn : first_turn + plan.window]
                results.costs[contender.key, turn] = SaveCost(DurationSamples(window))


def _measure_late_turn_and_young_session(
    contenders: Sequence[Contender], turn: int, plan: MeasurementPlan, results: SaveCosts
) -> None:
    last_saved_turn = max(earlier_turn for earlier_turn in plan.turns if earlier_turn < turn)
    windows = {contender.key: plan.window if contender.linear else plan.jumped_window for contender in contenders}
    for contender in contenders:
        first_turn = turn - windows[contender.key] + 1
        if contender.linear:
            for step in range(last_saved_turn + 1, first_turn):
                contender.save_turn_unmeasured(step)
        else:
            contender.begin_session_at_turn_without_earlier_versions(first_turn)
    seconds: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    siblings = {
        contender.key: (contender.copy_and_begin_own_session(), list[float]())
        for contender in contenders
        if contender.linear and turn == plan.turns[-1]
    }
    for remaining in range(plan.window, 0, -1):
        for contender in shuffle_with_turn_as_seed(contenders, remaining):
            if remaining <= windows[contender.key]:
                seconds[contender.key].append(contender.measure_save(turn - remaining + 1))
        for sibling, sibling_seconds in siblings.values():
            sibling_seconds.append(sibling.measure_save(plan.window - remaining + 1))
    for contender in contenders:
        _require_transcript_read_back(contender, turn)
        results.costs[contender.key, turn] = SaveCost(
            DurationSamples(seconds[contender.key]), jumped=not contender.linear
        )
    results.young.update({key: DurationSamples(sibling_seconds) for key, (_, sibling_seconds) in siblings.items()})


def _require_transcript_read_back(contender: Contender, turn: int) -> None:
    if contender.read_transcript() != contender.conversation.get_messages_through_turn(turn):
        raise RuntimeError(f"{contender.title} did not give back what was saved by turn {turn}.")
