import stat
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from harness_site import env, state_folder_and_secrets


def test_stored_secret_is_created_once_with_private_permissions(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret_key"
    made = state_folder_and_secrets.load_or_create_secret(path)
    assert len(made) == 64
    assert state_folder_and_secrets.load_or_create_secret(path) == made
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]
    assert [one.name for one in path.parent.iterdir()] == ["secret_key"]


def test_state_folder_or_key_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ImproperlyConfigured, match=r"The state folder '.*/file/state' cannot be created: Not a dir"):
        state_folder_and_secrets.load_or_create_secret(tmp_path / "file" / "state" / "secret_key")
    (tmp_path / "secret_key").mkdir()
    with pytest.raises(ImproperlyConfigured, match=r"The secret key '.*/secret_key' cannot be read or created: Is a"):
        state_folder_and_secrets.load_or_create_secret(tmp_path / "secret_key")


def test_one_of_two_processes_creates_the_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    path.write_text("first")
    state_folder_and_secrets._create_file_once(path, "second")
    assert path.read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["secret_key"]


def test_state_folder_of_a_checkout_is_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_STATE_DIR", raising=False)
    assert state_folder_and_secrets.get_state_dir() == env.BASE_DIR / "var"


def test_state_folder_of_an_installation_is_the_user_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HARNESS_STATE_DIR", raising=False)
    monkeypatch.setattr(state_folder_and_secrets, "IS_CHECKOUT", False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert state_folder_and_secrets.get_state_dir() == tmp_path / "harness"


def test_state_folder_can_be_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_STATE_DIR", str(tmp_path / "state"))
    assert state_folder_and_secrets.get_state_dir() == tmp_path / "state"


def test_relative_state_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_STATE_DIR", "state")
    with pytest.raises(ImproperlyConfigured, match="HARNESS_STATE_DIR is 'state': give an absolute path"):
        state_folder_and_secrets.get_state_dir()
