from harness_site.sessions.templatetags.harness_session_pages import render_version_options


def test_only_the_selected_version_is_marked() -> None:
    assert render_version_options((2, 1), 1) == ('<option value="2">2</option><option value="1" selected>1</option>')


def test_no_version_is_marked_without_a_selected_one() -> None:
    assert render_version_options((2, 1)) == '<option value="2">2</option><option value="1">1</option>'


def test_selected_version_is_added_if_it_is_not_listed() -> None:
    assert render_version_options((2,), 1) == '<option value="2">2</option><option value="1" selected>1</option>'
