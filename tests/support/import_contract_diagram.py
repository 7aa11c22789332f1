"""Draw `docs/images/structure.svg` from the import contracts in `pyproject.toml`.

`python -m tests.support.import_contract_diagram` (or `make picture`) writes the file. It has one panel for each root
package, the importing package above the imported one, and in it the contracts of types `layers` and `independence`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "images" / "structure.svg"

WIDTH: Final = 960
MARGIN: Final = 24
GAP: Final = 8
BOX_HEIGHT: Final = 30
HEADING_HEIGHT: Final = 30
PANEL_GAP: Final = 46
CHARACTER_WIDTH: Final = 7.3

STYLE: Final = """\
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
.title { font: bold 16px system-ui, sans-serif }
.heading, .note { font: 12px system-ui, sans-serif; fill: #59636e }
.panel { fill: #f6f8fa; stroke: #d1d9e0 }
.layer { fill: #ffffff; stroke: #d1d9e0 }
.module { fill: #ddf4ff; stroke: #54aeff }
.arrow { stroke: #59636e; fill: none; stroke-width: 1.5 }
.head { fill: #59636e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .heading, .note { fill: #9198a1 }
  .panel { fill: #151b23; stroke: #3d444d } .layer { fill: #0d1117; stroke: #3d444d }
  .module { fill: #0c2d6b; stroke: #388bfd } .arrow { stroke: #9198a1 } .head { fill: #9198a1 }
}"""


@dataclass(frozen=True)
class Section:
    """Contract as a heading and rows of module names, the highest layer first."""

    heading: str
    rows: tuple[tuple[str, ...], ...]


@dataclass
class Canvas:
    """SVG elements, and the height they occupy so far, in pixels."""

    elements: list[str] = field(default_factory=list)
    y: float = MARGIN

    def rectangle(self, kind: str, x: float, y: float, width: float, height: float) -> None:
        self.elements.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>')

    def text(self, kind: str, x: float, y: float, content: str, anchor: str = "start") -> None:
        attributes = f"class={quoteattr(kind)} " if kind else ""
        self.elements.append(f'<text {attributes}x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(content)}</text>')


def draw_contracts(settings: dict[str, Any]) -> str:
    """Return the SVG for the table `[tool.importlinter]`."""
    panels = {
        package: list(_build_sections(package, settings["contracts"])) for package in _list_root_packages(settings)
    }
    canvas = Canvas()
    non_empty_panels = [(package, sections) for package, sections in panels.items() if sections]
    for index, (package, sections) in enumerate(non_empty_panels):
        if index:
            _draw_arrow(canvas)
        _draw_panel(canvas, package, sections)
    height = canvas.y + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}" '
    )
    label = 'role="img" aria-label="The packages and layers of the import contract; imports point downwards">'
    return "\n".join([head + label, f"<style>\n{STYLE}\n</style>", *canvas.elements, "</svg>\n"])


def _list_root_packages(settings: dict[str, Any]) -> list[str]:
    """Return the root packages, one that may not import another below it."""
    roots: list[str] = list(settings["root_packages"])
    forbidden_pairs = {
        (source, target)
        for contract in settings["contracts"]
        if contract["type"] == "forbidden"
        for source in contract["source_modules"]
        for target in contract["forbidden_modules"]
        if source in roots and target in roots
    }
    return sorted(roots, key=lambda package: sum(source == package for source, _ in forbidden_pairs))


def _build_sections(package: str, contracts: Iterable[dict[str, Any]]) -> Iterator[Section]:
    for contract in contracts:
        if contract["type"] == "layers":
            for container in contract.get("containers") or [""]:
                if (container or contract["layers"][0].strip("()")).partition(".")[0] == package:
                    rows = tuple(_parse_layer_modules(layer) for layer in contract["layers"])
                    yield Section(contract["name"], rows)
        elif contract["type"] == "independence" and all(
            _is_inside_package(name, package) for name in contract["modules"]
        ):
            names = tuple(name.removeprefix(f"{package}.") for name in contract["modules"])
            yield Section(contract["name"], (names,))


def _is_inside_package(module: str, package: str) -> bool:
    return module.startswith(f"{package}.")


def _parse_layer_modules(layer: str) -> tuple[str, ...]:
    """Return the modules of one layer: `(a) : (b)` and `a | b` are the notations of import-linter."""
    return tuple(name.strip().strip("()") for name in re.split(r"[:|]", layer))


def _draw_arrow(canvas: Canvas) -> None:
    top, bottom, middle = canvas.y + 6, canvas.y + PANEL_GAP - 8, WIDTH / 2
    canvas.elements.append(f'<path class="arrow" d="M{middle:g} {top:g}V{bottom - 6:g}"/>')
    canvas.elements.append(f'<path class="head" d="M{middle - 5:g} {bottom - 8:g}h10l-5 8z"/>')
    canvas.text("note", middle + 14, (top + bottom) / 2 + 4, "imports, never the reverse")
    canvas.y += PANEL_GAP


def _draw_panel(canvas: Canvas, package: str, sections: Sequence[Section]) -> None:
    index, top = len(canvas.elements), canvas.y
    canvas.y += 14
    canvas.text("title", 2 * MARGIN, canvas.y + 16, package)
    canvas.y += 26
    for section in sections:
        canvas.text("heading", 2 * MARGIN, canvas.y + 18, section.heading)
        canvas.y += HEADING_HEIGHT
        for row in section.rows:
            _draw_layer(canvas, row)
    canvas.y += MARGIN / 2
    panel = Canvas()
    panel.rectangle("panel", MARGIN, top, WIDTH - 2 * MARGIN, canvas.y - top)
    canvas.elements[index:index] = panel.elements


def _draw_layer(canvas: Canvas, modules: Sequence[str]) -> None:
    """Draw the modules of one layer in as many lines as they need."""
    left, right = 2 * MARGIN, WIDTH - 2 * MARGIN
    boxes = Canvas()
    x: float = left + GAP
    y = canvas.y + GAP
    for name in modules:
        width = len(name) * CHARACTER_WIDTH + 20
        if x + width > right - GAP and x > left + GAP:
            x, y = left + GAP, y + BOX_HEIGHT + GAP
        boxes.rectangle("module", x, y, width, BOX_HEIGHT)
        boxes.text("", x + width / 2, y + BOX_HEIGHT / 2 + 4, name, "middle")
        x += width + GAP
    bottom = y + BOX_HEIGHT + GAP
    canvas.rectangle("layer", left, canvas.y, right - left, bottom - canvas.y)
    canvas.elements += boxes.elements
    canvas.y = bottom + GAP


def draw_current_contracts() -> str:
    """Return the picture of the current contracts."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return draw_contracts(settings)


if __name__ == "__main__":
    PICTURE.write_text(draw_current_contracts())
