"""A link or button that a response replaces while the mouse is pressed on it still acts, once."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.test_live_call_list import log_call
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import Site

#: Replaces a part of the page by its newest state, as a form or a link of htmx does.
REPLACE = """part => window.htmx.ajax("GET", location.href, {target: part, select: part, swap: "outerHTML"})"""


def press_while_replaced(page: Page, control: Locator, part: str) -> None:
    """Press the mouse on a control, replace a part of the page that contains it, and release the mouse."""
    control.scroll_into_view_if_needed()
    control.hover()
    pressed = control.element_handle()
    page.mouse.down()
    page.evaluate(REPLACE, part)
    page.wait_for_function("element => !element.isConnected", arg=pressed)
    page.mouse.up()


@pytest.fixture
def calls_page(site: Site, open_page: OpenPage) -> Page:
    page = open_page("carol")
    page.route_web_socket(re.compile("."), lambda _socket: None)  # no other update replaces the controls
    page.goto(log_call(site, "pressed", "call_1", "plums"))
    return page


def test_pressed_link_acts_after_its_replacement(calls_page: Page) -> None:
    link = calls_page.locator("table.calls tbody tr").first.locator("th a[data-row]")
    press_while_replaced(calls_page, link, "table.calls")
    expect(calls_page).to_have_url(re.compile(r"/calls/[0-9]+/$"))


@only_exhaustive
def test_pressed_text_inside_a_link_acts_once(calls_page: Page) -> None:
    calls_page.evaluate("window.clicks = 0; addEventListener('click', () => window.clicks++)")
    calls_page.evaluate("document.querySelector('table.calls th a').innerHTML = '<b>ship</b>'")
    inner = calls_page.locator("table.calls th a b").first
    inner.hover()
    calls_page.evaluate("document.querySelector('table.calls th a').addEventListener('click', e => e.preventDefault())")
    calls_page.mouse.down()
    calls_page.evaluate("document.querySelector('table.calls th a').innerHTML = '<b>ship</b>'")
    calls_page.mouse.up()
    calls_page.wait_for_function("window.clicks > 0")
    calls_page.evaluate("() => new Promise(done => setTimeout(done))")
    assert calls_page.evaluate("window.clicks") == 1


@only_exhaustive
def test_release_on_another_control_does_nothing(calls_page: Page) -> None:
    address = calls_page.url
    link = calls_page.locator("table.calls tbody tr").first.locator("th a[data-row]")
    link.hover()
    calls_page.mouse.down()
    calls_page.evaluate("document.querySelector('table.calls th a').outerHTML = '<a href=\"/audit/\">elsewhere</a>'")
    calls_page.mouse.up()
    calls_page.evaluate("() => new Promise(done => setTimeout(done))")
    assert calls_page.url == address
