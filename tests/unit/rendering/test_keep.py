"""`{% keep %}`: HTML that is made once for what it shows."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template, TemplateSyntaxError

from checkpoints import clock
from checkpoints.models import Workspace
from harness_site.rendering import masking

pytestmark = pytest.mark.usefixtures("nothing_kept")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    name: object
    at: datetime = NOON


@dataclass
class Counting:
    """Says how often it was asked."""

    times: int = 0

    def __call__(self) -> str:
        self.times += 1
        return ""


@pytest.fixture
def made() -> Counting:
    return Counting()


ROW = Template("{% keep row here %}{{ made }}<b>{{ row.name|visible }}</b> {{ here }} {% ago row.at %}{% endkeep %}")


def shown(made: Counting, row: object, here: str = "/") -> str:
    return ROW.render(Context({"row": row, "here": here, "made": made}))


def test_it_is_made_once_for_the_same_values(made: Counting) -> None:
    assert shown(made, Row("<i>")) == shown(made, Row("<i>"))
    assert made.times == 1
    assert "<b>&lt;i&gt;</b> /" in shown(made, Row("<i>"))


@pytest.mark.parametrize(
    ("row", "here"), [(Row("b"), "/"), (Row("a"), "/other"), (Row("a", NOON.replace(hour=1)), "/")]
)
def test_another_value_makes_it_anew(made: Counting, row: Row, here: str) -> None:
    shown(made, Row("a"))
    assert f"<b>{row.name}</b> {here}" in shown(made, row, here)
    assert made.times == 2


def test_two_places_with_the_same_values_are_two() -> None:
    context = Context({"row": Row("a")})
    assert Template("{% keep row %}one{% endkeep %}\n{% keep row %}two{% endkeep %}").render(context) == "one\ntwo"


def test_how_long_ago_something_was_is_said_anew(made: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    for minutes in (3, 4):
        monkeypatch.setattr(clock, "now", lambda minutes=minutes: NOON + timedelta(minutes=minutes))
        assert f">{minutes} min ago</time>" in shown(made, Row("a"))
    assert made.times == 1


def test_when_something_is_due_is_said_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    template, context = Template("{% keep row %}{% due row.at %}{% endkeep %}"), Context({"row": Row("a")})
    monkeypatch.setattr(clock, "now", lambda: NOON - timedelta(minutes=2))
    assert ">due in 2 min</time>" in template.render(context)
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(minutes=2))
    assert ">overdue for 2 min</time>" in template.render(context)


def test_an_agent_cannot_write_a_time(made: Counting) -> None:
    assert "␂ago 2026-03-01␂" in shown(made, Row("\x02ago 2026-03-01\x02"))


def test_who_may_see_secrets_and_who_may_not_see_different_things(made: Counting) -> None:
    secret = Row("password=hunter22")
    with masking.reading(None):
        assert "hunter22" in shown(made, secret)
    assert "hunter22" not in shown(made, secret)


def test_one_word_more_that_is_masked_is_masked_in_what_was_shown_before(made: Counting) -> None:
    many = tuple(f"project-{number}" for number in range(40))
    for words, is_shown in ((many, True), ((*many, "zebra*"), False)):
        with masking.reading(masking.rules((), words)):
            assert ("zebra-17" in shown(made, Row("zebra-17"))) is is_shown


@pytest.mark.parametrize(
    "row",
    [
        re.compile("a" * 300),
        Workspace(slug="a"),
        Row(Workspace(slug="a")),
        [{"a": (Row("a"), object())}],
        Workspace.objects,
    ],
)
def test_what_does_not_tell_what_is_in_it_is_refused(made: Counting, row: object) -> None:
    with pytest.raises(TypeError, match="does not tell what is in it"):
        shown(made, row)
    assert made.times == 0


def test_values_have_to_be_named() -> None:
    with pytest.raises(TemplateSyntaxError, match="needs the values"):
        Template("{% keep %}{% endkeep %}")
