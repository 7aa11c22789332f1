"""What everybody gets who asks for an address."""

from typing import Final, NamedTuple

WHO: Final = ("anonymous", "stranger", "auditor", "approver", "admin", "revoked token")


class Line(NamedTuple):
    """Route, how it is asked for, and the statuses of GET and POST for each of `WHO`."""

    route: str
    path: str
    get: tuple[int, ...]
    post: tuple[int, ...]


def line(route: str, get: str, post: str, path: str = "") -> Line:
    """`get` and `post` in the order of `WHO`; the path is the route itself unless it takes values."""
    return Line(route, path or f"/{route}", tuple(map(int, get.split())), tuple(map(int, post.split())))
