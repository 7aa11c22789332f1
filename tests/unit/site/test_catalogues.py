"""Every sentence on pages is translated, and the compiled catalogues are up to date."""

import gettext
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.support import translation_catalogues

CATALOGUES = sorted(translation_catalogues.LOCALE.glob("*/LC_MESSAGES/*.po"))


def read_compiled(path: Path) -> dict[object, str]:
    with path.open("rb") as file:
        return dict(vars(gettext.GNUTranslations(file))["_catalog"])


def test_each_language_has_catalogues_for_pages_and_scripts() -> None:
    found = {path.relative_to(translation_catalogues.LOCALE).as_posix() for path in CATALOGUES}
    assert found == {
        f"{language}/LC_MESSAGES/{domain}.po"
        for language in translation_catalogues.list_languages()
        for domain in ("django", "djangojs")
    }


def test_catalogues_contain_the_sentences_of_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "vendor", "*.mo")
    for name in ("checkpoints", "harness_site", "templates", "static"):
        shutil.copytree(translation_catalogues.ROOT / name, tmp_path / name, ignore=ignored)
    locale = tmp_path / translation_catalogues.LOCALE.relative_to(translation_catalogues.ROOT)
    settings.LOCALE_PATHS = [locale]
    monkeypatch.chdir(tmp_path)
    translation_catalogues.collect_messages(locale)
    for path in CATALOGUES:
        collected = locale / path.relative_to(translation_catalogues.LOCALE)
        assert collected.read_text() == path.read_text(), f"{path} is out of date: run `make messages`."


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_sentence_is_translated_with_its_placeholders(path: Path, tmp_path: Path) -> None:
    compiled = tmp_path / "compiled.mo"
    command = ["msgfmt", "--check-format", "--statistics", "--output-file", str(compiled), str(path)]
    counts = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin"}
    )
    assert re.fullmatch(r"\d+ translated messages?\.\n", counts.stderr), counts.stderr
    assert read_compiled(path.with_suffix(".mo")) == read_compiled(compiled), "Run `make messages`."
