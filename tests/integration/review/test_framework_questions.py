"""Cards of questions that a framework's interrupt asks, which are about no tool."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind, SessionStatus
from checkpoints.formats import parse_json
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from tests.integration.review.payment_agents import awaiting, url
from tests.support.factories import THEN, make_decision, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
QUESTION = "Which address is right: Storgata 3 or Storgata 30?"


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def question(value: Any = QUESTION, **fields: Any) -> ToolCall:
    key = f"{INTERRUPT_KEY_PREFIX}q1:0"
    given = {"tool": INTERRUPT_TOOL, "args": {"value": value}, "sentence": QUESTION, "side_effects": "read"}
    return awaiting(call_id="q1", idempotency_key=key, **{**given, **fields})


@pytest.mark.parametrize("value", [QUESTION, {"question": QUESTION}])
def test_card_shows_the_question_once_and_its_answers(alice: Client, value: Any) -> None:
    response = alice.get(url(question(value)))
    assert re.findall(r'name="kind" value="(\w+)"[^>]* checked', response.content.decode()) == ["respond"]
    page = visible_text(response)
    about, _, form = page.partition("Not recorded")
    assert "The agent asks a question Awaiting answer · " in about
    assert about.partition("Technical details")[0].partition(f"{QUESTION} Answer ")[2].count(QUESTION) == 1
    assert "Run 1 asked this question" in about
    assert form.index("AnswerThe agent gets your text.") < form.index("YesThe agent gets yes (the value true).")
    assert "Send another kind of answer The question asks for a text." in form  # which address cannot be answered so
    assert "Change the value" not in form  # there is none beside the question
    assert 'class="text-alone"' in response.content.decode()
    assert "NoThe agent gets no (the value false)." in form
    assert "changed call" not in form
    assert "continues at once. The agent gets your answer." in form
    assert "It runs interrupt" not in page
    assert "Message to the agent" not in page
    assert "tool was not started" not in page


def test_question_that_may_be_answered_yes_offers_it_first(alice: Client) -> None:
    page = alice.get(url(question("Is this right?", sentence="Is this right?")))
    assert not re.search(r'name="kind"[^>]* checked', page.content.decode())
    form = visible_text(page)
    other = form.index("Another answerThe agent gets your text.")
    assert form.index("YesThe agent gets") < form.index("NoThe agent gets") < other
    assert "More answers" not in form


def test_type_of_the_answer_is_no_fact_of_a_question(alice: Client) -> None:
    call = question({"question": "Which address?", "type": "string", "order": 17}, sentence="Which address?")
    about = visible_text(alice.get(url(call))).partition("Technical details")[0]
    row = visible_text(alice.get("/review/"))
    for page in (about, row):
        assert re.search(r"order:? 17", page)
        assert not re.search(r"type:? string", page)


def test_value_beside_a_question_can_be_changed(alice: Client) -> None:
    form = visible_text(
        alice.get(url(question({"question": "Is this right?", "order": 17}, sentence="Is this right?")))
    )
    assert form.index("Another answerThe agent") < form.index("More answers Change the valueCorrect the agent’s data.")
    assert "The changed value needs 1 approval." in form


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ({"type": "string"}, "respond"),
        ({"response_schema": {"type": "string"}}, "respond"),
        ({"type": "boolean"}, "approve"),
        ({"schema": {"type": "Boolean"}}, "approve"),
        ({"schema": {"type": ["string"]}}, "approve"),
        ({"type": "array"}, "approve"),
    ],
)
def test_answer_of_the_type_that_the_question_names_comes_first(
    alice: Client, asked: dict[str, Any], first: str
) -> None:
    text = "Please confirm the address"
    content = alice.get(url(question({"question": text, **asked}, sentence=text))).content.decode()
    kinds = re.findall(r'name="kind" value="(\w+)"', content.partition("more-answers")[0])
    assert kinds[0] == first
    assert ("respond" in kinds) is (first == "respond" or "boolean" not in str(asked).lower())


def test_value_with_more_than_the_question_is_shown(alice: Client) -> None:
    page = visible_text(alice.get(url(question({"question": QUESTION, "customer": "Eve"}))))
    assert "customer Eve Technical details" in page
    assert page.partition("Technical details")[0].partition(f"{QUESTION} Answer ")[2].count(QUESTION) == 1


def test_approval_of_a_changed_value_gives_the_agent_that_value(client: Client) -> None:
    client.force_login(make_user(name="bob"))
    form = visible_text(client.get(url(question(asked_args_digest="0" * 64)))).partition("Not recorded")[2]
    assert "ApproveThe agent gets the changed value." in form
    assert "the value true" not in form


def test_answer_is_recorded(alice: Client) -> None:
    call = question()
    response = alice.post(url(call), {"kind": "respond", "answer": "Storgata 3", "revision": 1}, follow=True)
    assert Decision.objects.get().result_text == "Storgata 3"
    page = visible_text(response)
    assert page.count("Answered") == 3  # heading, chip, and the event
    assert "Answer Answered alice · " in page
    assert page.count("Withdraw the answer") == 2  # what opens the form, and its button
    assert "Withdraw the decision" not in page
    assert "Answer to the agent Storgata 3" in page
    assert "Wrong answer? No agent has used this answer yet." in page


@pytest.mark.parametrize(("kind", "label"), [("approve", "Answered yes"), ("reject", "Answered no")])
def test_yes_and_no_are_called_so_after_the_decision(alice: Client, kind: str, label: str) -> None:
    call = question()
    card = visible_text(alice.post(url(call), {"kind": kind, "revision": 1}, follow=True))  # it needs no reason
    assert card.count(label) == 3
    assert Decision.objects.get().reason == label.split()[1].capitalize()
    value = {"approve": "true", "reject": "false"}[kind]
    assert f"The agent gets the value {value}." in card
    assert f"“{label.split()[1].capitalize()}”" not in card  # nobody has written it as a reason
    assert "Message to the agent" not in card
    decided = alice.get("/review/?tab=decided")
    assert label in visible_text(decided)
    assert 'aria-label="Only questions"><bdi>question</bdi>' in decided.content.decode()
    assert "Approved" not in card
    assert "Rejected" not in card


@pytest.mark.parametrize(("kind", "label"), [("approve", "Answered yes"), ("reject", "Answered no")])
def test_answers_to_questions_are_filtered_by_their_labels(alice: Client, kind: str, label: str) -> None:
    call = question()
    alice.post(url(call), {"kind": kind, "revision": 1})
    found = alice.get(f"/review/?tab=decided&answer=question_{kind}")
    assert [row.call_pk for row in found.context["decisions"]] == [call.pk]
    assert f"Filtered by: {label}" in visible_text(found)
    assert f'<option value="question_{kind}" selected>{label}</option>' in found.content.decode()
    assert not alice.get(f"/review/?tab=decided&answer={kind}").context["decisions"]


@pytest.mark.parametrize("about_question", [True, False])
def test_approved_question_with_a_changed_value_is_filtered_as_an_approved_call(
    alice: Client, about_question: bool
) -> None:
    call = question(asked_args_digest="0" * 64)
    make_decision(call=call, kind=DecisionKind.APPROVE, actor="alice")
    answer = "question_approve" if about_question else "approve"
    decisions = alice.get(f"/review/?tab=decided&answer={answer}").context["decisions"]
    assert [row.call_pk for row in decisions] == ([] if about_question else [call.pk])


def test_missing_answer_names_the_agent(alice: Client) -> None:
    response = alice.post(url(question()), {"kind": "respond", "revision": 1})
    assert "Enter an answer. The agent gets it." in visible_text(response)


def test_question_that_the_program_answered_is_withdrawn(alice: Client) -> None:
    call = question(status=CallStatus.DISCARDED, settled_at=THEN + timedelta(seconds=2))
    page = visible_text(alice.get(url(call)))
    assert "This question was withdrawn Withdrawn " in page
    told = "The question was withdrawn, because the agent’s program continued without an answer of a person."
    assert f"{told} Nobody has to answer it." in page
    told = "10:42:09.118 The question was withdrawn: the agent’s program continued without an answer of a person"
    assert told in page
    for word in ("Discarded", "discarded", "itself"):
        assert word not in page
    assert "Withdrawn" in visible_text(alice.get(f"/sessions/{call.session_id}/calls/"))


def test_tool_that_is_called_interrupt_is_no_question(alice: Client) -> None:
    call = awaiting(tool=INTERRUPT_TOOL, args={"value": QUESTION})
    assert "May this happen?" in visible_text(alice.get(url(call)))


def test_call_lists_name_the_question_as_the_queue_does(alice: Client) -> None:
    call = question()
    for page in ("/calls/", f"/sessions/{call.session_id}/calls/"):
        text = visible_text(alice.get(page, follow=True))
        assert QUESTION in text
        assert "Awaiting answer" in text


def test_sessions_say_that_a_question_awaits_an_answer(alice: Client) -> None:
    call = question()
    for address in ("/sessions/", f"/sessions/{call.session_id}/"):
        text = visible_text(alice.get(address))
        assert "1 question awaits an answer" in text
        assert "approval" not in text


def test_queue_shows_the_question(alice: Client) -> None:
    question()
    waiting = alice.get("/review/?tab=awaiting")
    assert 'aria-label="Only questions"><bdi>question</bdi>' in waiting.content.decode()
    page = visible_text(waiting)
    assert QUESTION in page
    assert "Awaiting answer" in page


def test_queue_shows_the_options_of_a_question_and_what_it_says_beside_its_text(alice: Client) -> None:
    question({**CHOICES, "order": 17})
    assert f"{QUESTION} Storgata 3 · Number 30 · order: 17 question" in visible_text(alice.get("/review/"))


def test_values_without_a_question_are_called_so(alice: Client) -> None:
    call = question({"draft": "Dear Eve", "urgent": True}, sentence="")
    assert "The agent sent these values without a question. agent accounts draft Dear Eve urgent" in visible_text(
        alice.get(url(call))
    )
    assert "Question: draft Dear Eve, urgent yes question" in visible_text(alice.get("/review/"))


CHOICES = {"question": QUESTION, "options": ["Storgata 3", {"label": "Number 30", "value": "Storgata 30"}]}


def test_options_of_a_question_are_its_answers(alice: Client) -> None:
    page = alice.get(url(question(CHOICES)))
    form = visible_text(page).partition("Not recorded")[2]
    assert "Storgata 3The agent gets this text." in form
    assert "Number 30The agent gets “Storgata 30”." in form
    assert form.index("Number 30") < form.index("Another answer")
    assert "More answers" not in form  # there is no value beside the question and its options
    assert "the value true" not in form
    assert "the value false" not in form


def test_agent_gets_the_value_of_the_chosen_option(alice: Client) -> None:
    call = question(CHOICES)
    card = visible_text(alice.post(url(call), {"kind": "option-2", "revision": 1}, follow=True))
    assert (Decision.objects.get().kind, Decision.objects.get().result_text) == ("respond", "Storgata 30")
    assert "Answered: Number 30 " in card
    assert "Number 30 · The agent gets “Storgata 30”." in card
    assert "alice: Answered — “Number 30”" in card
    assert re.search(r"options\s*1\s*Storgata 3\s*2\s*Number 30 — chosen", card.partition("Technical details")[0])
    assert "alice: “Number 30”" in visible_text(alice.get("/review/?tab=decided"))


def test_reason_beside_a_chosen_option_leaves_the_option_named(alice: Client) -> None:
    form = {"kind": "option-2", "reason": "As on the map.", "revision": 1}
    card = visible_text(alice.post(url(question(CHOICES)), form, follow=True))
    assert "Answered: Number 30 " in card
    assert "alice: Answered — “Number 30” — “As on the map.”" in card


def test_masked_option_reaches_the_agent_as_it_is_stored(alice: Client) -> None:
    keys = [f"sk-ant-api03-{letter * 40}" for letter in "AB"]
    call = question({"question": QUESTION, "choices": keys})
    page = visible_text(alice.get(url(call)))
    assert not any(key in page for key in keys)
    assert "Option 1" in page
    assert "Option 2" in page
    alice.post(url(call), {"kind": "option-2", "revision": 1})
    assert Decision.objects.get().result_text == keys[1]


def test_each_option_is_offered_once(alice: Client) -> None:
    page = alice.get(url(question({"question": QUESTION, "options": ["Home", "Home", "Office"]}))).content.decode()
    assert 'value="option-1"' in page
    assert 'value="option-2"' not in page
    assert 'value="option-3"' in page


@pytest.mark.parametrize(
    "options",
    [[], [1, 2], ["Home", None], [""], ["x" * 501], ["Home"] * 101, [{"value": 3, "label": "Three"}], [{}], "Home"],
)
def test_list_that_is_not_of_short_texts_is_shown_as_an_argument_only(alice: Client, options: Any) -> None:
    page = alice.get(url(question({"question": QUESTION, "options": options})))
    assert b"option-1" not in page.content
    assert "YesThe agent gets yes (the value true)." in visible_text(page)


def test_option_of_a_question_that_has_lost_its_options_is_refused(alice: Client) -> None:
    page = alice.post(url(question()), {"kind": "option-1", "revision": 1})
    assert "This option is not offered any more." in visible_text(page)
    assert not Decision.objects.exists()


def test_second_choice_names_the_first_decision(alice: Client, client: Client) -> None:
    call = question(CHOICES)
    alice.post(url(call), {"kind": "option-2", "revision": 1})
    client.force_login(make_user(name="bob"))
    response = client.post(url(call), {"kind": "option-1", "revision": 1})
    assert response.status_code == 409
    assert "alice" in visible_text(response)


def test_question_of_an_ended_session_can_be_closed(alice: Client) -> None:
    call = question(CHOICES)
    Session.objects.filter(pk=call.session_id).update(status=SessionStatus.CANCELLED)
    form = visible_text(alice.get(url(call))).partition("Not recorded")[2]
    assert "No answer" in form
    assert "Number 30" not in form


def test_options_beyond_the_twelfth_are_under_more_answers(alice: Client) -> None:
    options = [f"Slot {number}" for number in range(1, 15)]
    form = visible_text(alice.get(url(question({"question": QUESTION, "options": options}))))
    form = form.partition("Not recorded")[2]
    fold = form.index("2 more options, and other answers")
    assert form.index("Slot 12") < fold < form.index("Slot 13") < form.index("Another answer")


def test_parts_of_a_question_have_fields_of_their_own(alice: Client) -> None:
    text = "Shall I close 1,204 tickets?"
    call = question({"question": text, "count": 1204, "oldest": "2019-03-11"}, sentence=text)
    content = alice.get(url(call)).content.decode()
    assert re.findall(r'data-argument="(\w+)"', content) == ["count", "oldest"]
    form = {"kind": "edit", "written_as": "fields", "revision": 1, "argument-0": "1200", "argument-1": "2019-03-11"}
    seen = re.search(r'name="shown" value="(\w+)"', alice.post(url(call), form).content.decode())
    assert seen is not None
    assert alice.post(url(call), {**form, "shown": seen[1], "reason": "Four are open."}).status_code == 302
    call.refresh_from_db()
    assert parse_json(call.args) == {"value": {"question": text, "count": 1200, "oldest": "2019-03-11"}}


@pytest.mark.parametrize("parts", [{}, {"order": 17}])
def test_value_of_options_alone_is_not_changed(alice: Client, parts: dict[str, Any]) -> None:
    value = {"question": QUESTION, "options": ["Storgata 3", "Kirkegata 1"], **parts}
    assert ('value="edit"' in alice.get(url(question(value))).content.decode()) is bool(parts)
