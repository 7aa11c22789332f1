// Earlier and later messages come when the reader scrolls to them, and what is being read stays where it is. The address
// names the message that is being read, so that Back and reload find the place again.

import { actions } from "./keys.js";
import { ngettext } from "./words.js";

let last = window.scrollY;
let scrollsUp = false;
let kept = null; // an element that is being read, and where it stands
let focused = false;
let resting = 0;
const AHEAD = 1500; // pixels: what lies so near is fetched before the reader comes to it
const SETTLED = 3000; // until then only what the reader does himself counts, not the way to a place in the address
let moved = false; // by the reader, not by the browser on its way to a place

const link = () => document.querySelector("a[data-earlier]");

function reached(element, ahead = 0) {
  const box = element.getBoundingClientRect();
  return box.bottom > -ahead && box.top < window.innerHeight + ahead;
}

/** What the header in sight covers of the top of the view, in pixels. */
function headHeight() {
  return parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop || 0);
}

/** The message at the top of the view. */
function reading() {
  const named = location.hash.startsWith("#m-") && document.querySelector(location.hash)?.closest(".msg");
  if (named && !moved) return named;
  const top = 8 + headHeight();
  for (const message of document.querySelectorAll(".transcript .msg[id]")) {
    if (message.offsetHeight && message.getBoundingClientRect().bottom > top) return message;
  }
  return null;
}

function remember() {
  if (!moved) return;
  const end = document.getElementById("end");
  const message = end && reached(end) ? null : reading();
  const hash = message ? `#${message.id}` : "";
  if (hash !== location.hash) history.replaceState(history.state, "", location.pathname + location.search + hash);
}

// A place that this page does not hold: another window of the transcript does.
function find() {
  const position = location.hash.match(/^#m-(\d+)$/)?.[1];
  const transcript = document.querySelector(".transcript");
  if (!position || !transcript || document.getElementById(`m-${position}`)) return;
  const address = new URL(location.href);
  if (address.searchParams.get("at") === position) return;
  address.searchParams.set("v", transcript.dataset.version);
  address.searchParams.set("at", position);
  for (const name of ["before", "after", "since"]) address.searchParams.delete(name);
  location.replace(address);
}

for (const name of ["wheel", "touchmove", "pointerdown"]) {
  document.addEventListener(name, (event) => (moved ||= !event.target.closest("a, button, input, select")), {
    passive: true,
  });
}
document.addEventListener("keydown", (event) => (moved ||= /^(Page|Arrow|Home|End| )/.test(event.key)));

// Back and reload come to the message, not to a distance from the top: what lies above is not laid out yet.
function settle() {
  if (!moved && location.hash.startsWith("#m-")) document.querySelector(location.hash)?.scrollIntoView();
}

find();
window.addEventListener("hashchange", find);
history.scrollRestoration = location.hash.startsWith("#m-") ? "manual" : "auto";
window.addEventListener("pageshow", () => setTimeout(settle));

// From what is being read to the next error or decision, not from where the page began.
document.addEventListener("click", (event) => {
  const step = event.target.closest?.("a[data-from-here]");
  const message = step && moved && window.scrollY > 0 ? reading() : null;
  if (!message) return;
  const address = new URL(step.href);
  address.searchParams.set("at", message.id.slice(2));
  step.href = address;
});

/** Fetch the messages before or after these, in the direction of reading, if their link is near the view. */
function fetchNearMessages() {
  const more = document.querySelector(scrollsUp ? "a[data-earlier]" : "a[data-later]");
  if (more && reached(more, AHEAD)) window.htmx.trigger(more, scrollsUp ? "earlier" : "later");
}

document.addEventListener(
  "scroll",
  () => {
    scrollsUp = window.scrollY < last;
    last = window.scrollY;
    if (!moved && performance.now() < SETTLED) return;
    fetchNearMessages();
    clearTimeout(resting);
    resting = setTimeout(() => {
      remember();
      mark();
    }, 200);
  },
  { passive: true },
);

// At the end of what is there, the wheel turns but nothing scrolls.
document.addEventListener(
  "wheel",
  (event) => {
    if (!moved || !event.deltaY) return;
    scrollsUp = event.deltaY < 0;
    fetchNearMessages();
  },
  { passive: true },
);

// j and k: the message after or before the one that is being read, and what lies between when it is not there yet.
function step(by) {
  const all = [...document.querySelectorAll(".transcript .msg")].filter((message) => message.offsetHeight);
  const focused = document.activeElement.closest?.(".transcript .msg");
  const at = all.indexOf(focused ?? reading());
  const isAtStart = !focused && !moved && !location.hash;
  const beside = isAtStart ? all[0] : all[at + by];
  moved = true;
  const more = document.querySelector(by > 0 ? "a[data-later]" : "a[data-earlier]");
  if (!beside) return window.htmx.trigger(more, by > 0 ? "later" : "earlier");
  beside.tabIndex = -1;
  beside.focus({ preventScroll: true });
  beside.scrollIntoView({ block: "start" });
}

if (document.querySelector(".transcript")) {
  actions.j = () => step(1);
  actions.k = () => step(-1);
}

// What the reader wants to see of all transcripts is in a cookie, so that the next page comes like that.
const transcript = document.querySelector(".transcript");

document.addEventListener("click", (event) => {
  const toggle = event.target.closest?.("button[data-reading]");
  if (!toggle || !transcript) return;
  const shown = toggle.getAttribute("aria-pressed") !== "true";
  toggle.setAttribute("aria-pressed", shown);
  const hidden = [...document.querySelectorAll("button[data-reading][aria-pressed=false]")].map((each) => each.dataset.reading);
  const kept = reading();
  const before = kept?.getBoundingClientRect().top;
  transcript.dataset.hide = hidden.join(" ");
  if (kept?.offsetHeight && moved) window.scrollBy({ top: kept.getBoundingClientRect().top - before, behavior: "instant" });
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `harness_reading=${hidden.join(".")}; path=/; max-age=31536000; samesite=lax${secure}`;
});

// The prompt whose part of the conversation is being read is marked in the outline; a place on this page needs no request.
const outline = document.getElementById("outline");

function mark() {
  if (!outline) return;
  const message = reading();
  const here = message ? Number(message.id.slice(2)) : -1;
  const links = [...outline.querySelectorAll("a[data-place]")];
  const current = links.findLast((link) => Number(link.dataset.place) <= here);
  for (const link of links) {
    if (link === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

outline?.addEventListener("click", (event) => {
  const place = event.target.closest("a[data-place]")?.hash;
  if (!place || !document.querySelector(place) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  moved = false;
  location.hash = place;
  settle();
});

// The title of the session stands over the toolbar while that stays at the top.
const toolbar = document.querySelector(".toolbar");

function stick() {
  if (!toolbar) return;
  const sticky = getComputedStyle(toolbar).position === "sticky";
  const room = sticky ? toolbar.offsetHeight + parseFloat(getComputedStyle(toolbar).top) : 0;
  document.documentElement.style.setProperty("--head-height", `${room}px`);
  toolbar.classList.toggle("is-sticky", sticky && toolbar.getBoundingClientRect().top <= parseFloat(getComputedStyle(toolbar).top));
}

document.addEventListener("scroll", stick, { passive: true });
window.addEventListener("resize", stick);
stick();
mark();

// What the agent says while the reader is elsewhere is counted, and a link leads to it.
const newer = document.querySelector(".new-messages");
const spoken = () => [...document.querySelectorAll("#newest .msg[id]")];
const position = (message) => Number(message.id.slice(2));
let known = newer && position(spoken().at(-1) ?? { id: "m--1" });

function tell() {
  const fresh = spoken().filter((message) => position(message) > known);
  const read = fresh.findLastIndex((message) => message.getBoundingClientRect().top < window.innerHeight);
  if (read >= 0) known = position(fresh[read]);
  const unread = fresh.length - read - 1;
  newer.hidden = !unread;
  if (!unread) return;
  newer.firstChild.textContent = ngettext("%(count)s new message", "%(count)s new messages", unread);
  newer.firstChild.hash = document.getElementById("end") ? "end" : fresh.at(-1).id;
}

if (newer) {
  document.addEventListener("scroll", tell, { passive: true });
  document.body.addEventListener("htmx:afterSettle", tell);
}

document.body.addEventListener("htmx:beforeSwap", (event) => {
  const earlier = event.detail.requestConfig?.elt;
  if (!earlier?.matches?.("a[data-earlier]")) return;
  const first = earlier.closest(".window").querySelector(".msg");
  kept = first && { element: first, top: first.getBoundingClientRect().top };
  focused = document.activeElement === earlier;
});

document.body.addEventListener("htmx:afterSettle", () => {
  if (!kept) return;
  const shift = kept.element.getBoundingClientRect().top - kept.top;
  kept = null;
  if (shift) window.scrollBy({ top: shift, behavior: "instant" });
  last = window.scrollY;
  if (focused) link()?.focus({ preventScroll: true });
});
