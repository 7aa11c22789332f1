"""Records of programs between messages, as chips."""

from harness_site.sessions.tool_views.claude_code_notices_between_messages import parse_claude_code_record_or_none


def test_title_that_is_too_long_is_a_field_which_is_masked_as_a_whole() -> None:
    command = "x" * 195 + " ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    record = parse_claude_code_record_or_none(
        {"type": "attachment", "attachment": {"type": "hook_success", "command": command}}
    )
    assert record is not None
    assert (record.title, record.fields) == ("hook success", {"command": command})
