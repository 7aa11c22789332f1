// The websocket reports changed sessions, and parts of the page that listen for them are fetched again. While the
// connection is lost, they are fetched every few seconds; the page says so until that succeeds.

import { scrollToConnectionProblem } from "./connection_problems.js";
import { gettext } from "./translations.js";

const ANNOUNCE_INTERVAL = 1000; // milliseconds: events of one name are merged, and the last one is never dropped
const POLL_INTERVAL = 5000;
const HEARTBEAT_TIMEOUT = 25000; // the server speaks every ten seconds
const LIVE_PARTS = "[hx-trigger*='live:']";
const PREVIEWS = ".arguments"; // record nothing, and are stopped by the form that is sent
const FETCH_TIMEOUT = 20000; // milliseconds, so that a dead connection does not block the next fetch
const OTHER_READER = 412; // the page was rendered for another user, workspace or role; the text of the response says which
const HANDLED_STATUSES = [401, 403, 409, OTHER_READER, 422]; // refusals that the page shows itself

const LATE_RESPONSE = 2000; // milliseconds after the network was lost in which a response may come that was on its way before
const SUBMIT_TIMEOUT = 20000; // milliseconds until a form without a response is reported

const live = document.getElementById("live");
const tabs = new BroadcastChannel("harness"); // reports a sign-in or sign-out to the other tabs
const statusElement = document.getElementById("stale");
const pendingEvents = new Map();
const state = { socket: null, connected: false, connecting: true, signedOut: false, otherReader: "", isOtherUser: false, setUp: "", failure: "", failedForm: null, submitter: null };
const pressState = { down: false, waiting: false };
const failedParts = new Set(); // ids of the parts whose last fetch failed
let lastMessageAt = Date.now(); // of the websocket
let heardAt = Date.now(); // time of the last message or response of the server, which has sent this page
let offlineAt = -Infinity; // when the browser last lost its network, or a request without one
let lastChangeAt = 0; // time of the last reported change
let lostAt = null; // time of the last failed connection or fetch of a part
let shownAt = live && new Date(live.dataset.shown);

function announce(name) {
  const waiting = pendingEvents.get(name);
  if (waiting) {
    waiting.again = true;
    return;
  }
  window.htmx.trigger(document.body, name);
  const entry = { again: false };
  pendingEvents.set(name, entry);
  setTimeout(() => {
    pendingEvents.delete(name);
    if (entry.again) announce(name);
  }, ANNOUNCE_INTERVAL);
}

function announceEverything() {
  const names = new Set();
  for (const part of document.querySelectorAll(LIVE_PARTS)) {
    for (const [name] of part.getAttribute("hx-trigger").matchAll(/live:[\w-]+/g)) names.add(name);
  }
  names.forEach(announce);
}

function receive(message) {
  lastMessageAt = heardAt = Date.now();
  if (!hasFailedParts()) shownAt = new Date();
  if (message.session === null) announceEverything();
  if (message.session !== undefined) lastChangeAt = performance.now();
  if (!message.session) return;
  announce(`live:session-${message.session}`);
  announce("live:any");
}

/** Return whether the server is out of reach: one on this machine, or in a network that the browser does not know, is not. */
function isOffline() {
  return !navigator.onLine && heardAt < offlineAt + LATE_RESPONSE;
}

/** Return the message about the connection, with the time of the displayed state; empty if all is well. */
function statusMessage() {
  const time = formatTime(shownAt);
  if (document.querySelector("[data-connection]") || state.failure) {
    const problem = connectionProblem();
    if (problem) return problem;
  }
  if (state.otherReader) return state.otherReader;
  if (state.signedOut) return gettext("You are signed out.");
  if (isOffline()) return gettext("You are offline — showing the state at %(time)s.", { time });
  if (!state.connected && !state.connecting && !(shownAt > lostAt)) return gettext("Connection lost — showing the state at %(time)s.", { time });
  return hasFailedParts() ? gettext("The server could not update this page — showing the state at %(time)s.", { time }) : "";
}

/** Format a time of day in the time zone of the other times of the page, which the browser may not know. */
function formatTime(moment) {
  try {
    return moment.toLocaleTimeString([], { hour12: false, timeZone: live.dataset.zone });
  } catch {
    return `${moment.toISOString().slice(11, 19)} UTC`;
  }
}

/** Return the problem that keeps forms from being recorded, which is also shown beside their buttons. */
function connectionProblem() {
  if (state.otherReader) return describeOtherReader();
  if (state.signedOut) return gettext("You are signed out. Your text stays here.");
  if (isOffline()) return gettext("You are offline. Your text stays here; send it when you are back online.");
  return state.failure;
}

/** Say who reads now, and what becomes of the text that the reader of this page has typed. */
function describeOtherReader() {
  const problem = state.otherReader;
  if (state.setUp) return gettext("%(problem)s Your text stays here while you set one up.", { problem });
  return state.isOtherUser
    ? gettext("%(problem)s Your text stays here. To record it, sign in as %(name)s again in another tab.", { problem, name: live.dataset.name })
    : gettext("%(problem)s Your text stays here until you reload the page.", { problem });
}

/** Disable the buttons of forms that nobody can record now: they would record in the name of somebody else. */
function freezeForms() {
  for (const button of document.querySelectorAll("form:has([data-connection]:not([data-unsent])) button[type='submit']")) {
    if (state.otherReader && !button.disabled) button.disabled = button.toggleAttribute("data-frozen", true);
    else if (!state.otherReader && button.hasAttribute("data-frozen")) button.disabled = button.toggleAttribute("data-frozen", false);
  }
}

/** Return whether a problem is shown in a place: the failure of one form is not shown in another. */
function concernsPlace(place) {
  const form = state.failedForm;
  return connectionProblem() !== state.failure || !form?.isConnected || !form.querySelector("[data-connection]") || form.contains(place);
}

function hasFailedParts() {
  return [...failedParts].some((id) => document.getElementById(id)?.matches(LIVE_PARTS));
}

/** Say beside a button that its form was not sent, unless the form has a place for the message. */
function markUnsent(button) {
  if (!button?.isConnected || button.form?.querySelector("[data-connection]")) return;
  const place = document.createElement("p");
  place.className = "problem";
  place.role = "alert";
  place.hidden = true;
  place.dataset.connection = "";
  place.dataset.unsent = "";
  button.after(place);
}

function renderStatus() {
  const problem = connectionProblem();
  freezeForms();
  if (!problem) for (const place of document.querySelectorAll("[data-unsent]")) place.remove();
  const places = [...document.querySelectorAll("[data-connection]")];
  for (const place of places) renderMessage(place, concernsPlace(place) ? problem : "");
  const beside = places.some((place) => place.checkVisibility());
  renderMessage(statusElement, problem && beside ? "" : statusMessage());
}

function renderMessage(place, text) {
  const key = `${text}${state.signedOut}`;
  place.hidden = !text;
  if (place.dataset.text === key) return;
  place.dataset.text = key;
  place.textContent = "unsent" in place.dataset ? gettext("Not sent. %(problem)s", { problem: text }) : text;
  const link = text && createRemedyLink();
  if (link) place.append(" ", link);
}

/** Create the link to what ends a problem that a new attempt does not end; null for other problems. */
function createRemedyLink() {
  const link = document.createElement("a");
  if (state.otherReader && state.setUp) {
    link.href = `${state.setUp}?${new URLSearchParams({ next: window.location.pathname + window.location.search })}`;
    link.textContent = gettext("Set up a second factor");
    if (!keepsInput()) link.target = "_blank";
  } else if (state.otherReader) {
    link.href = window.location.pathname + window.location.search; // without a fragment, which would only scroll
    link.textContent = gettext("Reload this page");
  } else if (state.signedOut) {
    link.href = live.dataset.login;
    link.target = "_blank";
    link.textContent = gettext("Open the sign-in page in another tab");
  } else return null;
  return link;
}

/** Return whether all that was typed on this page is there again after another page: the drafts of forms are, but no files. */
function keepsInput() {
  const fields = [...document.querySelectorAll("main :is(textarea, input[type='text'], input[type='file'], input:not([type]))")];
  return !fields.some((field) => field.value !== field.defaultValue && (field.type === "file" || !field.closest("form[data-draft]")));
}

function onOpen(event) {
  const again = state.socket !== null && !state.connected;
  Object.assign(state, { socket: event.detail.socketWrapper, connected: true, connecting: false, signedOut: false });
  lastMessageAt = heardAt = Date.now();
  shownAt = new Date();
  if (again) announceEverything();
  renderStatus();
}

/** Mark the page as not live. A server without websockets fails each attempt; then the first fetch tells more. */
function onClose(event) {
  const isFirst = lostAt === null && !state.connected;
  if (isFirst || state.connected) lostAt = new Date();
  state.connected = state.connecting = false;
  state.refused = event.detail.event.code >= 4000; // closed by the server: there is no automatic reconnection
  if (isFirst) announceEverything();
  else renderStatus();
}

/** Return whether a refusal is of another user than the reader of this page, not only of another role or workspace. */
function isOtherUser(xhr) {
  return !live.dataset.reader.startsWith(`${xhr.getResponseHeader("Harness-Reader")}-`);
}

function onResponse({ elt, xhr, successful, requestConfig }) {
  const part = elt.matches(LIVE_PARTS);
  if (xhr.status) heardAt = Date.now();
  else if (!navigator.onLine) offlineAt = Date.now();
  if (xhr.status === OTHER_READER) Object.assign(state, { otherReader: xhr.responseText, isOtherUser: isOtherUser(xhr), setUp: xhr.getResponseHeader("Harness-Second-Factor") ?? "", signedOut: false });
  if (xhr.status === 401) Object.assign(state, { otherReader: "", signedOut: true });
  if (successful) Object.assign(state, { otherReader: "", signedOut: false });
  if (part && successful) failedParts.delete(elt.id);
  if (part && !successful && xhr.status) failedParts.add(elt.id);
  if (part && !successful && !xhr.status) lostAt = new Date();
  if (successful && part) {
    if (!hasFailedParts()) shownAt = new Date();
    if (document.querySelector("[data-state='decided']")) state.failure = ""; // the page shows what was recorded
    if (state.refused) {
      state.refused = false;
      state.socket.reconnect();
    }
  }
  if (!part && (xhr.status || !elt.matches(PREVIEWS))) {
    state.failure = successful ? "" : failureMessage(xhr.status, requestConfig.verb);
    state.failedForm = elt.closest("form");
    const button = elt.matches("button") ? elt : state.submitter; // a button that sends its form itself submits none
    if ([401, OTHER_READER].includes(xhr.status) && button && state.failedForm === button.form) markUnsent(button);
  }
  renderStatus();
  if (!part && connectionProblem()) scrollToConnectionProblem(elt.closest("form"));
}

function failureMessage(status, verb) {
  if (HANDLED_STATUSES.includes(status)) return "";
  if (verb === "get") return status ? gettext("The server reported an error, so this was not loaded. Try again.") : gettext("This was not loaded: there is no connection to the server.");
  // The request may have been processed, and only its response lost.
  return status ? gettext("The server reported an error. Reload the page to see whether this was recorded; your text stays here until then.") : gettext("We could not confirm that this was recorded. Send it again: it is recorded only once.");
}

function checkConnection() {
  state.connecting = false; // the first attempt has timed out
  if (state.connected && Date.now() - lastMessageAt > HEARTBEAT_TIMEOUT) {
    state.connected = false;
    state.socket.reconnect();
  }
  if ((!state.connected || state.signedOut || state.otherReader) && !document.hidden) announceEverything();
  renderStatus();
}

// A click is a press and a release on the same element. Parts are not replaced in between; they wait for the release.
/** A live part stays as it is while the reader presses a button, and if a refusal does not contain it. */
function holdSwap({ detail }) {
  const part = detail.requestConfig?.elt;
  if (!part?.matches(LIVE_PARTS)) return;
  if (pressState.down) {
    detail.shouldSwap = false;
    pressState.waiting = true;
  } else if (part.id && detail.xhr.status >= 400 && !containsElement(detail.serverResponse, part.id)) {
    detail.shouldSwap = false;
    detail.isError = true;
  }
}

function containsElement(html, id) {
  return new DOMParser().parseFromString(html, "text/html").getElementById(id) !== null;
}

function onPress() {
  pressState.down = true;
}

function isSpacePress(event) {
  return event.key === " " && event.target.matches?.("button, summary, input[type='checkbox'], input[type='radio']");
}

/** Fetch the delayed parts after the click that follows the release. */
function onRelease() {
  if (!pressState.down) return;
  pressState.down = false;
  if (!pressState.waiting) return;
  pressState.waiting = false;
  setTimeout(announceEverything);
}

/** Fetch live parts again if a session changed while a form was submitted: the response may be older than the change. */
function refetchAfterSubmit({ requestConfig }) {
  if (!requestConfig || requestConfig.elt.matches(LIVE_PARTS) || lastChangeAt < requestConfig.asked) return;
  requestConfig.asked = Infinity; // once for each response, which may settle several elements
  announceEverything();
}

/** Name the reader of this page, set timeouts, and replace the CSRF token, which a sign-in in another tab invalidates, by the newest one. */
function prepareRequest(request) {
  request.asked = performance.now();
  request.headers["Harness-Reader"] = live.dataset.reader;
  const token = document.getElementById("waiting")?.dataset.token;
  if (token && request.parameters.csrfmiddlewaretoken) request.parameters.csrfmiddlewaretoken = token;
  if (request.elt.matches(LIVE_PARTS)) request.timeout = FETCH_TIMEOUT;
  else if (request.verb === "post" && !hasFile(request.elt)) request.timeout = SUBMIT_TIMEOUT;
}

function hasFile(form) {
  return [...form.querySelectorAll("input[type='file']")].some((input) => input.files.length > 0);
}

/** Name the reader of this page in a form that the browser sends. */
function nameReader({ target, formData }) {
  if (target.method === "post") formData.set("page_reader", live.dataset.reader);
}

/** Keep a page with its text that the server would refuse. HTMX sends its forms, whose refusals leave the page as it is. */
function holdForm(event) {
  state.submitter = event.submitter;
  if (!(state.otherReader || state.signedOut) || event.target.method !== "post") return;
  event.preventDefault();
  markUnsent(event.submitter);
  renderStatus();
}

function onOffline() {
  offlineAt = Date.now();
  renderStatus();
}

/** Fetch all parts again when the network is back. */
function onOnline() {
  state.failure = "";
  announceEverything();
  renderStatus();
}

if (live) {
  window.htmx.config.wsReconnectDelay = (tries) => Math.min(500 * 2 ** tries, 8000) * (0.5 + Math.random() / 2);
  live.addEventListener("htmx:wsOpen", onOpen);
  live.addEventListener("htmx:wsClose", onClose);
  live.addEventListener("htmx:wsBeforeMessage", (event) => {
    event.preventDefault();
    receive(JSON.parse(event.detail.message));
  });
  document.body.addEventListener("htmx:afterRequest", (event) => onResponse(event.detail));
  document.body.addEventListener("htmx:configRequest", (event) => prepareRequest(event.detail));
  document.body.addEventListener("formdata", nameReader);
  document.body.addEventListener("submit", holdForm);
  document.body.addEventListener("htmx:beforeSwap", holdSwap);
  document.body.addEventListener("harness:responseDropped", () => setTimeout(announceEverything));
  window.addEventListener("pointerdown", onPress, true);
  window.addEventListener("keydown", (event) => isSpacePress(event) && onPress(), true);
  window.addEventListener("keyup", (event) => event.key === " " && onRelease(), true);
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, onRelease, true);
  window.addEventListener("blur", onRelease); // of the window; an element may lose the focus while it is pressed
  // A menu of the browser may have consumed the release.
  window.addEventListener("pointermove", (event) => event.buttons || onRelease(), true);
  window.addEventListener("offline", onOffline);
  window.addEventListener("online", onOnline);
  document.body.addEventListener("htmx:afterSettle", ({ detail }) => {
    renderStatus();
    refetchAfterSubmit(detail);
  });
  // Only the server knows whether this tab is signed out too, so it is asked at once.
  tabs.addEventListener("message", announceEverything);
  setInterval(checkConnection, POLL_INTERVAL);
  renderStatus();
  // A reader who returns to this tab, for example after signing in elsewhere, sees the current state at once.
  document.addEventListener("visibilitychange", checkConnection);
}

// A page without live parts is for signed-out readers; opening it, or the first page after a sign-in, informs other tabs.
if (!live || document.referrer.startsWith(new URL(live.dataset.login, window.location).href)) tabs.postMessage("signed in or out");
