"""Numbers by version as small drawings, one below the other on the same axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from checkpoints.queries.growth import Growth, Point
from harness_site.rendering import saying

WIDTH = 1040
LEFT = 72
RIGHT = 1024
#: Height of one drawing, and of what it draws in.
HEIGHT = 92
_TOP = 8.0
_BOTTOM = 78.0
#: More points than this have no dots.
_DOTS = 60

Number = Decimal | int
_SHOWN: Final[tuple[tuple[str, Callable[[Point], Number | None], Callable[..., str]], ...]] = (
    ("Cost", lambda point: point.cost, saying.money),
    ("Tokens", lambda point: point.tokens, saying.count),
    ("Messages", lambda point: point.messages, saying.count),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """One version; `left` and `width` are of the strip of the drawing in which it is pointed at."""

    x: float
    y: float
    left: float
    width: float
    version: int
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One drawing. `line` and `area` are paths; `words` tell it to who cannot see it."""

    name: str
    line: str
    area: str
    dots: tuple[Dot, ...]
    dotted: bool
    most: str
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """`missing` names what no version says."""

    strips: tuple[Strip, ...]
    missing: tuple[str, ...]


def draw(growth: Growth) -> Chart:
    strips, missing = [], []
    for name, value, written in _SHOWN:
        known = [
            (index, point, number) for index, point in enumerate(growth.points) if (number := value(point)) is not None
        ]
        if known:
            strips.append(_strip(name, known, written, len(growth.points)))
        else:
            missing.append(name.lower())
    return Chart(tuple(strips), tuple(missing))


def _strip(name: str, known: Sequence[tuple[int, Point, Number]], written: Callable[..., str], places: int) -> Strip:
    most = max(number for *_, number in known)
    room = (RIGHT - LEFT) / places
    dots = []
    for index, point, number in known:
        x = round(LEFT + (index + 0.5) * room, 1)
        y = round(_BOTTOM - (_BOTTOM - _TOP) * (float(number) / float(most) if most > 0 else 0.0), 1)
        left = round(LEFT + index * room, 1)
        title = f"Version {point.version}: {written(number)}"
        dots.append(Dot(x, y, left, round(room, 1), point.version, title))
    line = "M" + "L".join(f"{dot.x} {dot.y}" for dot in dots)
    area = f"{line}V{_BOTTOM}H{dots[0].x}Z"
    (_, first, begin), (_, last, end) = known[0], known[-1]
    words = f"{name}: {written(begin)} at version {first.version}, {written(end)} at version {last.version}"
    return Strip(name, line, area, tuple(dots), len(dots) <= _DOTS, written(most), f"{words}, at most {written(most)}.")
