"""A long transcript: keyboard, scrolling, Back and reload, accessibility, and no JavaScript."""

import re
import time
from collections.abc import Sequence

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e import page_actions
from tests.e2e.conftest import OpenPage, StartAgent
from tests.support import saved_transcripts
from tests.support.axe import Theme, choose_themes, list_accessibility_violations
from tests.support.browser import PageMonitor
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.long_session import make_long_session_in_child
from tests.support.page_overflow import overflowing_elements
from tests.support.site_process import Site

#: Waits for thirty frames in which the page keeps its height: messages that have come into view have got theirs.
AFTER_LAST_CHANGE_OF_HEIGHT = """() => new Promise(done => {
  let [frames, height] = [0, 0];
  const look = () => {
    frames = document.documentElement.scrollHeight === height ? frames + 1 : 0;
    height = document.documentElement.scrollHeight;
    if (frames < 30) requestAnimationFrame(look); else done();
  };
  look();
})"""


@pytest.fixture(scope="session")
def long_session(site: Site) -> str:
    """Path of a session with 1,200 messages and twelve versions."""
    return f"/sessions/{site.run(make_long_session_in_child, count=1200, session_id='long')}/"


def save_transcript(site: Site, *texts: str) -> None:
    site.run(saved_transcripts.save_transcript, texts=texts)


def save_tall_transcript(
    site: Site, title: str, *, prompt_every: int = 60, count: int = 60, last_lines: int = 30, is_running: bool = False
) -> None:
    options = {"prompt_every": prompt_every, "count": count, "last_lines": last_lines, "is_running": is_running}
    run = site.start_until_saved if is_running else site.run
    run(saved_transcripts.save_tall_transcript, title=title, **options)


def message_positions(page: Page) -> list[int]:
    ids = page.evaluate("[...document.querySelectorAll('.transcript .msg[id]')].map(each => Number(each.id.slice(2)))")
    return [int(position) for position in ids]


def expect_loaded_url(page: Page, pattern: str) -> None:
    """Wait until the URL matches the pattern and the page has loaded, because keys work only then."""
    expect(page).to_have_url(re.compile(pattern))
    page.wait_for_load_state()


def test_keyboard_navigates_to_search_results_errors_and_messages(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(long_session)
    page.keyboard.press("/")
    page.keyboard.type("order-")
    page.keyboard.press("Enter")
    expect_loaded_url(page, r"at=16#m-16$")
    expect(page.locator(".search-status")).to_contain_text("message 17")
    page.keyboard.press("n")
    expect_loaded_url(page, r"at=24#m-24$")
    expect(page.locator("#m-24 mark").first).to_have_text("order-")
    page.keyboard.press("N")
    expect_loaded_url(page, r"at=16#m-16$")
    page.keyboard.press("e")
    expect_loaded_url(page, r"at=498#m-498$")
    page.keyboard.press("g")
    page.keyboard.type("778")
    page.keyboard.press("Enter")
    expect_loaded_url(page, r"at=777#m-777$")
    expect(page.locator("#m-777")).to_be_in_viewport()
    page.keyboard.press("j")
    expect(page.locator("#m-778")).to_be_focused()
    expect(page.locator("#m-778")).to_be_in_viewport()
    page.keyboard.press("k")
    expect(page.locator("#m-777")).to_be_focused()
    page.get_by_role("button", name="Tools").click()
    expect(page.locator(".transcript .call:visible")).to_have_count(0)
    page.go_back()
    expect_loaded_url(page, r"#m-498$")
    expect(page.locator("#m-498")).to_be_in_viewport()
    page.reload()
    expect(page.get_by_role("button", name="Tools")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="Tools").click()
    expect(page.locator(".transcript .call").first).to_be_visible()


def test_keyboard_stops_at_folded_messages_and_opens_them(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(long_session)
    page.keyboard.press("j")
    expect(page.locator("#m-2")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Show the next 24")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#m-2")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#m-3")).to_be_focused()
    page.keyboard.press("n")
    expect(page.get_by_text("Nothing is searched for. Press / to search this transcript.")).to_be_in_viewport()
    page.goto(f"{long_session}?v=12&at=600#m-600")
    page.keyboard.press("G")
    expect_loaded_url(page, r"/#end$")
    page_actions.wait_until(page, "window.scrollY + window.innerHeight >= document.documentElement.scrollHeight - 1")
    expect(page.locator("#m-1199")).to_be_in_viewport()


def test_key_of_the_find_field_in_sight_does_not_scroll(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(f"{long_session}?at=600#m-600")
    expect(page.locator("#m-600")).to_be_in_viewport()
    page.wait_for_load_state()
    page_actions.wait_until(page, "window.scrollY > 0")
    place = page.evaluate("window.scrollY")
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    assert page.evaluate("window.scrollY") == place


def test_enter_goes_on_from_match_to_match(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(long_session)
    page.keyboard.press("/")
    page.keyboard.type("order-")
    page.keyboard.press("Enter")
    expect_loaded_url(page, r"at=16#m-16$")
    expect(page.locator(".search-status").get_by_role("link", name="Next")).to_be_focused()
    page.keyboard.press("Enter")
    expect_loaded_url(page, r"at=24#m-24$")
    expect(page.locator(".search-status").get_by_role("link", name="Next")).to_be_focused()
    page.keyboard.press("Shift+Enter")
    expect_loaded_url(page, r"at=16#m-16$")
    expect(page.locator(".search-status")).to_be_focused()  # there is no match before
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    expect_loaded_url(page, r"at=24#m-24$")


def test_scrolling_loads_messages_and_reload_keeps_the_position(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(f"{long_session}?v=12&after=300")
    page.mouse.move(600, 400)
    deadline = time.monotonic() + 120
    while message_positions(page)[-1] < 590 and time.monotonic() < deadline:
        page.mouse.wheel(0, 3000)
        page.wait_for_timeout(20)
    loaded_positions = message_positions(page)
    assert loaded_positions == sorted(set(loaded_positions))
    assert loaded_positions[-1] >= 590
    expect(page).to_have_url(re.compile(r"#m-\d+$"))
    expect(page.locator("#outline [aria-current]")).to_be_in_viewport()  # the outline follows
    page.mouse.wheel(0, 1)
    expect(page).to_have_url(re.compile(r"#m-[4-9]\d\d$"))
    page.reload()
    expect(page).to_have_url(re.compile(r"#m-[4-9]\d\d$"))
    message_anchor = page.url.partition("#")[2]
    expect(page.locator(f"#{message_anchor}")).to_be_in_viewport()


def test_end_key_reaches_the_end_of_a_transcript_with_tall_messages(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Tall messages")
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Tall messages").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.keyboard.press("Home")
    page_actions.wait_until(page, "window.scrollY == 0")
    page.keyboard.press("End")
    expect(page.locator("#m-59")).to_be_in_viewport()
    page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
    expect(page.locator("#m-59")).to_be_in_viewport()
    page_actions.wait_until(page, "document.documentElement.scrollHeight - window.innerHeight - window.scrollY <= 2")


def test_outline_marks_the_prompt_in_view_while_the_wheel_turns(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Tall prompts", prompt_every=6)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Tall prompts").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.mouse.move(600, 400)
    marked_places = set()
    for _ in range(200):  # a busy browser draws fewer frames than the wheel turns
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(60)
        marked_places.add(page.evaluate("document.querySelector('#outline [aria-current]')?.dataset.place"))
        if len(marked_places - {None}) > 2:  # none is marked for a moment while new messages replace the outline
            return
    raise AssertionError(f"Only these were marked: {marked_places}")


@only_exhaustive
def test_outline_marks_the_prompt_in_view_after_the_browser_scrolled(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Restored prompts", prompt_every=6)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Restored prompts").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.evaluate("document.querySelector('#m-54').scrollIntoView({ behavior: 'instant' })")
    expect(page.locator("#outline [aria-current]")).to_have_attribute("data-place", "54")


def test_wheel_over_a_long_output_scrolls_the_page(open_page: OpenPage, site: Site) -> None:
    site.run(saved_transcripts.save_long_output)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="A long output").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    terminal = page.locator(".transcript .terminal")
    expect(terminal).to_contain_text("Line 23")
    terminal.hover()
    start = page.evaluate("window.scrollY")
    page.mouse.wheel(0, 200)
    page_actions.wait_until(page, f"window.scrollY > {start}")
    assert terminal.evaluate("each => each.scrollHeight == each.clientHeight")


@only_exhaustive
def test_number_of_a_message_without_its_role_does_not_cover_the_time(open_page: OpenPage, site: Site) -> None:
    site.run(saved_transcripts.save_long_output)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="A long output").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    message = page.locator("#m-2")
    message.hover()
    expect(message.locator("aside b")).to_be_hidden()
    time, number, copy = (message.locator(f"aside {name}").bounding_box() for name in ("time", ".permalink", ".copy"))
    assert time
    assert number
    assert copy
    assert number["y"] >= time["y"] + time["height"]
    assert copy["y"] + copy["height"] / 2 >= time["y"] + time["height"]


def test_expanded_message_stays_expanded_when_a_version_is_saved(open_page: OpenPage, site: Site) -> None:
    long_text = "many words " * 1600 + "and the very end"
    save_transcript(site, long_text)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Tell me more").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.get_by_role("link", name="Show all").click()
    end_of_text = page.locator("#m-0").get_by_text("and the very end")
    expect(end_of_text).to_be_visible()
    expect(page.locator(".tabs [aria-current]")).to_have_text("Transcript 1")
    expect(page.locator(".more-tabs > summary")).to_be_hidden()  # it is for phones
    save_transcript(site, long_text, "And one thing more.")
    expect(page.locator("#m-1")).to_contain_text("And one thing more.")
    expect(page.locator("#as-of summary")).to_contain_text("v2")
    expect(end_of_text).to_be_visible()
    page.get_by_role("link", name="1 new message").click()
    expect(page.locator("#m-1")).to_be_in_viewport()
    expect(page.get_by_role("link", name="1 new message")).to_be_hidden()

    page.get_by_role("link", name="Versions").click()
    page.get_by_role("radio", name="Compare to version 1").check()
    save_transcript(site, long_text, "And one thing more.", "The last one.")
    expect(page.get_by_role("link", name="v3", exact=True)).to_be_visible()
    expect(page.get_by_role("radio", name="Compare to version 1")).to_be_checked()


def test_message_that_is_expanded_while_an_update_is_fetched_leaves_the_reader_at_its_beginning(
    open_page: OpenPage, private_site: Site
) -> None:
    save_transcript(private_site, "many words " * 1600 + "and the very end")
    page = open_page("carol", private_site)
    page.add_init_script("const draw = requestAnimationFrame; requestAnimationFrame = (f) => setTimeout(draw, 100, f)")
    page.goto("/sessions/")
    page.get_by_role("link", name="Tell me more").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.wait_for_load_state("networkidle")  # the first update has come
    held: list[Route] = []
    page.route(lambda url: "since=" in url or "/messages/" in url, lambda route: held.append(route))
    with page.expect_request(lambda request: "since=" in request.url):
        page.evaluate(
            "htmx.trigger('body', document.getElementById('newest').getAttribute('hx-trigger').split(' ')[0])"
        )
    with page.expect_request("**/messages/**"):
        page.get_by_role("link", name="Show all").click()  # at the end of the page
    update, message = held
    responses = [update.fetch(), message.fetch()]
    settled = page.evaluate_handle("[new Promise(resolve => document.addEventListener('htmx:afterSettle', resolve))]")
    update.fulfill(response=responses[0])
    settled.evaluate("([promise]) => promise.then(() => {})")  # from now on, the page may scroll in each frame
    message.fulfill(response=responses[1])
    expect(page.locator("#m-0").get_by_text("and the very end")).to_be_visible()
    page.wait_for_timeout(1500)
    assert page.evaluate("scrollY") == 0


def test_new_messages_are_followed_at_the_end_and_counted_elsewhere(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Followed messages", count=3)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Followed messages").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.keyboard.press("End")
    page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
    save_tall_transcript(site, "Followed messages", count=4)
    page_actions.wait_until(page, "document.querySelector('#m-3')?.getBoundingClientRect().top < innerHeight / 4")
    new_messages = page.locator(".new-messages")
    expect(new_messages).to_be_hidden()
    page.evaluate("window.scrollTo({ top: 300, behavior: 'instant' })")
    page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
    place = page.evaluate("document.querySelector('#m-1').getBoundingClientRect().top")
    save_tall_transcript(site, "Followed messages", count=6)
    expect(new_messages).to_have_text("2 new messages")
    assert abs(page.evaluate("document.querySelector('#m-1').getBoundingClientRect().top") - place) < 1


def test_link_to_the_newest_message_leads_to_the_end_which_is_followed(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Jump to the end", count=10, prompt_every=5, last_lines=2)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Jump to the end").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    at_end = "window.scrollY + window.innerHeight >= document.documentElement.scrollHeight - 1"
    link = page.get_by_role("link", name="Go to the newest message")
    for _ in range(2):  # also if the address names the end already
        link.evaluate("link => link.click()")
        page_actions.wait_until(page, at_end)
        page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
        assert page.evaluate(at_end)
        page.evaluate("window.scrollTo({ top: 0, behavior: 'instant' })")
    page.keyboard.press("G")
    page_actions.wait_until(page, at_end)
    page.goto(f"{page.url.partition('#')[0]}?#end")
    page_actions.wait_until(page, at_end)
    page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
    assert page.evaluate(at_end)
    # as a call that gets its result
    save_tall_transcript(site, "Jump to the end", count=10, prompt_every=5, last_lines=9)
    expect(page.locator("#m-9")).to_contain_text("Line 8")
    page_actions.wait_until(page, at_end)


#: The key that scrolls to the end, and at once a press and a scroll of the reader; resolved some frames later.
LEAVE_THE_END_AT_ONCE = """new Promise(resolve => {
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true}));
    document.body.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}));
    scrollTo(0, 0);
    let frames = 6;
    const goOn = () => (--frames ? requestAnimationFrame(goOn) : resolve());
    goOn();
})"""


#: Begins an update of the newest messages, does something meanwhile, and ends the update.
DURING_AN_UPDATE = """
    const detail = {requestConfig: {elt: document.getElementById("newest")}, xhr: {status: 200}};
    const tell = name => document.body.dispatchEvent(new CustomEvent(name, {detail, bubbles: true}));
    tell("htmx:beforeSwap");
    meanwhile();
    tell("htmx:afterSettle");
"""


def test_update_does_not_change_where_the_reader_goes(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Left while it runs", count=10)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Left while it runs").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    page.keyboard.press("End")
    page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
    page.evaluate(f"""() => {{
        const message = document.getElementById("m-9");
        message.style.cssText = "height: 40px; overflow: hidden";  // as before it came into view
        document.body.dispatchEvent(new KeyboardEvent("keydown", {{key: "End", bubbles: true}}));
        const meanwhile = () => (message.style.cssText = "");
        {DURING_AN_UPDATE}
    }}""")
    page_actions.wait_until(page, "window.scrollY + innerHeight >= document.documentElement.scrollHeight - 1")
    page.evaluate(f"""() => {{
        const link = document.querySelector(".sticky-title > a");
        const meanwhile = () => {{
            link.dispatchEvent(new PointerEvent("pointerdown", {{bubbles: true}}));
            link.dispatchEvent(new PointerEvent("pointerup", {{bubbles: true}}));
            link.click();
        }};
        {DURING_AN_UPDATE}
    }}""")
    page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
    assert page.evaluate("window.scrollY") == 0


def test_session_that_runs_opens_at_its_end_and_elsewhere_with_a_place(open_page: OpenPage, site: Site) -> None:
    save_tall_transcript(site, "Runs now", count=10, is_running=True)
    page = open_page("carol")
    page.goto("/sessions/")
    page.get_by_role("link", name="Runs now").click()
    expect_loaded_url(page, r"/sessions/\d+/$")
    at_end = "window.scrollY > 0 && window.scrollY + window.innerHeight >= document.documentElement.scrollHeight - 1"
    page_actions.wait_until(page, at_end)
    address = page.url
    page.locator(".sticky-title > a").click()
    page_actions.wait_until(page, "window.scrollY === 0")
    page.evaluate(LEAVE_THE_END_AT_ONCE)
    assert page.evaluate("window.scrollY") == 0
    for place in ("#m-2", "?v=1"):
        page.goto("/sessions/")
        page.goto(address + place)
        page.evaluate(AFTER_LAST_CHANGE_OF_HEIGHT)
        assert not page.evaluate(at_end), place


@only_exhaustive
def test_jump_on_a_phone_is_not_covered_by_the_line_of_an_older_version(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{long_session}?v=11&at=500#m-500")
    expect(page.locator("#m-500")).to_be_in_viewport()
    page_actions.wait_until(
        page,
        "document.querySelector('#m-500').getBoundingClientRect().top >= "
        "document.querySelector('.search-status').getBoundingClientRect().bottom",
    )
    measure = "selector => document.querySelector(selector).getBoundingClientRect().toJSON()"
    message, line = page.evaluate(measure, "#m-500"), page.evaluate(measure, ".search-status")
    assert line["height"] > 60  # the line is wrapped
    assert line["bottom"] <= message["top"] < line["bottom"] + 60


def test_transcript_works_without_javascript(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol", java_script_enabled=False)
    page.goto(long_session)
    page.get_by_role("link", name="2 messages before the first prompt").click()
    expect(page.locator("#m-0")).to_have_count(1)
    page.get_by_role("link", name="Later messages").click()
    expect(page.locator("#m-24")).to_be_in_viewport()
    page.get_by_label("Find in the transcript").fill("12 passed")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".search-status")).to_contain_text("12 passed")
    page.get_by_role("link", name="Next error").click()
    expect(page).to_have_url(re.compile(r"at=498#m-498$"))
    page.get_by_text("Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("^Page to read offline")).click()
    assert download.value.suggested_filename == "long-v12.html"
    page.goto(f"{long_session}versions/")
    page.get_by_role("button", name="Compare the selected versions").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("Version 11 → version 12")
    page.get_by_role("link", name="read them", exact=True).click()
    expect(page.locator("#m-0")).to_be_in_viewport()


@pytest.mark.parametrize("javascript", mark_all_but_each(2, [True, False]))
def test_address_with_a_position_alone_leads_to_its_message(
    open_page: OpenPage, long_session: str, javascript: bool
) -> None:
    page = open_page("carol", java_script_enabled=javascript)
    page.goto(f"{long_session}?v=12&at=600")
    expect(page.locator("#m-600")).to_be_in_viewport()
    if javascript:
        expect_loaded_url(page, r"at=600#m-600$")
        expect(page.locator("#m-600:target")).to_have_count(1)


def test_transcript_pages_have_no_accessibility_violations(
    open_page: OpenPage, page_monitors: list[PageMonitor], long_session: str
) -> None:
    page = open_page("carol")
    page_monitors[-1].ignore("status of 403")  # the session file, for who may not see secrets
    addresses = (
        f"{long_session}?v=12&at=500&find=12+passed",
        f"{long_session}export/file/",
        f"{long_session}calls/",
        "/calls/",
    )
    for number, address in enumerate(addresses):
        assert list_violations_with_open_menus(page, address, choose_themes(number)) == [], address


@only_exhaustive
def test_beginning_of_a_transcript_has_no_accessibility_violations(open_page: OpenPage, long_session: str) -> None:
    assert list_violations_with_open_menus(open_page("carol"), f"{long_session}?v=12&at=1&none=decision") == []


def list_violations_with_open_menus(page: Page, address: str, themes: Sequence[Theme] = ("light", "dark")) -> list[str]:
    page.goto(address)
    for menu in page.locator("details.menu").all():  # an open one may lie over the button of the next
        menu.evaluate("menu => { menu.open = true; }")
    return list_accessibility_violations(page, themes)


def test_transcript_pages_do_not_scroll_horizontally(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    for address in (f"{long_session}?v=12&at=500&find=12+passed", f"{long_session}plan/", "/calls/"):
        page.goto(address)
        for menu in page.locator("details.menu").all():  # an open one may lie over the button of the next
            menu.evaluate("menu => { menu.open = true; }")
        assert overflowing_elements(page) == []
    page.set_viewport_size({"width": 1366, "height": 768})
    page.goto(long_session)
    assert page.locator("#lanes").is_visible()
    assert page.locator(".reader").evaluate("reader => reader.getBoundingClientRect().top") < 300
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(long_session)
    head = page.locator("#session-head").bounding_box()
    assert head is not None
    assert head["height"] < page.evaluate("innerHeight / 3")


#: Stores the displayed parts from the top of the view on; returns the kind and the place of the first, and the top.
STORE_PARTS = """() => {
  const top = 8 + parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop || 0);
  const parts = [...document.querySelectorAll(".transcript .msg[id] > .parts > *")];
  window.storedParts = parts.filter(part => part.offsetHeight && part.getBoundingClientRect().bottom > top);
  const first = window.storedParts[0];
  return [first.className.split(" ")[0], first.getBoundingClientRect().top, top];
}"""
#: Returns which of the stored parts is the first that is displayed now, and its distance from the top.
FIRST_STORED_PART = """() => {
  const index = window.storedParts.findIndex(part => part.isConnected && part.offsetHeight);
  return [index, window.storedParts[index].getBoundingClientRect().top];
}"""
TOGGLE = "kind => document.querySelector(`button[data-reading='${kind}']`).click()"
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


def toggle_kind(page: Page, kind: str) -> tuple[int, float]:
    """Show or hide a kind of content; return which of the stored parts is the first then, and where it is."""
    page.evaluate(TOGGLE, kind)
    for _ in range(2):  # the page corrects its place after the first two frames
        page.evaluate(TWO_FRAMES)
    index, top = page.evaluate(FIRST_STORED_PART)
    return index, top


def test_hidden_kinds_keep_the_place(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(f"{long_session}?at=600#m-600")
    expect(page.locator("#m-600")).to_be_in_viewport()
    page.mouse.move(600, 400)
    for _window in range(4):  # so that the page stays long enough when most of it is hidden
        page.mouse.wheel(0, 20_000)
        page.evaluate(TWO_FRAMES)
        page.wait_for_load_state("networkidle")
    # The message that the address names is displayed always, so the test begins at another.
    page.evaluate("document.querySelector('#m-602').scrollIntoView()")
    page.wait_for_load_state("networkidle")  # earlier and later messages are loaded near the ends
    page.evaluate(TWO_FRAMES)
    kind, place, top = page.evaluate(STORE_PARTS)
    own = {"call": "tools", "reasoning": "reasoning"}.get(kind, "prose")
    other = "prose" if own == "tools" else "tools"
    for _hidden in (True, False):
        index, kept = toggle_kind(page, other)
        assert index == 0
        assert abs(kept - place) <= 1
    index, moved = toggle_kind(page, own)
    assert index > 0
    assert abs(moved - max(place, top)) <= 1


def test_link_to_a_message_shows_its_results_although_they_are_switched_off(
    open_page: OpenPage, long_session: str
) -> None:
    page = open_page("carol")
    page.goto(long_session)
    page.get_by_role("button", name="Results").click()
    expect(page.locator(".transcript .call .res:visible")).to_have_count(0)
    page.goto(f"{long_session}?v=12&find=refunded+40.00")
    expect(page.locator(".msg:has(:target) .res mark").first).to_be_visible()
    remark = page.get_by_text("The link leads to this message, so all of it is shown. Switched off elsewhere: Results.")
    expect(remark).to_be_in_viewport()
    page.get_by_role("button", name="Results").click()
    expect(remark).to_have_count(0)


@only_exhaustive
def test_term_is_explained_without_a_pointer(site: Site, open_page: OpenPage) -> None:
    site.run(saved_transcripts.save_search_without_a_result)
    page = open_page("carol", viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto("/sessions/")
    page.get_by_role("link", name="An open search").first.click()
    explanation = page.get_by_text("The tool only reads, or the call did not run through the library.")
    expect(explanation).to_be_hidden()
    page.get_by_role("button", name="not logged").first.tap()
    expect(explanation).to_be_visible()
    assert list_accessibility_violations(page) == []
    page.get_by_role("button", name="Close", exact=True).tap()
    expect(explanation).to_be_hidden()


def test_paper_has_all_messages_and_no_controls(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol")
    page.goto(long_session)
    page.emulate_media(media="print")
    for controls in (".toolbar", ".tabs", ".actions", ".outline", ".copy"):
        expect(page.locator(controls).first).to_be_hidden()
    is_laid_out = "each => getComputedStyle(each).contentVisibility === 'visible'"
    assert page.evaluate(f"[...document.querySelectorAll('.transcript .msg')].every({is_laid_out})")
    expect(page.locator(".transcript .msg").last).to_be_visible()
    expect(page.get_by_text("Open the timeline")).to_be_hidden()
    is_kept_whole = "each => getComputedStyle(each).breakInside === 'avoid'"
    assert page.evaluate(f"[...document.querySelectorAll('.transcript .call')].every({is_kept_whole})")
    named = "getComputedStyle(document.documentElement).getPropertyValue('--printed-as')"
    assert page.evaluate(named) == f'"Session long · {page.url}"'
    expect(page.get_by_text("Printed by carol, as of")).to_contain_text(f"{page.url} ·")
    switched_off = page.locator("[data-hidden-on-paper]").filter(visible=True)
    expect(switched_off).to_have_count(0)
    page.evaluate("document.querySelector('.transcript').dataset.hide = 'results tokens'")
    expect(switched_off).to_have_text(re.compile("^Tool results are not printed: they are switched off."))
    print_page = "window.dispatchEvent(new Event('beforeprint'))"
    note = page.locator("[data-folded-on-paper]")
    page.evaluate(print_page)
    expect(note).to_be_visible()
    folded = page.evaluate("[...document.querySelectorAll('[data-folded]')].map(each => Number(each.dataset.folded))")
    expect(note).to_contain_text(f"Messages that are folded and not printed: {sum(folded):,}.")
    page.emulate_media(media="screen")
    expect(note).to_be_hidden()
    expect(switched_off).to_have_count(0)
    fold = page.locator(".more.between")
    opened = int(fold.get_attribute("data-folded") or 0)
    page.get_by_role("link", name=re.compile("^Show the next")).first.click()
    expect(fold).to_have_attribute("data-folded", str(opened - 24))
    page.evaluate(print_page)
    expect(note.locator("b")).to_have_text(f"{sum(folded) - 24:,}")


def test_print_page_has_all_messages_on_light_paper_without_controls(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol", color_scheme="dark")
    page.goto(f"{long_session}export/print/?v=1")
    assert list_accessibility_violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.goto(long_session)
    page.locator("#session-head summary", has_text="Export").click()
    page.get_by_role("link", name=re.compile("^Print or save as PDF")).click()
    expect_loaded_url(page, r"/export/print/$")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.evaluate("window.print = () => { window.printed = true; }")
    page.get_by_role("button", name="Print").click()
    assert page.evaluate("window.printed")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    ids = page.evaluate("[...document.querySelectorAll('.transcript [id^=m-]')].map(each => Number(each.id.slice(2)))")
    assert sorted(ids) == list(range(1200))
    is_laid_out = "each => each.checkVisibility({contentVisibilityAuto: true}) && each.offsetHeight > 0"
    assert page.evaluate(f"[...document.querySelectorAll('.transcript .msg')].every({is_laid_out})")
    assert page.locator("details:not([open])").count() == 0
    is_cut = "each => each.scrollHeight > each.clientHeight + 1 && getComputedStyle(each).overflowY !== 'visible'"
    assert page.evaluate(f"[...document.querySelectorAll('.transcript *')].filter({is_cut}).length") == 0
    expect(page.locator(".print-bar")).to_be_hidden()
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Back to the session").click()
    expect_loaded_url(page, f"{long_session}$")


def test_print_page_without_javascript_names_the_command_of_the_browser(open_page: OpenPage, long_session: str) -> None:
    page = open_page("carol", java_script_enabled=False, viewport={"width": 390, "height": 844})
    page.goto(f"{long_session}export/print/?v=1")
    expect(page.get_by_text("use the print command of your browser")).to_be_visible()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(page.locator(".transcript .msg").last).to_have_attribute("id", "m-98")


def test_paper_has_exact_times_and_no_buttons_of_a_decision(
    site: Site, start_agent: StartAgent, open_page: OpenPage, order_number: int
) -> None:
    start_agent(site, order_number)
    page = open_page("alice")
    page_actions.open_refund_card(page, order_number)
    page.emulate_media(media="print")
    for control in page.locator(".deciding :is(.btn, button:not(.term), input, textarea)").all():
        expect(control).to_be_hidden()
    printed = (
        "each => getComputedStyle(each, '::after').content === JSON.stringify(each.title)"
        " && getComputedStyle(each).fontSize === '0px'"
    )
    for kind in ("ago", "at"):
        assert page.evaluate(f"[...document.querySelectorAll('time[data-time={kind}]')].every({printed})")
        assert page.locator(f"time[data-time={kind}]").count()
    assert page.locator("#call-events time[data-time=at]").count()
    for control in page.locator("#people :is(.btn, .unclaimed), .comments").all():
        expect(control).to_be_hidden()
    expect(page.get_by_text("Printed by alice, as of")).to_contain_text(f"{page.url} ·")
    expect(page.locator("#about details.raw .digest").first).to_be_visible()
    page.set_viewport_size({"width": 718, "height": 1016})  # what a page of A4 has room for
    for selector in (".to-decision", ".crumbs"):
        expect(page.locator(selector)).to_be_hidden()
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(media="screen")
    expect(page.get_by_text("Printed by alice")).to_be_hidden()
    page.get_by_text("It did not happen", exact=True).click()
    page.locator("#id_reason").fill("Seen in the account.")
    page.get_by_role("button", name="Record that it did not happen").click()
    expect(page.locator("#decision-title")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.locator(".deciding .withdraw")).to_be_hidden()
    expect(page.locator("section:has(> header #decision-title) time[data-time=ago]")).to_be_hidden()
    upper_edge = "section => section.getBoundingClientRect().top"
    decision = page.locator("aside.decide").evaluate(upper_edge)
    assert page.locator("#about").evaluate(upper_edge) < decision < page.locator("#call-events").evaluate(upper_edge)


@only_exhaustive
def test_copy_buttons_of_a_call_do_not_overlap_on_a_phone(open_page: OpenPage, long_session: str) -> None:
    page = open_page("alice", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(long_session)
    buttons = page.locator(".call .copy-actions").first.locator(".copy")
    expect(buttons).to_have_count(2)
    call, arguments = buttons.nth(0).bounding_box(), buttons.nth(1).bounding_box()
    assert call
    assert arguments
    assert call["x"] + call["width"] + 8 <= arguments["x"] or call["y"] + call["height"] <= arguments["y"]
    assert call["height"] >= 36


@only_exhaustive
def test_transcript_begins_in_the_upper_half_of_a_phone(open_page: OpenPage, long_session: str) -> None:
    page = open_page("alice", viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto(long_session)
    first = page.locator("section.transcript").bounding_box()
    assert first
    assert first["y"] < 844 / 2
    assert page.locator("#lanes").is_hidden()
    page.locator(".transcript-options > summary").click()
    assert page.get_by_role("button", name="Go", exact=True).is_visible()
