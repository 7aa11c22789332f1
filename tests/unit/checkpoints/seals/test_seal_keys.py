from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints.exceptions import SealKeyInvalid, SealKeyMissing
from checkpoints.seals import seal_keys

NEW, OLD = "ab" * 32, "CD" * 32


@pytest.fixture(autouse=True)
def without_configured_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (seal_keys.KEY_SETTING, f"{seal_keys.KEY_SETTING}_FILE", seal_keys.REQUIRED_SETTING):
        monkeypatch.delenv(name, raising=False)
    seal_keys.get_seal_keys.cache_clear()
    yield
    seal_keys.get_seal_keys.cache_clear()


def test_sealing_is_off_without_a_key() -> None:
    assert seal_keys.get_seal_keys() is None


def test_first_key_seals_and_every_key_verifies(settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = OLD
    before = seal_keys.get_seal_keys()
    settings.HARNESS_SEAL_KEY = f"{NEW}, {OLD}"
    after = seal_keys.get_seal_keys()
    assert before
    assert after

    seal = before.current.compute_seal("toolcall", b"content")

    assert len(seal) == seal_keys.SEAL_SIZE
    assert after.current.id != before.current.id
    assert after.get_key_of_seal(seal).compute_seal("toolcall", b"content") == seal
    assert before.current.compute_seal("decision", b"content") != seal
    assert OLD.lower() not in repr(before.current)


def test_seal_by_an_unknown_key_lists_the_configured_keys(settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = OLD
    old = seal_keys.get_seal_keys()
    settings.HARNESS_SEAL_KEY = NEW
    new = seal_keys.get_seal_keys()
    assert old
    assert new

    with pytest.raises(SealKeyMissing) as caught:
        new.get_key_of_seal(old.current.compute_seal("toolcall", b""))
    assert old.current.id.hex() in str(caught.value)
    assert new.current.id.hex() in str(caught.value)


def test_key_is_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{NEW}\n{OLD}\n")
    monkeypatch.setenv("HARNESS_SEAL_KEY_FILE", str(file))

    found = seal_keys.get_seal_keys()

    assert found
    assert len(found.by_id) == 2
    assert found.required


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("short", "not 64 hexadecimal digits"),
        ("g" * 64, "not 64 hexadecimal digits"),
        (f"{NEW} short", "key 2"),
        (f"{NEW} {NEW.upper()}", "twice"),
    ],
)
def test_malformed_key_is_refused(settings: Any, text: str, why: str) -> None:
    settings.HARNESS_SEAL_KEY = text
    with pytest.raises(SealKeyInvalid, match=why) as caught:
        seal_keys.get_seal_keys()
    assert text[:64] not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"], ids=["missing", "empty", "blank", "binary"])
def test_unreadable_key_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    monkeypatch.setenv("HARNESS_SEAL_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(SealKeyInvalid):
        seal_keys.get_seal_keys()


def test_key_and_file_are_not_both_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_SEAL_KEY", NEW)
    monkeypatch.setenv("HARNESS_SEAL_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(SealKeyInvalid, match="both"):
        seal_keys.get_seal_keys()


def test_required_seals_without_a_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SEAL_REQUIRED", "1")
    with pytest.raises(SealKeyMissing):
        seal_keys.get_seal_keys()


@pytest.mark.parametrize(("value", "required"), [("0", False), ("off", False), ("1", True), ("", True)])
def test_rows_without_a_seal_are_accepted_by_configuration(
    monkeypatch: pytest.MonkeyPatch, value: str, required: bool
) -> None:
    monkeypatch.setenv("HARNESS_SEAL_KEY", NEW)
    monkeypatch.setenv("HARNESS_SEAL_REQUIRED", value)
    found = seal_keys.get_seal_keys()
    assert found
    assert found.required is required


def test_invalid_value_for_required_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SEAL_REQUIRED", "maybe")
    with pytest.raises(SealKeyInvalid):
        seal_keys.get_seal_keys()
