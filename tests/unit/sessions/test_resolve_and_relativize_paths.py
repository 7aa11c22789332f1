"""Paths of files as tool calls name them."""

import pytest

from harness_site.sessions.tool_views.resolve_and_relativize_paths import make_path_relative, resolve_path


@pytest.mark.parametrize(
    ("path", "directory", "resolved"),
    [
        ("a.py", "/srv/app", "/srv/app/a.py"),
        ("./lib/../a.py", "/srv/app", "/srv/app/a.py"),
        ("../a.py", "/srv/app", "/srv/a.py"),
        ("/etc/./hosts", "/srv/app", "/etc/hosts"),
        ("~/a.py", "/srv/app", "~/a.py"),
        ("$HOME/a.py", "/srv/app", "$HOME/a.py"),
        ("s3://bucket//a", "/srv/app", "s3://bucket//a"),
        ("./a.py", "", "a.py"),
        ("a.py", ".", "a.py"),
        ("", "/srv/app", ""),
        ("lib/a.py", r"C:\app", r"C:\app\lib\a.py"),
        ("C:/app/a.py", "/srv", r"C:\app\a.py"),
    ],
)
def test_path_is_resolved_against_the_directory(path: str, directory: str, resolved: str) -> None:
    assert resolve_path(path, directory) == resolved


def test_path_is_relative_to_the_first_directory_that_has_it() -> None:
    directories = ("/srv/app/", r"C:\app")
    assert [
        make_path_relative(path, directories) for path in ("/srv/app/a.py", r"C:\app\a.py", "/srv/apples", "/srv/app/")
    ] == ["a.py", "a.py", "/srv/apples", "/srv/app/"]
