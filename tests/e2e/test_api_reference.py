"""Page of the HTTP API in a real browser."""

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.support.exhaustive_mode import only_exhaustive


def _open_reference(open_page: OpenPage, width: int) -> Page:
    page = open_page(viewport={"width": width, "height": 844})
    page.goto("/api/v1/")
    return page


def test_search_shows_the_operations_that_have_the_words(open_page: OpenPage) -> None:
    page = _open_reference(open_page, 1440)
    field = page.get_by_role("searchbox", name="Search this page")
    field.fill("lease renew")
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page.get_by_role("article", name="Renew the lease of a run")).to_be_visible()
    expect(page.locator(".contents li a:visible .method")).to_have_count(1)
    expect(page.get_by_role("status")).to_have_text("1 operation found")
    field.fill("zebra")
    expect(page.get_by_role("status")).to_have_text("No operation has these words.")
    field.press("Escape")
    expect(page.get_by_role("heading", name="Authentication")).to_be_visible()
    assert page.get_by_role("article").count() > 40


@only_exhaustive
def test_one_choice_changes_the_language_of_all_examples(open_page: OpenPage) -> None:
    page = _open_reference(open_page, 1440)
    request = page.get_by_role("article", name="Decide about a call").locator("figure:visible").first
    expect(request).to_contain_text("curl http")
    page.get_by_role("radio", name="Python").check()
    expect(request).to_contain_text("requests.post(")
    expect(page.locator("figure.curl:visible")).to_have_count(0)


@only_exhaustive
def test_contents_of_a_phone_close_after_a_choice(open_page: OpenPage) -> None:
    page = _open_reference(open_page, 390)
    contents = page.get_by_role("navigation", name="Contents")
    link = contents.get_by_role("link", name="Decide about a call")
    expect(link).to_be_hidden()
    contents.get_by_text("Contents", exact=True).click()
    link.click()
    expect(link).to_be_hidden()
    title = page.get_by_role("heading", name="Decide about a call")
    expect(title).to_be_in_viewport()
    bar = contents.bounding_box()
    top = title.bounding_box()
    assert bar is not None
    assert top is not None
    assert top["y"] >= bar["y"] + bar["height"]
