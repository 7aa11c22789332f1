import pytest
from django.core.exceptions import ImproperlyConfigured

from harness_site import env
from harness_site.serving.server_limits_from_environment import (
    MEGABYTE,
    ServerLimits,
    read_server_limits_from_environment,
)


def test_body_limit_allows_evidence_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_server_limits_from_environment(evidence_bytes=5 * MEGABYTE).body_bytes == 15 * MEGABYTE
    monkeypatch.setenv("HARNESS_BODY_MEGABYTES", "3")
    assert read_server_limits_from_environment(evidence_bytes=5 * MEGABYTE).body_bytes == 3 * MEGABYTE


def test_timeout_of_zero_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HEADER_SECONDS", "0")
    read_server_limits_from_environment(evidence_bytes=0)
    with pytest.raises(ImproperlyConfigured, match="HARNESS_HEADER_SECONDS is '0': use a whole number of one or more"):
        env.raise_collected_problems()


def test_fast_body_has_more_time_than_a_slow_one() -> None:
    limits = ServerLimits(body_seconds=120, grace_seconds=10, minimum_rate=1000)
    assert [limits.compute_body_seconds_allowed(size) for size in (0, 1, 50_000, 10**9)] == [10, 10.001, 60, 120]


def test_fast_reader_has_more_time_than_a_stopped_one() -> None:
    limits = ServerLimits(write_seconds=30, minimum_rate=1000)
    assert [limits.compute_response_seconds_allowed(size) for size in (0, 10_000)] == [30, 40]
