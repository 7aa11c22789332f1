// The socket says which sessions changed; parts of the page listen for it and fetch themselves again.
// While the socket is down they are fetched every few seconds, and the page says so.

const PAUSE = 1000; // at most one fetch a second for one thing, and never without the last one
const POLL = 5000;
const SILENCE = 25000; // the server speaks every ten seconds
const LISTENING = "[hx-trigger*='live:']";

const live = document.getElementById("live");
const stale = document.getElementById("stale");
const due = new Map();
let socket = null;
let connected = false;
let heard = Date.now();
let shown = live ? new Date(live.dataset.shown) : null;
let signedOut = false;

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
  for (const element of document.querySelectorAll(LISTENING)) {
    for (const [name] of element.getAttribute("hx-trigger").matchAll(/live:[\w-]+/g)) names.add(name);
  }
  names.forEach(announce);
}

function receive(message) {
  heard = Date.now();
  fresh();
  if (message.session === null) announceEverything();
  if (!message.session) return;
  announce(`live:session-${message.session}`);
  announce("live:any");
}

function fresh() {
  shown = new Date();
}

function show() {
  if (!stale) return;
  const time = shown.toLocaleTimeString([], { hour12: false });
  stale.hidden = connected && !signedOut;
  if (stale.hidden) return;
  const text = signedOut ? "You are signed out" : "Connection lost";
  stale.textContent = `${text} — showing ${time}. `;
  if (!signedOut) return;
  const link = document.createElement("a");
  link.href = "/accounts/login/";
  link.target = "_blank";
  link.textContent = "Sign in in another tab";
  stale.append(link, "; what you typed stays here.");
}

function lost() {
  connected = false;
  show();
}

function watch() {
  if (connected && Date.now() - heard > SILENCE) {
    lost();
    socket?.reconnect();
  }
  if (!connected && !document.hidden) announceEverything();
  if (!connected) show();
}

if (live) {
  window.htmx.config.wsReconnectDelay = (tries) => Math.min(500 * 2 ** tries, 8000) * (0.5 + Math.random() / 2);
  live.addEventListener("htmx:wsOpen", (event) => {
    const again = !connected && socket !== null;
    socket = event.detail.socketWrapper;
    connected = true;
    signedOut = false;
    heard = Date.now();
    if (again) announceEverything();
    fresh();
    show();
  });
  live.addEventListener("htmx:wsClose", () => {
    // The first failed attempt counts as well: from then on the page is not live.
    lost();
  });
  live.addEventListener("htmx:wsBeforeMessage", (event) => {
    event.preventDefault();
    receive(JSON.parse(event.detail.message));
  });
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.elt.matches(LISTENING)) return;
    if (event.detail.successful) fresh();
    signedOut = event.detail.xhr?.status === 401;
    if (signedOut || !connected) show();
  });
  setInterval(watch, POLL);
}
