"""What a save costs as a session grows, and what it leaves on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.contenders.contender import Contender
from benchmarks.order import shuffled
from benchmarks.plan import Plan
from benchmarks.samples import Samples

WARM_UP = 10


@dataclass(frozen=True)
class Cost:
    samples: Samples
    #: The session holds no earlier versions: the contender would have written gigabytes to get there.
    jumped: bool = False


@dataclass(frozen=True)
class Saving:
    """Costs by contender and turn; the rest by contender."""

    costs: dict[tuple[str, int], Cost] = field(default_factory=dict)
    #: First turns of a new session, alternating with the last turns of the old one.
    young: dict[str, Samples] = field(default_factory=dict)
    bytes_on_disk: dict[str, int] = field(default_factory=dict)

    def median(self, key: str, turn: int) -> float:
        """Milliseconds."""
        return self.costs[key, turn].samples.median

    def overall(self, key: str, turns: Sequence[int]) -> Samples:
        """All measured saves at `turns` together."""
        return Samples([second for turn in turns for second in self.costs[key, turn].samples.seconds])


def measure(contenders: Sequence[Contender], plan: Plan) -> Saving:
    for contender in contenders:
        contender.begin("warm-up")
        for turn in range(1, WARM_UP + 1):
            contender.save(turn)
    found = Saving()
    _together(contenders, plan, found)
    for turn in plan.turns:
        if turn > plan.together:
            _further(contenders, turn, plan, found)
    return found


def _together(contenders: Sequence[Contender], plan: Plan, found: Saving) -> None:
    """Every contender saves every turn, one after the other, so that what slows the machine slows them all."""
    before = {contender.key: contender.database.size() for contender in contenders}
    seconds: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    for contender in contenders:
        contender.begin("measured")
    for turn in range(1, plan.together + 1):
        for contender in shuffled(contenders, turn):
            seconds[contender.key].append(contender.save(turn))
    for contender in contenders:
        found.bytes_on_disk[contender.key] = contender.database.size() - before[contender.key]
        _check(contender, plan.together)
        for turn in plan.turns:
            if turn <= plan.together:
                first = max(0, turn - plan.window)
                window = seconds[contender.key][first : first + plan.window]
                found.costs[contender.key, turn] = Cost(Samples(window))


def _further(contenders: Sequence[Contender], turn: int, plan: Plan, found: Saving) -> None:
    reached = max(known for known in plan.turns if known < turn)
    windows = {each.key: plan.window if each.linear else plan.jumped_window for each in contenders}
    for contender in contenders:
        first = turn - windows[contender.key] + 1
        if contender.linear:
            for step in range(reached + 1, first):
                contender.advance(step)
        else:
            contender.jump(first)
    seconds: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    young = {each.key: (each.young(), list[float]()) for each in contenders if each.linear and turn == plan.turns[-1]}
    for left in range(plan.window, 0, -1):
        for contender in shuffled(contenders, left):
            if left <= windows[contender.key]:
                seconds[contender.key].append(contender.save(turn - left + 1))
        for other, taken in young.values():
            taken.append(other.save(plan.window - left + 1))
    for contender in contenders:
        _check(contender, turn)
        found.costs[contender.key, turn] = Cost(Samples(seconds[contender.key]), jumped=not contender.linear)
    found.young.update({key: Samples(taken) for key, (_, taken) in young.items()})


def _check(contender: Contender, turn: int) -> None:
    if contender.read() != contender.conversation.until(turn):
        raise RuntimeError(f"{contender.title} did not give back what was saved by turn {turn}.")
