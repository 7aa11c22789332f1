import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.http import QueryDict
from django.test import Client

from checkpoints.enums import Role
from harness_site.saved_views import saved_view_storage
from harness_site.saved_views.list_filter_normalization import normalize_filter_query
from harness_site.saved_views.models import SavedView
from tests.support.factories import make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


def signed_in(name: str, role: Role = Role.AUDITOR) -> Client:
    client = Client()
    client.force_login(make_user(name=name, role=role))
    return client


@pytest.fixture
def alice() -> Client:
    make_session()
    return signed_in("alice")


def keep(client: Client, name: str = "Failed refunds", query: str = "status=failed&agent=desk") -> str:
    """Save a view; return the text of the list afterwards."""
    return visible_text(client.post("/saved/sessions/", {"name": name, "query": query}, follow=True))


def views(client: Client, address: str = "/sessions/") -> list[tuple[str, str]]:
    page = client.get(address).content.decode()
    return [
        (name, href.replace("&amp;", "&"))
        for href, name in re.findall(r'class="view" href="([^"]*)"[^>]*>([^<]*)<', page)
    ]


@pytest.mark.parametrize("rows", [1, 3])
def test_query_count_is_independent_of_the_views(alice: Client, rows: int, django_assert_num_queries: Queries) -> None:
    for number in range(rows):
        keep(alice, f"View {number}")
    with django_assert_num_queries(15):
        assert len(views(alice)) == rows


def test_saved_view_is_shown_to_the_workspace(alice: Client) -> None:
    assert "The view “Failed refunds” was saved." in keep(alice)
    assert views(signed_in("bob")) == [("Failed refunds", "/sessions/?status=failed&agent=desk")]


def test_saved_view_is_not_shown_to_another_workspace(alice: Client) -> None:
    keep(alice)
    other = make_workspace(slug="other")
    make_session(workspace=other)
    stranger = Client()
    stranger.force_login(make_user(name="mallory", workspace=other))
    assert views(stranger) == []


def test_current_view_is_marked_for_any_filter_order(alice: Client) -> None:
    keep(alice)
    page = alice.get("/sessions/?after=&agent=desk&status=failed").content.decode()
    assert 'href="/sessions/?status=failed&amp;agent=desk" aria-current="page"' in page
    assert "Save this view for the team" not in page


def test_only_filters_of_the_list_are_saved() -> None:
    asked = QueryDict("after=2026-01-01~1&rows=1,2&agent=%20desk%20&status=&q=a%00b&evil=1")
    assert normalize_filter_query("sessions", asked) == "q=ab&agent=desk"


def test_duplicate_name_is_an_error_at_the_field_of_the_list(alice: Client) -> None:
    keep(alice)
    response = alice.post("/saved/sessions/", {"name": "Failed refunds", "query": "q=lamp"}, follow=True)
    assert response.redirect_chain[0][0].startswith("/sessions/?q=lamp&refused=")
    page, text = response.content.decode(), visible_text(response)
    assert "A view named “Failed refunds” already exists. Choose another name, or update that view." in text
    assert 'value="Failed refunds" maxlength="60" required autocomplete="off" aria-invalid="true"' in page
    assert SavedView.objects.get().query == "status=failed&agent=desk"
    for elsewhere in ("/sessions/?q=lamp", response.redirect_chain[0][0].replace("lamp", "chair")):
        assert "already exists" not in visible_text(alice.get(elsewhere))

    assert "Update “Failed refunds”" in text
    text = keep(signed_in("bob"), query="q=lamp")  # it is not bob's
    assert "A view named “Failed refunds” already exists. Choose another name." in text
    assert "pdate “Failed refunds”" not in text
    assert "or update that view" not in text


@pytest.mark.parametrize("other", ["FAILED REFUNDS ÜBER 40", "failed refunds über 40"])
def test_names_that_differ_in_case_only_are_the_same(alice: Client, other: str) -> None:
    keep(alice, "Failed refunds Über 40")
    text = keep(alice, other, "q=lamp")
    assert "A view named “Failed refunds Über 40” already exists." in text
    assert "Update “Failed refunds Über 40”" in text
    view = SavedView.objects.get()
    alice.post(f"/saved/views/{view.pk}/rename/", {"name": other})
    assert SavedView.objects.get().name == other


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "a\0b"])
def test_invalid_name_is_refused(alice: Client, name: str) -> None:
    page = alice.post("/saved/sessions/", {"name": name, "query": "q=lamp"}, follow=True).content.decode()
    assert 'id="view-name-error"' in page
    assert not SavedView.objects.exists()


def test_number_of_views_is_limited(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_view_storage, "MAX_VIEWS_PER_LIST", 1)
    keep(alice)
    assert "This list already has 1 view. Remove it first." in keep(alice, "Another", "q=lamp")
    assert SavedView.objects.count() == 1


def test_author_updates_a_view(alice: Client) -> None:
    keep(alice)
    keep(alice, "Cheap", "most=1")
    view = SavedView.objects.get(name="Cheap")
    page = visible_text(alice.get("/sessions/?most=2"))
    assert "Or replace the filters of a view" in page
    sent = {"view": view.pk, "query": "most=2&evil=1"}
    page = visible_text(alice.post("/saved/sessions/update/", sent, follow=True))
    assert "The view “Cheap” was updated." in page
    assert views(alice) == [
        ("Cheap", "/sessions/?most=2"),
        ("Failed refunds", "/sessions/?status=failed&agent=desk"),
    ]
    assert "replace the filters" not in visible_text(signed_in("bob").get("/sessions/?most=3"))
    assert signed_in("carol", Role.APPROVER).post("/saved/sessions/update/", sent).status_code == 403
    assert alice.post("/saved/review/update/", sent).status_code == 404
    assert alice.post("/saved/sessions/update/", {"view": "x", "query": ""}).status_code == 404


def test_author_renames_a_view(alice: Client) -> None:
    keep(alice)
    keep(alice, "Cheap", "most=1")
    view = SavedView.objects.get(name="Cheap")
    address = f"/saved/views/{view.pk}/rename/"
    taken = alice.post(address, {"name": "Failed refunds"}, follow=True)
    assert "A view named “Failed refunds” already exists." in visible_text(taken)
    assert 'id="new-view-name-error"' in taken.content.decode()
    assert taken.redirect_chain[0][0].startswith("/sessions/?most=1&refused=")
    assert "Update “Failed refunds” and delete “Cheap”" in visible_text(taken)
    assert "The view is now named “Up to $1”." in visible_text(alice.post(address, {"name": "Up to $1"}, follow=True))
    assert views(alice)[1] == ("Up to $1", "/sessions/?most=1")
    bob = signed_in("bob", Role.APPROVER)
    assert "Rename view" not in visible_text(bob.get("/sessions/?most=1"))
    assert bob.post(address, {"name": "Mine"}).status_code == 403


def test_view_takes_the_filters_of_another_which_is_deleted(alice: Client) -> None:
    keep(alice)
    keep(alice, "Cheap", "most=1")
    keep(signed_in("bob"), "Slow", "least=2")
    kept, replacement, of_bob = SavedView.objects.order_by("pk")
    sent = {"view": kept.pk, "replacement": replacement.pk}
    for refused in ({**sent, "replacement": kept.pk}, {**sent, "replacement": of_bob.pk}, {**sent, "view": of_bob.pk}):
        assert alice.post("/saved/sessions/update/", refused).status_code in {403, 404}
    assert alice.post("/saved/review/update/", sent).status_code == 404
    text = visible_text(alice.post("/saved/sessions/update/", sent, follow=True))
    assert "The view “Failed refunds” has the filters of “Cheap” now, which was deleted." in text
    assert views(alice) == [("Failed refunds", "/sessions/?most=1"), ("Slow", "/sessions/?least=2")]


def test_view_that_replaces_a_deleted_one_stays(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody deletes the one view between the check of the form and the change."""
    keep(alice)
    keep(alice, "Cheap", "most=1")
    kept, replacement = SavedView.objects.order_by("pk")
    overwrite_view_and_delete_replacement = saved_view_storage.overwrite_view_and_delete_replacement

    def replace_deleted_view(*views: SavedView) -> None:
        SavedView.objects.filter(pk=kept.pk).delete()
        overwrite_view_and_delete_replacement(*views)

    monkeypatch.setattr(saved_view_storage, "overwrite_view_and_delete_replacement", replace_deleted_view)
    sent = {"view": kept.pk, "replacement": replacement.pk}
    assert alice.post("/saved/sessions/update/", sent).status_code == 404
    assert views(alice) == [("Cheap", "/sessions/?most=1")]


def test_unknown_page_is_not_found(alice: Client) -> None:
    assert alice.post("/saved/members/", {"name": "x", "query": ""}).status_code == 404


def test_author_removes_a_view(alice: Client) -> None:
    keep(alice)
    page = alice.get("/sessions/?status=failed&agent=desk").content.decode()
    assert page.count("Change this view</span>") == 1
    action = re.search(r'action="(/saved/views/\d+/remove/)"', page)
    assert action is not None
    assert alice.post(action[1]).headers["Location"] == "/sessions/?status=failed&agent=desk"
    assert views(alice) == []


def test_only_author_and_admin_remove_a_view(alice: Client) -> None:
    keep(alice)
    view = SavedView.objects.get()
    bob = signed_in("bob", Role.APPROVER)
    assert "Delete this view" not in visible_text(bob.get(f"/sessions/?{view.query}"))
    assert bob.post(f"/saved/views/{view.pk}/remove/").status_code == 403
    admin = signed_in("carol", Role.ADMIN)
    assert "Delete this view" in visible_text(admin.get(f"/sessions/?{view.query}"))
    assert admin.post(f"/saved/views/{view.pk}/remove/").status_code == 302
    assert not SavedView.objects.exists()


def test_hostile_name_is_escaped(alice: Client) -> None:
    keep(alice, "<script>alert(1)</script>", "q=%22%3E%3Cscript%3E")
    page = alice.get("/sessions/").content.decode()
    assert "<script>alert" not in page
    assert '"><script>' not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
