// Load earlier and later messages on scroll without moving the visible ones. The address names the message at the top of
// the view, so that Back and reload return to it.

import { actions } from "./keys.js";
import { gettext, ngettext } from "./translations.js";

let lastScrollY = window.scrollY;
let scrollsUp = false;
let scrollAnchor = null; // an element and its position before a swap above it
let wasLinkFocused = false;
let scrollEndTimer = 0;
let outlineFrame = 0; // the animation frame in which the outline will be marked
const PREFETCH_DISTANCE = 1500; // pixels: messages this near to the view are fetched
const INITIAL_SCROLL_TIME = 3000; // milliseconds: earlier scroll events come from the browser, which scrolls to the hash of the address
const REMARK_TIME = 6000; // milliseconds for which a remark is shown
let hasReaderScrolled = false; // by the reader, not by the browser that scrolls to the hash

// The reader may have opened folded messages since the page was loaded.
window.addEventListener("beforeprint", () => {
  const note = document.querySelector("[data-folded-on-paper]");
  if (!note) return;
  const folds = [...document.querySelectorAll(".transcript [data-folded]")];
  const count = folds.reduce((sum, fold) => sum + Number(fold.dataset.folded), 0);
  note.hidden = !count;
  note.querySelector("b").textContent = count.toLocaleString(document.documentElement.lang);
});

const earlierLink = () => document.querySelector("a[data-earlier]");

function isNearView(element, ahead = 0) {
  const box = element.getBoundingClientRect();
  return box.bottom > -ahead && box.top < window.innerHeight + ahead;
}

/** Return the height that the sticky header covers at the top of the view, in pixels. */
function headHeight() {
  return parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop || 0);
}

/** Return the message at the top of the view. */
function messageAtTop() {
  const named = location.hash.startsWith("#m-") && document.querySelector(location.hash)?.closest(".msg");
  if (named && !hasReaderScrolled) return named;
  const messages = document.querySelectorAll(".transcript .msg[id]");
  if (!messages.length) return null;
  const top = 8 + headHeight() + parseFloat(getComputedStyle(messages[0]).scrollMarginTop); // where a jump puts a message
  for (const message of messages) {
    if (message.offsetHeight && message.getBoundingClientRect().bottom > top) return message;
  }
  return null;
}

function updateAddress() {
  if (!hasReaderScrolled) return;
  const end = document.getElementById("end");
  const message = end && isNearView(end) ? null : messageAtTop();
  const hash = message ? `#${message.id}` : "";
  if (hash !== location.hash) history.replaceState(history.state, "", location.pathname + location.search + hash);
}

/** Load the window of the transcript that contains the message of the hash, if this page does not. */
function openWindowOfHash() {
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
  document.addEventListener(name, (event) => (hasReaderScrolled ||= !event.target.closest("a, button, input, select")), {
    passive: true,
  });
}
document.addEventListener("keydown", (event) => (hasReaderScrolled ||= /^(Page|Arrow|Home|End| )/.test(event.key)));

let scrollTarget = null; // the function that computes where the current scroll ends, which goes on for some frames
let followed = null; // the position and the height of the newest message before an update, if the reader is at the end

// What the reader does ends a scroll, and an update that comes in between causes none.
for (const name of ["pointerdown", "wheel", "touchstart", "keydown"]) {
  document.addEventListener(name, () => (scrollTarget = followed = null), { capture: true, passive: true });
}

// Messages get their final height when they come into view, so that the end of the page moves while the view gets there.
document.addEventListener("keydown", (event) => {
  if (event.key !== "End" || event.shiftKey || event.target.closest("input, textarea, select")) return;
  if (document.querySelector("[data-later]")) return; // later messages are loaded at the end
  scrollDownTo(endOfPage);
});

const endOfPage = () => document.documentElement.scrollHeight - window.innerHeight;

/** Scroll down to a position, which is computed again until the messages in view have their final height. */
function scrollDownTo(computeTop) {
  let [framesLeft, framesThere] = [60, 0];
  scrollTarget = computeTop;
  const goOn = () => {
    if (scrollTarget !== computeTop) return; // the reader goes somewhere else
    const top = computeTop();
    framesThere = window.scrollY >= top - 1 ? framesThere + 1 : 0;
    if (!framesThere) window.scrollTo({ top, behavior: "instant" });
    if (framesThere < 3 && --framesLeft) requestAnimationFrame(goOn);
    else scrollTarget = null;
  };
  requestAnimationFrame(goOn);
}

/** Scroll to the message of the hash; a distance from the top would be wrong while messages above have no layout. */
function scrollToHash({ isRestored = false } = {}) {
  if (hasReaderScrolled) return;
  if (location.hash.startsWith("#m-")) document.querySelector(location.hash)?.scrollIntoView();
  if (location.hash === "#end" || (!isRestored && opensAtEnd())) scrollToNewestMessage();
}

/** Return whether this is a session that runs, opened without a place: its reader wants to see what it does now. */
function opensAtEnd() {
  if (location.hash || !document.querySelector(".transcript[data-opens-at-end]")) return false;
  return performance.getEntriesByType("navigation")[0]?.type === "navigate"; // Back and reload return to the place
}

/** Scroll to the newest message; the browser alone would stop above it, because messages on its way grow when they come into view. */
function scrollToNewestMessage() {
  if (document.getElementById("end")) scrollDownTo(endOfPage);
}

/** Return the fragment of the message that an address without one names. */
function namedMessage() {
  const position = new URLSearchParams(location.search).get("at") ?? "";
  return !location.hash && document.getElementById(`m-${position}`) ? `#m-${position}` : "";
}

if (namedMessage()) location.replace(namedMessage()); // so that it is marked as the target
openWindowOfHash();
window.addEventListener("hashchange", openWindowOfHash);
history.scrollRestoration = /^#(m-|end$)/.test(location.hash) ? "manual" : "auto";
window.addEventListener("pageshow", (event) => setTimeout(scrollToHash, 0, { isRestored: event.persisted }));
// A link to the end works again when its hash is already in the address.
document.addEventListener("click", (event) => {
  if (event.target.closest?.("a[href='#end']") && !event.ctrlKey && !event.metaKey) scrollToNewestMessage();
});

// Jumps to the next error or decision start at the message at the top of the view.
document.addEventListener("click", (event) => {
  const jump = event.target.closest?.("a[data-from-here]");
  const message = jump && hasReaderScrolled && window.scrollY > 0 ? messageAtTop() : null;
  if (!message) return;
  const address = new URL(jump.href);
  address.searchParams.set("at", message.id.slice(2));
  jump.href = address;
});

// A search or a jump that finds nothing leaves the reader where they are.
document.addEventListener("submit", (event) => {
  const here = event.target.querySelector("input[data-here]");
  const message = here && hasReaderScrolled && window.scrollY > 0 ? messageAtTop() : null;
  if (!message) return;
  here.value = message.id.slice(2);
  here.disabled = false;
});

/** Fetch the messages before or after these, in the direction of reading, if their link is near the view. */
function fetchNearMessages() {
  const more = document.querySelector(scrollsUp ? "a[data-earlier]" : "a[data-later]");
  if (more && isNearView(more, PREFETCH_DISTANCE)) window.htmx.trigger(more, scrollsUp ? "earlier" : "later");
}

document.addEventListener(
  "scroll",
  () => {
    scrollsUp = window.scrollY < lastScrollY;
    lastScrollY = window.scrollY;
    outlineFrame ||= requestAnimationFrame(() => {
      outlineFrame = 0;
      markOutlineEntry();
    });
    if (!hasReaderScrolled && performance.now() < INITIAL_SCROLL_TIME) return;
    fetchNearMessages();
    clearTimeout(scrollEndTimer);
    scrollEndTimer = setTimeout(updateAddress, 200);
  },
  { passive: true },
);

// At the end of the page the wheel causes no scroll event.
document.addEventListener(
  "wheel",
  (event) => {
    if (!hasReaderScrolled || !event.deltaY) return;
    scrollsUp = event.deltaY < 0;
    fetchNearMessages();
  },
  { passive: true },
);

/** Focus the next (1) or previous (-1) message or fold, or load messages if there is none on the page. */
function moveToMessage(by) {
  const all = [...document.querySelectorAll(".transcript :is(.msg, .between)")].filter((item) => item.offsetHeight);
  const focused = document.activeElement.closest?.(".transcript :is(.msg, .between)");
  const at = all.indexOf(focused ?? messageAtTop());
  const isAtStart = !focused && !hasReaderScrolled && !location.hash;
  const target = isAtStart ? all[0] : all[at + by];
  hasReaderScrolled = true;
  const more = document.querySelector(by > 0 ? "a[data-later]" : "a[data-earlier]");
  if (!target) return window.htmx.trigger(more, by > 0 ? "later" : "earlier");
  focusItem(target);
}

/** Focus a message, or the link that opens a fold, at the top of the view. */
function focusItem(item) {
  const focusable = item.matches(".between") ? item.querySelector("a") : item;
  if (focusable === item) item.tabIndex = -1;
  focusable.focus({ preventScroll: true });
  item.scrollIntoView({ block: "start" });
}

let openedPlace = ""; // the fragment of the first message of a fold that was opened with a key

document.addEventListener("click", (event) => {
  const link = event.target.closest?.(".between > a");
  if (link) openedPlace = event.detail ? "" : link.hash; // a key clicks no times
});
document.body.addEventListener("htmx:afterSettle", () => {
  const message = openedPlace && document.querySelector(openedPlace)?.closest(".msg");
  if (!message) return;
  openedPlace = "";
  focusItem(message);
});

let remarkTimer = 0;

/** Say for some seconds why a key leads nowhere. */
function showKeyRemark(words) {
  const remark = document.querySelector(".key-remark");
  const text = document.createElement("span");
  text.textContent = words;
  remark.replaceChildren(text);
  clearTimeout(remarkTimer);
  remarkTimer = setTimeout(() => remark.replaceChildren(), REMARK_TIME);
}

function describeMissingResult() {
  if (document.querySelector(".search-status [aria-disabled]")) return gettext("There is no further result of the search.");
  return gettext("Nothing is searched for. Press / to search this transcript.");
}

if (document.querySelector(".transcript")) {
  actions.j = () => moveToMessage(1);
  actions.k = () => moveToMessage(-1);
  // A key whose link is on the page follows it.
  actions.G = scrollToNewestMessage; // a short transcript has no outline
  actions.e = actions.E = () => showKeyRemark(gettext("There is no error in this transcript."));
  actions.d = actions.D = () => showKeyRemark(gettext("There is no decision in this session."));
  actions.n = actions.N = () => showKeyRemark(describeMissingResult());
}

// The kinds of content that the reader hides are stored in a cookie, for all transcripts.
const transcript = document.querySelector(".transcript");

/** Change what is displayed, and keep the first part of a message in view that is displayed before and after it in its place. */
function keepPlaceDuring(change) {
  const top = 8 + headHeight();
  const parts = [...transcript.querySelectorAll(".msg[id] > .parts > *")]
    .map((element) => ({ element, box: element.getBoundingClientRect() }))
    .filter(({ box }) => box.height && box.bottom > top);
  change();
  const anchor = parts.find(({ element }) => element.getBoundingClientRect().height);
  if (!anchor || !window.scrollY) return;
  const place = anchor === parts[0] ? anchor.box.top : Math.max(top, parts[0].box.top);
  const hold = () => {
    const box = anchor.element.getBoundingClientRect();
    const shift = box.top - (box.height + place > top ? place : top);
    if (Math.abs(shift) >= 1) window.scrollBy({ top: shift, behavior: "instant" });
  };
  hold();
  // Messages that come into view get their final height only then.
  requestAnimationFrame(() => requestAnimationFrame(hold));
}

// The parts of a message of each kind. Those of the message that the address names are shown in any case.
const PARTS_OF_KIND = {
  prose: ":scope > .parts > :not(.call, .reasoning)",
  tools: ":scope > .parts > .call",
  reasoning: ":scope > .parts > .reasoning",
  results: ".call :is(.res, .answer, .answered, .output, .read, .returned)",
};

/** Say in the message that the address names which of its parts are shown although their kind is switched off. */
function explainShownParts() {
  document.querySelector(".shown-anyway")?.remove();
  const target = transcript?.querySelector(":target");
  const message = target?.closest(".msg");
  if (!message) return;
  const off = [...document.querySelectorAll("button[data-reading][aria-pressed=false]")].filter(({ dataset }) => {
    return PARTS_OF_KIND[dataset.reading] && message.querySelector(PARTS_OF_KIND[dataset.reading]);
  });
  if (!off.length) return;
  const remark = document.createElement("p");
  remark.className = "shown-anyway small muted";
  remark.textContent = gettext("The link leads to this message, so all of it is shown. Switched off elsewhere: %(kinds)s.", {
    kinds: off.map((button) => button.textContent).join(", "),
  });
  if (target === message) message.querySelector(".parts").prepend(remark);
  else if (target.matches(".call")) target.prepend(remark);
  else target.after(remark); // where the result of a call begins
}

for (const name of ["pageshow", "hashchange"]) window.addEventListener(name, explainShownParts);
document.body.addEventListener("htmx:afterSettle", explainShownParts);

document.addEventListener("click", (event) => {
  const toggle = event.target.closest?.("button[data-reading]");
  if (!toggle || !transcript) return;
  const shown = toggle.getAttribute("aria-pressed") !== "true";
  toggle.setAttribute("aria-pressed", shown);
  const hidden = [...document.querySelectorAll("button[data-reading][aria-pressed=false]")].map((each) => each.dataset.reading);
  keepPlaceDuring(() => {
    transcript.dataset.hide = hidden.join(" ");
    explainShownParts();
  });
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `harness_reading=${hidden.join(".")}; path=/; max-age=31536000; samesite=lax${secure}`;
});

// The outline marks the prompt of the visible part. A link to a message on this page causes no request.
const outline = document.getElementById("outline");

/** Return the message that the reader has reached: at the end of the page the last one, which may be too short to get to the top. */
function reachedMessage() {
  const bottom = document.documentElement.scrollHeight - window.innerHeight;
  const isAtEnd = hasReaderScrolled && window.scrollY > 0 && window.scrollY >= bottom - 2;
  return isAtEnd ? [...document.querySelectorAll(".transcript .msg[id]")].at(-1) : messageAtTop();
}

function markOutlineEntry() {
  if (!outline) return;
  const message = reachedMessage();
  const here = message ? Number(message.id.slice(2)) : -1;
  const links = [...outline.querySelectorAll("a[data-place]")];
  const current = links.findLast((link) => Number(link.dataset.place) <= here);
  if (current?.hasAttribute("aria-current")) return;
  for (const link of links) {
    if (link === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (current) scrollOutlineTo(current);
}

/** Scroll the outline, and not the page, so that an entry is in its middle, unless it is in view. */
function scrollOutlineTo(link) {
  const list = [outline, link.closest("ol")].find((element) => element.scrollHeight > element.clientHeight + 1);
  if (!list) return;
  const [entry, view] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
  const covered = outline.querySelector("[data-key]")?.offsetHeight ?? 0; // by the link that stays at the lower edge
  if (entry.top >= view.top && entry.bottom <= view.bottom - covered) return;
  list.scrollTop += (entry.top + entry.bottom - view.top - view.bottom) / 2;
}

outline?.addEventListener("click", (event) => {
  const place = event.target.closest("a[data-place]")?.hash;
  if (!place || !document.querySelector(place) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  hasReaderScrolled = false;
  location.hash = place;
  scrollToHash();
});

// While the toolbar is stuck to the top, it shows the title of the session.
const toolbar = document.querySelector(".toolbar");

/** Store the heights of the toolbar and of the line below it, for the offset of jumps. */
function updateToolbarHeight() {
  if (!toolbar) return;
  const sticky = getComputedStyle(toolbar).position === "sticky";
  const room = sticky ? toolbar.offsetHeight + parseFloat(getComputedStyle(toolbar).top) : 0;
  document.documentElement.style.setProperty("--head-height", `${room}px`);
  const lines = [...document.querySelectorAll(".search-status")].map((line) => line.offsetHeight);
  document.documentElement.style.setProperty("--status-height", `${Math.max(0, ...lines)}px`);
  toolbar.classList.toggle("is-sticky", sticky && toolbar.getBoundingClientRect().top <= parseFloat(getComputedStyle(toolbar).top));
}

document.addEventListener("scroll", updateToolbarHeight, { passive: true });
window.addEventListener("resize", updateToolbarHeight);
updateToolbarHeight();
markOutlineEntry();

// A reader at the end stays there when messages arrive. Else those below the view are counted, with a link to them.
const newer = document.querySelector(".new-messages");
const newestMessages = () => [...document.querySelectorAll("#newest .msg[id]")];
const position = (message) => Number(message.id.slice(2));
const newestPosition = () => position(newestMessages().at(-1) ?? { id: "m--1" });
let lastReadPosition = newer && newestPosition();

/** Return whether a message is read as far as the view shows: its end is in view, or it fills the view. */
function isReadInView(message) {
  const box = message.getBoundingClientRect();
  return box.bottom <= window.innerHeight || box.top <= headHeight() + 16;
}

/** Return the place of the newest message before an update; null if the reader is not at the end, or is opening a message. */
function followedMessage() {
  if (!isReaderAtEnd() || document.querySelector("#newest .htmx-request")) return null;
  const newest = newestMessages().findLast((message) => message.offsetHeight);
  return { position: newest ? position(newest) : -1, height: newest?.offsetHeight ?? 0 };
}

/** Follow the conversation if the reader was at its end, but not past the beginning of what is new: a message, or more of the newest one. */
function followNewMessages() {
  const place = followed;
  followed = null;
  if (!place || scrollTarget === endOfPage) return; // a scroll to the end goes on to the end of what is new
  const { position: before, height } = place;
  const messages = newestMessages().filter((message) => position(message) >= before && message.offsetHeight);
  const first = messages.find((message) => position(message) > before) ?? messages[0];
  if (!first || (position(first) === before && first.offsetHeight <= height)) return; // nothing is new
  const read = position(first) > before ? 0 : height;
  scrollDownTo(() => Math.min(endOfPage(), window.scrollY + first.getBoundingClientRect().top + read - headHeight() - 8));
}

/** Return whether the reader is at the end, and neither away from this tab nor about to copy a text. */
function isReaderAtEnd() {
  const end = document.getElementById("end");
  return Boolean(end) && isNearView(end) && !document.hidden && window.getSelection().isCollapsed;
}

function updateNewMessageLink() {
  const fresh = newestMessages().filter((message) => position(message) > lastReadPosition);
  const read = fresh.findLastIndex(isReadInView);
  if (read >= 0) lastReadPosition = position(fresh[read]);
  const unread = fresh.length - read - 1;
  newer.hidden = !unread;
  if (!unread) return;
  newer.firstChild.textContent = ngettext("%(count)s new message", "%(count)s new messages", unread);
  newer.firstChild.hash = document.getElementById("end") ? "end" : fresh.at(-1).id;
}

if (newer) {
  document.addEventListener("scroll", updateNewMessageLink, { passive: true });
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.requestConfig?.elt.id === "newest") followed = followedMessage();
  });
  document.body.addEventListener("htmx:afterSettle", () => {
    followNewMessages();
    updateNewMessageLink();
  });
}

document.body.addEventListener("htmx:beforeSwap", (event) => {
  const earlier = event.detail.requestConfig?.elt;
  if (!earlier?.matches?.("a[data-earlier]")) return;
  const first = earlier.closest(".window").querySelector(".msg");
  scrollAnchor = first && { element: first, top: first.getBoundingClientRect().top };
  wasLinkFocused = document.activeElement === earlier;
});

document.body.addEventListener("htmx:afterSettle", () => {
  markOutlineEntry();
  if (!scrollAnchor) return;
  const shift = scrollAnchor.element.getBoundingClientRect().top - scrollAnchor.top;
  scrollAnchor = null;
  if (shift) window.scrollBy({ top: shift, behavior: "instant" });
  lastScrollY = window.scrollY;
  if (wasLinkFocused) earlierLink()?.focus({ preventScroll: true });
});
