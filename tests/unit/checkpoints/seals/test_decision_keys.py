"""Keys that sign decisions, and their system check."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from checkpoints import checks
from checkpoints.exceptions import DecisionKeyInvalid
from checkpoints.seals import decision_keys
from checkpoints.seals.decision_keys import SIGNING_SETTING, VERIFY_SETTING, create_key_pair, get_decision_keys

KEYS, FORMER = create_key_pair(), create_key_pair()


@pytest.fixture(autouse=True)
def without_configured_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (SIGNING_SETTING, VERIFY_SETTING):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    get_decision_keys.cache_clear()
    yield
    get_decision_keys.cache_clear()


def test_signatures_are_required_if_a_key_is_configured(settings: Any) -> None:
    assert get_decision_keys() is None
    settings.HARNESS_DECISION_VERIFY_KEYS = [KEYS.verifying, FORMER.verifying]
    keys = get_decision_keys()
    assert keys is not None
    assert {key_id.hex() for key_id in keys.verifying} == {KEYS.key_id, FORMER.key_id}
    assert keys.signing is None
    settings.HARNESS_DECISION_VERIFY_KEYS = None
    settings.HARNESS_DECISION_SIGNING_KEY = KEYS.signing
    site = get_decision_keys()
    assert site is not None
    assert [key_id.hex() for key_id in site.verifying] == [KEYS.key_id]
    assert KEYS.signing not in repr(site) + repr(KEYS)


def test_keys_are_read_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEYS.signing}\n")
    monkeypatch.setenv(f"{SIGNING_SETTING}_FILE", str(file))
    keys = get_decision_keys()
    assert keys is not None
    assert keys.signing_id.hex() == KEYS.key_id


@pytest.mark.parametrize(
    ("signing", "verifying", "why"),
    [
        ("short", "", "key 1 of HARNESS_DECISION_SIGNING_KEY is not 64 hexadecimal digits"),
        (f"{KEYS.signing} {FORMER.signing}", "", "several keys"),
        ("", f"{KEYS.verifying}, {KEYS.verifying[:-1]}", "key 2 of HARNESS_DECISION_VERIFY_KEYS"),
        ("", f"{KEYS.verifying} {KEYS.verifying}", "the same key twice"),
        (KEYS.signing, KEYS.signing, "has the private key"),
    ],
    ids=["malformed", "several", "malformed second", "twice", "private among the public"],
)
def test_malformed_key_is_an_error_of_the_system_check(settings: Any, signing: str, verifying: str, why: str) -> None:
    settings.HARNESS_DECISION_SIGNING_KEY, settings.HARNESS_DECISION_VERIFY_KEYS = signing, verifying
    with pytest.raises(DecisionKeyInvalid, match=why):
        get_decision_keys()
    (message,) = checks.check_seal_and_decision_keys(app_configs=None)
    assert (message.id, why in message.msg) == ("checkpoints.E002", True)
    assert KEYS.signing not in message.msg


def test_missing_package_is_named(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HARNESS_DECISION_VERIFY_KEYS = KEYS.verifying
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(DecisionKeyInvalid, match=r"package cryptography.*harness-checkpoints\[secrets\]"):
        get_decision_keys()


def test_printed_settings_are_a_pair(
    settings: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("make_decision_keys")
    printed = dict(line.split("=") for line in capsys.readouterr().out.splitlines() if not line.startswith("#"))
    for name, value in printed.items():
        monkeypatch.setenv(name, value)
    keys = get_decision_keys()
    assert set(printed) == {SIGNING_SETTING, VERIFY_SETTING}
    assert keys is not None
    assert list(keys.verifying) == [decision_keys.compute_key_id(bytes.fromhex(printed[VERIFY_SETTING]))]
