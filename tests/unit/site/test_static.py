"""Consistency of styles, templates and icons."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness_site.sessions.html_export import _STYLES

ROOT = Path(__file__).parents[3]
STYLE_FOLDER = ROOT / "static" / "css"
STYLES = sorted(STYLE_FOLDER.rglob("*.css"))
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
LAYERS = "@layer reset, tokens, base, layout, components, pages, touch, paper;"


def test_css_layers_are_ordered_once() -> None:
    assert [path.name for path in STYLES if LAYERS in path.read_text()] == ["tokens.css"]


@pytest.mark.parametrize("path", STYLES, ids=lambda path: str(path.relative_to(STYLE_FOLDER)))
def test_colours_are_defined_as_tokens(path: Path) -> None:
    if path.name != "tokens.css":
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{]*;)", path.read_text()) == []


@pytest.mark.parametrize("path", STYLES, ids=lambda path: str(path.relative_to(STYLE_FOLDER)))
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


@pytest.mark.parametrize("path", STYLES, ids=lambda path: str(path.relative_to(STYLE_FOLDER)))
def test_every_class_and_id_of_a_style_is_used(path: Path) -> None:
    selectors = re.findall(r"([^{};]+)\{", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL))
    named = set(re.findall(r"[.#]([a-zA-Z][\w-]*)", "".join(selectors)))
    assert {name for name in named - WORDS if not name.startswith(COMPOSED_CLASSES)} == set()


@pytest.mark.parametrize("path", STYLES, ids=lambda path: str(path.relative_to(STYLE_FOLDER)))
def test_every_style_is_linked_or_exported(path: Path) -> None:
    name = path.relative_to(STYLE_FOLDER).with_suffix("").as_posix()
    assert name in _STYLES or f"{{% static 'css/{name}.css' %}}" in CODE


def test_exported_pages_have_the_styles_of_session_pages_in_their_order() -> None:
    links = (ROOT / "templates" / "parts" / "session_stylesheets.html").read_text()
    names = re.findall(r"css/(\w+)\.css", links)
    assert len(names) == links.count("<link")
    assert [name for name in _STYLES if name in names] == names


#: Classes that the rules of the card name only together with others, and that other pages use without those.
SHARED_CLASSES = {"reason", "withdraw"}
CARD_STYLES = [path for path in STYLES if path.parent.name == "decision_card"]


def _list_classes(paths: Iterable[Path]) -> set[str]:
    rules = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in paths), flags=re.DOTALL)
    return set(re.findall(r"\.([a-zA-Z][\w-]*)", "".join(re.findall(r"([^{};]+)\{", rules))))


def _list_included_templates(name: str, outer: frozenset[str] = frozenset()) -> set[str]:
    """List a template and those that it includes, which may include an `outer` one again."""
    text = (ROOT / "templates" / name).read_text()
    names = set(re.findall(r'{% include "([\w/]+\.html)"', text)) - outer - {name}
    return {name}.union(*(_list_included_templates(each, outer | {name}) for each in names))


def test_decision_card_alone_loads_its_styles_before_those_of_sessions() -> None:
    linking = {path.relative_to(ROOT / "templates").as_posix(): path.read_text() for path in TEMPLATES}
    assert {name for name, text in linking.items() if "css/decision_card/" in text} == {"review/card.html"}
    head, _, after = linking["review/card.html"].partition("parts/session_stylesheets.html")
    assert sorted(re.findall(r"css/decision_card/(\w+)\.css", head)) == [path.stem for path in CARD_STYLES]
    assert "css/decision_card/" not in after


def test_classes_of_the_decision_card_are_of_no_other_page() -> None:
    of_card = _list_classes(CARD_STYLES) - _list_classes(path for path in STYLES if path not in CARD_STYLES)
    assert {"call-origin", "consequence", "hand-over"} <= of_card
    parts = _list_included_templates("review/card.html")
    elsewhere = {
        (path.relative_to(ROOT / "templates").as_posix(), name)
        for path in TEMPLATES
        for value in re.findall(r'class="([^"]*)"', re.sub(r"{{.*?}}|{%.*?%}", "", path.read_text()))
        for name in of_card & set(value.split())
    }
    assert {(path, name) for path, name in elsewhere if path not in parts and name not in SHARED_CLASSES} == set()


def test_both_themes_define_the_same_colours() -> None:
    tokens = (ROOT / "static" / "css" / "tokens.css").read_text()
    assert (
        len(re.findall(r"light-dark\(#[0-9a-f]+, #[0-9a-f]+\)", tokens))
        == len(re.findall(r"#[0-9a-f]{3,8}", tokens)) / 2
    )
    assert re.findall(r": #", tokens) == []


#: Tags of elements that scroll by themselves and have no links.
SCROLLABLE = re.compile(r'<\w+[^>]*? class="(?:tool-output|terminal|diff)[ "][^>]*>')


def test_what_scrolls_is_reached_by_keyboard() -> None:
    scrollable = [
        (path.name, tag)
        for path in TEMPLATES
        if path.name != "text_page.html"  # the text is as high as it has to be, so the page scrolls
        for tag in SCROLLABLE.findall(path.read_text())
    ]
    assert "compared_call_body.html" in dict(scrollable)
    assert [(name, tag) for name, tag in scrollable if 'tabindex="0"' not in tag] == []


def test_every_icon_is_in_the_sprite() -> None:
    drawn = set(re.findall(r'<symbol id="([\w-]+)"', (ROOT / "static" / "icons" / "sprite.svg").read_text()))
    used = set(re.findall(r'{% icon "([\w-]+)" %}', "".join(path.read_text() for path in TEMPLATES)))
    assert used - drawn == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_template_marks_text_as_safe(path: Path) -> None:
    assert (
        re.findall(r"\|safe\b|{% autoescape off|<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", path.read_text()) == []
    )


def test_every_element_that_morphs_names_the_extension_itself() -> None:
    """htmx looks for the extension where the element is after the other parts of the page were swapped, and these can
    have removed the element. Without the extension it would insert the response into its target."""
    text = "".join(path.read_text() for path in TEMPLATES)
    assert text.count('hx-swap="morph') > 20
    assert re.findall(r'(?<!hx-ext="morph" )hx-swap="morph[^>]*', text) == []


SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))
EXPORTED_FUNCTIONS = sorted(
    set(re.findall(r"^export (?:async )?function (\w+)", "".join(path.read_text() for path in SCRIPTS), re.MULTILINE))
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_of_other_scripts_are_imported(path: Path) -> None:
    text = path.read_text()
    called = {name for name in EXPORTED_FUNCTIONS if re.search(rf"(?<![\w.$])(?<!function ){name}\(", text)}
    defined = set(re.findall(r"\bfunction (\w+)|\b(?:const|let) (\w+) =", text))
    imported = ",".join(re.findall(r"import \{([^}]*)\}", text))
    known = {name for names in defined for name in names} | set(re.findall(r"\w+", imported))
    assert called - known == set()
