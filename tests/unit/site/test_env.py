import re
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from harness_site import env


def test_value_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_X", "value")
    assert env.read_text_setting("HARNESS_X", "default") == "value"
    assert env.read_text_setting("HARNESS_Y", "default") == "default"


def test_value_of_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(" secret\n")
    monkeypatch.setenv("HARNESS_X_FILE", str(tmp_path / "secret"))
    assert env.read_text_setting("HARNESS_X") == "secret"


def test_variable_and_file_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_X", "a")
    monkeypatch.setenv("HARNESS_X_FILE", "/b")
    with pytest.raises(ImproperlyConfigured, match="Set HARNESS_X or HARNESS_X_FILE, not both"):
        env.read_text_setting("HARNESS_X")


def test_unreadable_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_X_FILE", "/nowhere/secret")
    with pytest.raises(ImproperlyConfigured, match="HARNESS_X_FILE names '/nowhere/secret', which cannot be read"):
        env.read_text_setting("HARNESS_X")


def test_of_a_variable_and_its_file_an_empty_one_is_not_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("HARNESS_X", "")
    monkeypatch.setenv("HARNESS_X_FILE", str(tmp_path / "secret"))
    assert env.read_text_setting("HARNESS_X") == "secret"
    monkeypatch.setenv("HARNESS_X", "value")
    monkeypatch.setenv("HARNESS_X_FILE", "")
    assert env.read_text_setting("HARNESS_X") == "value"


def test_file_that_is_no_text_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setenv("HARNESS_X_FILE", str(tmp_path / "secret"))
    with pytest.raises(ImproperlyConfigured, match=r"HARNESS_X_FILE names .*, which is no text in UTF-8"):
        env.read_text_setting("HARNESS_X")


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("Yes", True), ("off", False), (" 0 ", False), ("", True)]
)
def test_boolean_variable(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("HARNESS_X", value)
    assert env.read_boolean_setting("HARNESS_X", default=True) is expected


def test_invalid_boolean_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_X", "maybe")
    with pytest.raises(ImproperlyConfigured, match="HARNESS_X is 'maybe': use 1 or 0"):
        env.read_boolean_setting("HARNESS_X", default=False)


def test_list_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_X", " a, ,b,")
    assert env.read_list_setting("HARNESS_X") == ["a", "b"]


@pytest.mark.parametrize(("value", "expected"), [("", 7), ("0", 0), ("31536000", 31536000)])
def test_integer_variable(monkeypatch: pytest.MonkeyPatch, value: str, expected: int) -> None:
    monkeypatch.setenv("HARNESS_X", value)
    assert env.read_non_negative_integer_setting("HARNESS_X", 7) == expected


def test_invalid_integer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_X", "-1")
    with pytest.raises(ImproperlyConfigured, match="HARNESS_X is '-1': use a whole number"):
        env.read_non_negative_integer_setting("HARNESS_X", 7)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HARNESS_ADRESS", "HARNESS_ADDRESS"),
        ("HARNESS_ALLOWED_HOST", "HARNESS_ALLOWED_HOSTS"),
        ("HARNESS_SECRETKEY_FILE", "HARNESS_SECRET_KEY_FILE"),
        ("HARNESS_DATABSE_URL", "HARNESS_DATABASE_URL"),
    ],
)
def test_misspelt_variable_is_told_with_what_was_meant(name: str, meant: str) -> None:
    assert env.find_misspelt_variables([name, "PATH", "ADRESS"]) == {name: meant}


def test_no_variable_that_any_part_reads_is_taken_for_misspelt() -> None:
    """The names are searched in the sources of all parts and in the pages of the documentation."""
    root = Path(__file__).parents[3]
    folders = ("checkpoints", "harness_site", "examples", "benchmarks", "docs", "tests/support", "tests/mutations")
    paths = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in {".py", ".md"}]
    names = {name for path in paths for name in re.findall(r"HARNESS_[A-Z_]*[A-Z]", path.read_text())}
    assert {"HARNESS_SEAL_KEY", "HARNESS_TOKEN_FILE", "HARNESS_TEST_EXHAUSTIVE", "HARNESS_WITNESS"} <= names
    assert env.find_misspelt_variables(names) == {}


def test_every_setting_of_the_documentation_is_known() -> None:
    """A name like the one of a setting that is not known would get the advice to take another one."""
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    settings = re.findall(r"^\| `(HARNESS_[A-Z_]+)`", page, re.MULTILINE)
    assert len(settings) > 20
    assert {f"{name}S" for name in settings} == set(env.find_misspelt_variables(f"{name}S" for name in settings))
