"""Limits on the resources that one client may use. `docs/operations.md` lists the environment variables."""

from __future__ import annotations

from dataclasses import dataclass

from harness_site import env

KILOBYTE = 1024
MEGABYTE = 1_048_576


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of the server: sizes in bytes, times in seconds, `minimum_rate` in bytes per second."""

    #: Time until the headers of a request are complete, and their maximum size.
    header_seconds: int = 10
    header_bytes: int = 32 * KILOBYTE
    #: Time until the body is complete, and its maximum size for members and for anybody else.
    body_seconds: int = 120
    body_bytes: int = 15 * MEGABYTE
    anonymous_body_bytes: int = 64 * KILOBYTE
    #: Time that a connection may be open without a request.
    idle_seconds: int = 15
    #: Time in which a client may read no bytes of a response.
    write_seconds: int = 30
    #: Average rate below which a client is disconnected, in both directions, after the first `grace_seconds`.
    minimum_rate: int = 1024
    grace_seconds: int = 10
    connections: int = 500
    websocket_message_bytes: int = 4 * KILOBYTE

    def compute_body_seconds_allowed(self, received: int) -> float:
        """Return the seconds after the headers by which more than `received` bytes of the body have to arrive."""
        return min(self.body_seconds, self.grace_seconds + received / self.minimum_rate)

    def compute_response_seconds_allowed(self, sent: int) -> float:
        """Return the total seconds that a client may block the server while it reads `sent` bytes of a response."""
        return self.write_seconds + sent / self.minimum_rate


def read_server_limits_from_environment(*, evidence_bytes: int) -> ServerLimits:
    """Read the limits from `HARNESS_…` variables; a body has room for two evidence files.

    Wrong values are kept for `env.raise_collected_problems`.
    """
    default = ServerLimits()
    body_megabytes = env.read_positive_integer_or_collect_problem(
        "HARNESS_BODY_MEGABYTES", 5 + 2 * evidence_bytes // MEGABYTE
    )
    anonymous_kilobytes = env.read_positive_integer_or_collect_problem(
        "HARNESS_ANONYMOUS_BODY_KILOBYTES", default.anonymous_body_bytes // KILOBYTE
    )
    return ServerLimits(
        header_seconds=env.read_positive_integer_or_collect_problem("HARNESS_HEADER_SECONDS", default.header_seconds),
        body_seconds=env.read_positive_integer_or_collect_problem("HARNESS_BODY_SECONDS", default.body_seconds),
        body_bytes=body_megabytes * MEGABYTE,
        anonymous_body_bytes=anonymous_kilobytes * KILOBYTE,
        idle_seconds=env.read_positive_integer_or_collect_problem("HARNESS_IDLE_SECONDS", default.idle_seconds),
        write_seconds=env.read_positive_integer_or_collect_problem("HARNESS_WRITE_SECONDS", default.write_seconds),
        minimum_rate=env.read_positive_integer_or_collect_problem("HARNESS_MINIMUM_RATE", default.minimum_rate),
        grace_seconds=env.read_non_negative_integer_or_collect_problem("HARNESS_GRACE_SECONDS", default.grace_seconds),
        connections=env.read_positive_integer_or_collect_problem("HARNESS_CONNECTIONS", default.connections),
    )
