"""Benchmark of saving as a session grows, and the bytes it leaves on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.contenders.contender import Contender
from benchmarks.duration_samples import Samples, shuffle_for_turn
from benchmarks.full_and_quick_run_sizes import Plan

WARM_UP = 10


@dataclass(frozen=True)
class Cost:
    samples: Samples
    #: True if the session holds no earlier versions, because they would take gigabytes.
    jumped: bool = False


@dataclass(frozen=True)
class Saving:
    """Costs by contender and turn; the other values by contender."""

    costs: dict[tuple[str, int], Cost] = field(default_factory=dict)
    #: First turns of a new session, alternating with the last turns of the long one.
    young: dict[str, Samples] = field(default_factory=dict)
    bytes_on_disk: dict[str, int] = field(default_factory=dict)

    def get_median(self, key: str, turn: int) -> float:
        """Return the median in milliseconds."""
        return self.costs[key, turn].samples.median

    def merge_samples_of_turns(self, key: str, turns: Sequence[int]) -> Samples:
        """Return all measured saves at `turns` together."""
        return Samples([second for turn in turns for second in self.costs[key, turn].samples.seconds])


def measure_saving(contenders: Sequence[Contender], plan: Plan) -> Saving:
    for contender in contenders:
        contender.begin_session("warm-up")
        for turn in range(1, WARM_UP + 1):
            contender.measure_save(turn)
    results = Saving()
    _measure_saves_of_all_turns(contenders, plan, results)
    for turn in plan.turns:
        if turn > plan.together:
            _measure_turn_of_long_session(contenders, turn, plan, results)
    return results


def _measure_saves_of_all_turns(contenders: Sequence[Contender], plan: Plan, results: Saving) -> None:
    """Save every turn with every contender, alternating, so that disturbances of the machine affect all of them."""
    initial_sizes = {contender.key: contender.database.get_size_on_disk() for contender in contenders}
    seconds: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    for contender in contenders:
        contender.begin_session("measured")
    for turn in range(1, plan.together + 1):
        for contender in shuffle_for_turn(contenders, turn):
            seconds[contender.key].append(contender.measure_save(turn))
    for contender in contenders:
        results.bytes_on_disk[contender.key] = contender.database.get_size_on_disk() - initial_sizes[contender.key]
        _require_transcript_read_back(contender, plan.together)
        for turn in plan.turns:
            if turn <= plan.together:
                first_turn = max(0, turn - plan.window)
                window = seconds[contender.key][first_turn : first_turn + plan.window]
                results.costs[contender.key, turn] = Cost(Samples(window))


def _measure_turn_of_long_session(contenders: Sequence[Contender], turn: int, plan: Plan, results: Saving) -> None:
    last_saved_turn = max(earlier_turn for earlier_turn in plan.turns if earlier_turn < turn)
    windows = {contender.key: plan.window if contender.linear else plan.jumped_window for contender in contenders}
    for contender in contenders:
        first_turn = turn - windows[contender.key] + 1
        if contender.linear:
            for step in range(last_saved_turn + 1, first_turn):
                contender.save_unmeasured(step)
        else:
            contender.begin_session_without_earlier_turns(first_turn)
    seconds: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    siblings = {
        contender.key: (contender.copy_with_own_session(), list[float]())
        for contender in contenders
        if contender.linear and turn == plan.turns[-1]
    }
    for remaining in range(plan.window, 0, -1):
        for contender in shuffle_for_turn(contenders, remaining):
            if remaining <= windows[contender.key]:
                seconds[contender.key].append(contender.measure_save(turn - remaining + 1))
        for sibling, sibling_seconds in siblings.values():
            sibling_seconds.append(sibling.measure_save(plan.window - remaining + 1))
    for contender in contenders:
        _require_transcript_read_back(contender, turn)
        results.costs[contender.key, turn] = Cost(Samples(seconds[contender.key]), jumped=not contender.linear)
    results.young.update({key: Samples(sibling_seconds) for key, (_, sibling_seconds) in siblings.items()})


def _require_transcript_read_back(contender: Contender, turn: int) -> None:
    if contender.read_transcript() != contender.conversation.get_messages_until(turn):
        raise RuntimeError(f"{contender.title} did not give back what was saved by turn {turn}.")
