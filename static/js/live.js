// The socket says which sessions changed; parts of the page listen for it and fetch themselves again.
// While the socket is down they are fetched every few seconds, and the page says so.

import { gettext } from "./words.js";

const PAUSE = 1000; // at most one fetch a second for one thing, and never without the last one
const POLL = 5000;
const SILENCE = 25000; // the server speaks every ten seconds
const PARTS = "[hx-trigger*='live:']";
const PATIENCE = 20000; // a connection that says nothing any more must not keep the next fetch waiting
const ANSWERS = [401, 403, 409, 422]; // a refusal is an answer, shown where it belongs

const SENDING = 20000; // a form that is sent gets an answer within this time, or the reader is told that none came

const live = document.getElementById("live");
const tabs = new BroadcastChannel("harness"); // a sign-in or sign-out in one tab is noticed in the others
const stale = document.getElementById("stale");
const due = new Map();
const state = { socket: null, connected: false, connecting: true, signedOut: false, failure: "" };
const press = { down: false, waiting: false };
const behind = new Set(); // ids of the parts whose last fetch the server refused or failed
let heard = Date.now();
let changed = 0; // when the server last named a session that changed
let shown = live && new Date(live.dataset.shown);

function announce(name) {
  const waiting = due.get(name);
  if (waiting) {
    waiting.again = true;
    return;
  }
  window.htmx.trigger(document.body, name);
  const entry = { again: false };
  due.set(name, entry);
  setTimeout(() => {
    due.delete(name);
    if (entry.again) announce(name);
  }, PAUSE);
}

function announceEverything() {
  const names = new Set();
  for (const part of document.querySelectorAll(PARTS)) {
    for (const [name] of part.getAttribute("hx-trigger").matchAll(/live:[\w-]+/g)) names.add(name);
  }
  names.forEach(announce);
}

function receive(message) {
  heard = Date.now();
  if (!failing()) shown = new Date();
  if (message.session === null) announceEverything();
  if (message.session !== undefined) changed = performance.now();
  if (!message.session) return;
  announce(`live:session-${message.session}`);
  announce("live:any");
}

// What is said in the corner: `showing` names the time of what the page shows.
function standing() {
  const problem = connectionProblem();
  if (problem) return problem;
  const time = shown.toLocaleTimeString([], { hour12: false });
  if (!state.connected && !state.connecting) return gettext("Connection lost — showing the state at %(time)s.", { time });
  return failing() ? gettext("The server could not update this page — showing the state at %(time)s.", { time }) : "";
}

// What keeps a form from being recorded: it is said beside the button, too.
function connectionProblem() {
  if (state.signedOut) return gettext("You are signed out. Your text stays here.");
  if (!navigator.onLine) return gettext("You are offline. Your text stays here; send it when you are back online.");
  return state.failure;
}

function failing() {
  return [...behind].some((id) => document.getElementById(id)?.matches(PARTS));
}

function show() {
  const problem = connectionProblem();
  for (const place of document.querySelectorAll("[data-connection]")) say(place, problem);
  const beside = [...document.querySelectorAll("[data-connection]")].some((place) => place.checkVisibility());
  say(stale, problem && beside ? "" : standing());
}

function say(place, text) {
  const said = `${text}${state.signedOut}`;
  place.hidden = !text;
  if (place.dataset.text === said) return;
  place.dataset.text = said;
  place.textContent = text;
  if (!text || !state.signedOut) return;
  const link = document.createElement("a");
  link.href = live.dataset.login;
  link.target = "_blank";
  link.textContent = gettext("Sign in in another tab");
  place.append(" ", link);
}

function opened(event) {
  const again = state.socket !== null && !state.connected;
  Object.assign(state, { socket: event.detail.socketWrapper, connected: true, connecting: false, signedOut: false });
  heard = Date.now();
  shown = new Date();
  if (again) announceEverything();
  show();
}

// Also when the first attempt fails: from then on the page is not live.
function closed(event) {
  state.connected = state.connecting = false;
  state.refused = event.detail.event.code >= 4000; // the server ended it; nobody tries again by himself
  show();
}

function fetched({ elt, xhr, successful, requestConfig }) {
  const part = elt.matches(PARTS);
  if (xhr.status === 401) state.signedOut = true;
  if (successful) state.signedOut = false;
  if (part && successful) behind.delete(elt.id);
  if (part && !successful && xhr.status) behind.add(elt.id);
  if (successful && part) {
    if (!failing()) shown = new Date();
    if (document.querySelector("[data-state='decided']")) state.failure = ""; // the page says itself what was recorded
    if (state.refused) {
      state.refused = false;
      state.socket.reconnect();
    }
  }
  if (!part) state.failure = successful ? "" : failure(xhr.status, requestConfig.verb);
  show();
}

function failure(status, verb) {
  if (ANSWERS.includes(status)) return "";
  if (verb === "get") return status ? gettext("The server reported an error, so this was not loaded. Try again.") : gettext("This was not loaded: there is no connection to the server.");
  // The request may have arrived and only its answer been lost.
  return status ? gettext("The server reported an error. Reload the page to see whether this was recorded; your text stays here until then.") : gettext("We could not confirm that this was recorded. Send it again: it is recorded only once.");
}

function watch() {
  state.connecting = false; // the first attempt has had its time
  if (state.connected && Date.now() - heard > SILENCE) {
    state.connected = false;
    state.socket.reconnect();
  }
  if ((!state.connected || state.signedOut) && !document.hidden) announceEverything();
  show();
}

// A click is a press and a release on the same thing, by a pointer or the space bar: a part that would be replaced in
// between waits for the release.
function hold({ detail }) {
  if (!press.down || !detail.requestConfig?.elt.matches(PARTS)) return;
  detail.shouldSwap = false;
  press.waiting = true;
}

function pressed() {
  press.down = true;
}

function spaced(event) {
  return event.key === " " && event.target.matches?.("button, summary, input[type='checkbox'], input[type='radio']");
}

// The click comes after the release, and is answered before the parts are fetched again.
function released() {
  if (!press.down) return;
  press.down = false;
  if (!press.waiting) return;
  press.waiting = false;
  setTimeout(announceEverything);
}

// The answer to a form may be older than what a live update has shown while it was under way, and what it brings listens
// only once it has settled: what has changed since the form was sent is fetched again.
function catchUp({ requestConfig }) {
  if (!requestConfig || requestConfig.elt.matches(PARTS) || changed < requestConfig.asked) return;
  requestConfig.asked = Infinity; // once for each answer, which may settle in several places
  announceEverything();
}

// A sign-in in another tab makes the token of an open form worthless; the newest one came with the last part.
function prepare(request) {
  request.asked = performance.now();
  const token = document.getElementById("waiting")?.dataset.token;
  if (token && request.parameters.csrfmiddlewaretoken) request.parameters.csrfmiddlewaretoken = token;
  if (request.elt.matches(PARTS)) request.timeout = PATIENCE;
  else if (request.verb === "post" && !hasFile(request.elt)) request.timeout = SENDING;
}

function hasFile(form) {
  return [...form.querySelectorAll("input[type='file']")].some((input) => input.files.length > 0);
}

// The network is back: what the page shows is fetched again, and what could not be sent can be sent.
function online() {
  state.failure = "";
  announceEverything();
  show();
}

if (live) {
  window.htmx.config.wsReconnectDelay = (tries) => Math.min(500 * 2 ** tries, 8000) * (0.5 + Math.random() / 2);
  live.addEventListener("htmx:wsOpen", opened);
  live.addEventListener("htmx:wsClose", closed);
  live.addEventListener("htmx:wsBeforeMessage", (event) => {
    event.preventDefault();
    receive(JSON.parse(event.detail.message));
  });
  document.body.addEventListener("htmx:afterRequest", (event) => fetched(event.detail));
  document.body.addEventListener("htmx:configRequest", (event) => prepare(event.detail));
  document.body.addEventListener("htmx:beforeSwap", hold);
  window.addEventListener("pointerdown", pressed, true);
  window.addEventListener("keydown", (event) => spaced(event) && pressed(), true);
  window.addEventListener("keyup", (event) => event.key === " " && released(), true);
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, released, true);
  window.addEventListener("blur", released); // of the window: an element may lose the focus while it is pressed
  // A menu or a list that the browser opened may have taken the release for itself.
  window.addEventListener("pointermove", (event) => event.buttons || released(), true);
  window.addEventListener("offline", show);
  window.addEventListener("online", online);
  document.body.addEventListener("htmx:afterSettle", ({ detail }) => {
    show();
    catchUp(detail);
  });
  // Only the server knows whether this tab is signed out, too: it is asked at once.
  tabs.addEventListener("message", announceEverything);
  setInterval(watch, POLL);
  show();
  // Whoever comes back, from signing in next door say, sees at once how things are.
  document.addEventListener("visibilitychange", watch);
}

// A page for people who are signed out has no live parts, so opening it is news for the other tabs; so is a sign-in.
if (!live || document.referrer.startsWith(new URL(live.dataset.login, window.location).href)) tabs.postMessage("signed in or out");
