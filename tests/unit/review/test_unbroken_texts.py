import pytest

from harness_site.review.templatetags.harness_review import keep_bank_account_or_day_on_one_line


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("at 2026-12-01 09:00, again", 'at <span class="unbroken">2026-12-01 09:00</span>, again'),
        ("on 2026-12-01.", 'on <span class="unbroken">2026-12-01</span>.'),
        (
            "to DE89 3704 0044 0532 0130 00 <b>",
            'to <span class="unbroken">DE89 3704 0044 0532 0130 00</span> &lt;b&gt;',
        ),
        ("order 4034-12-1", "order 4034-12-1"),
    ],
)
def test_line_does_not_break_inside_of_a_bank_account_or_a_day(text: str, html: str) -> None:
    assert keep_bank_account_or_day_on_one_line(text) == html
