from harness_site.sessions.templatetags import harness_tools


def test_only_a_whole_share_is_100_percent() -> None:
    shares = (None, 0, 0.001, 0.5, 0.994, 0.9968, 1)
    shown = ["–", "0 %", "< 1 %", "50 %", "99 %", "> 99 %", "100 %"]
    assert [harness_tools.format_share_or_dash(share) for share in shares] == shown
