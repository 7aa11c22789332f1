"""Consistency of styles, templates and icons."""

import re
from pathlib import Path

import pytest

from harness_site.sessions.html_export import _STYLES

ROOT = Path(__file__).parents[3]
STYLES = sorted((ROOT / "static" / "css").glob("*.css"))
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
LAYERS = "@layer reset, tokens, base, layout, components, pages, touch;"


def test_css_layers_are_ordered_once() -> None:
    assert [path.name for path in STYLES if LAYERS in path.read_text()] == ["tokens.css"]


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_colours_are_defined_as_tokens(path: Path) -> None:
    if path.name != "tokens.css":
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{]*;)", path.read_text()) == []


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_every_used_token_is_defined(path: Path) -> None:
    defined = set(re.findall(r"(--[\w-]+):", "".join(style.read_text() for style in STYLES)))
    assert set(re.findall(r"var\((--[\w-]+)", path.read_text())) - defined == set()


#: Beginnings of classes that a library sets, or whose ends are data: styles of terminals, tokens of a programming
#: language, kinds of a lane.
COMPOSED_CLASSES = ("ansi-", "depth-", "for-", "hl-", "htmx-", "on-")
CODE = "".join(
    path.read_text()
    for folder, kind in (("templates", "html"), ("harness_site", "py"), ("static/js", "js"))
    for path in sorted((ROOT / folder).rglob(f"*.{kind}"))
)
WORDS = set(re.findall(r"[\w-]+", CODE))


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_every_class_and_id_of_a_style_is_used(path: Path) -> None:
    selectors = re.findall(r"([^{};]+)\{", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL))
    named = set(re.findall(r"[.#]([a-zA-Z][\w-]*)", "".join(selectors)))
    assert {name for name in named - WORDS if not name.startswith(COMPOSED_CLASSES)} == set()


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_every_style_is_linked_or_exported(path: Path) -> None:
    assert path.stem in _STYLES or f"{{% static 'css/{path.name}' %}}" in CODE


def test_exported_pages_have_the_styles_of_session_pages_in_their_order() -> None:
    links = (ROOT / "templates" / "parts" / "session_stylesheets.html").read_text()
    names = re.findall(r"css/(\w+)\.css", links)
    assert len(names) == links.count("<link")
    assert [name for name in _STYLES if name in names] == names


def test_both_themes_define_the_same_colours() -> None:
    tokens = (ROOT / "static" / "css" / "tokens.css").read_text()
    assert (
        len(re.findall(r"light-dark\(#[0-9a-f]+, #[0-9a-f]+\)", tokens))
        == len(re.findall(r"#[0-9a-f]{3,8}", tokens)) / 2
    )
    assert re.findall(r": #", tokens) == []


def test_every_icon_is_in_the_sprite() -> None:
    drawn = set(re.findall(r'<symbol id="([\w-]+)"', (ROOT / "static" / "icons" / "sprite.svg").read_text()))
    used = set(re.findall(r'{% icon "([\w-]+)" %}', "".join(path.read_text() for path in TEMPLATES)))
    assert used - drawn == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_template_marks_text_as_safe(path: Path) -> None:
    assert (
        re.findall(r"\|safe\b|{% autoescape off|<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", path.read_text()) == []
    )
