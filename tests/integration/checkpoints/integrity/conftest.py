from typing import Any

import pytest

KEY, OTHER_KEY = "5e" * 32, "a1" * 32


@pytest.fixture(autouse=True)
def sealing_is_on(settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = KEY
    settings.HARNESS_SEAL_REQUIRED = True
