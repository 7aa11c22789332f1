"""Row of the URL table: expected statuses of one URL."""

from typing import Final, NamedTuple

WHO: Final = ("anonymous", "stranger", "auditor", "approver", "admin", "revoked token")


class Line(NamedTuple):
    """Route, requested path, and the statuses of GET and POST for each of `WHO`."""

    route: str
    path: str
    get: tuple[int, ...]
    post: tuple[int, ...]


def line(route: str, get: str, post: str, path: str = "") -> Line:
    """Build a row; `get` and `post` are in the order of `WHO`, and the path is the route unless it takes values."""
    return Line(route, path or f"/{route}", tuple(map(int, get.split())), tuple(map(int, post.split())))
