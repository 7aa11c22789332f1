from harness_site.sessions import message_role_labels


def test_unknown_role_is_named_but_not_used_as_a_css_class() -> None:
    assert message_role_labels.format_role_name('"><script>') == '"><script>'
    assert message_role_labels.get_role_css_kind('"><script>') == "other"
    assert (message_role_labels.format_role_name("Assistant"), message_role_labels.get_role_css_kind("Assistant")) == (
        "Agent",
        "agent",
    )
