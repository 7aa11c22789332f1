// Earlier and later messages come when the reader scrolls to them, and what is being read stays where it is. The address
// names the message that is being read, so that Back and reload find the place again.

let last = window.scrollY;
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

/** The message at the top of the view. */
function reading() {
  const named = location.hash.startsWith("#m-") && document.querySelector(location.hash)?.closest(".msg");
  if (named && !moved) return named;
  const top = 8 + parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop || 0);
  for (const message of document.querySelectorAll(".transcript .msg[id]")) {
    if (message.getBoundingClientRect().bottom > top) return message;
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

document.addEventListener(
  "scroll",
  () => {
    const up = window.scrollY < last;
    last = window.scrollY;
    if (!moved && performance.now() < SETTLED) return;
    const earlier = link();
    if (up && earlier && reached(earlier, AHEAD)) window.htmx.trigger(earlier, "earlier");
    const later = !up && document.querySelector("a[data-later]");
    if (later && reached(later, AHEAD)) window.htmx.trigger(later, "later");
    clearTimeout(resting);
    resting = setTimeout(remember, 200);
  },
  { passive: true },
);

// What the agent says while the reader is elsewhere is counted, and a link leads to it.
const newer = document.querySelector(".newer");
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
  newer.firstChild.textContent = `${unread} new ${unread === 1 ? "message" : "messages"}`;
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
  const moved = kept.element.getBoundingClientRect().top - kept.top;
  kept = null;
  if (moved) window.scrollBy({ top: moved, behavior: "instant" });
  last = window.scrollY;
  if (focused) link()?.focus({ preventScroll: true });
});
