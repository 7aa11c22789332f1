// An export says how far it is, and can be stopped. Without this file it is a download like any other.

import { gettext } from "./words.js";

const MARKS = { record: "\n", message: "<article " };
const LAST = 200; // bytes that hold every ending
const KEPT_FOR = 60000; // until then a browser has written what was saved

const box = document.getElementById("exporting")?.content.firstElementChild;
let running = 0;

function size(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Counts how often `mark` comes, also where it lies across two pieces. */
function counter(mark) {
  const decoder = new TextDecoder();
  let rest = "";
  let found = 0;
  return (piece) => {
    const parts = (rest + decoder.decode(piece, { stream: true })).split(mark);
    found += parts.length - 1;
    rest = mark.length > 1 ? parts.at(-1).slice(1 - mark.length) : "";
    return found;
  };
}

/** `Harness-Total: message 120` says that so many of these are to come. */
function expected(headers) {
  const [unit, total] = (headers.get("Harness-Total") ?? "").split(" ");
  return MARKS[unit] && Number(total) ? { unit, total: Number(total), count: counter(MARKS[unit]) } : null;
}

function named(headers) {
  const found = /filename="?([^";]+)/.exec(headers.get("Content-Disposition") ?? "");
  return found?.[1];
}

/** `Harness-Ending` says how a complete export ends, before its last line break; a file of the library has none. */
function complete(headers, last) {
  const ending = headers.get("Harness-Ending");
  return !ending || new TextDecoder().decode(last).trimEnd().endsWith(ending);
}

async function read(response, say) {
  const coming = expected(response.headers);
  const reader = response.body.getReader();
  const pieces = [];
  let bytes = 0;
  let last = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { pieces, bytes, whole: complete(response.headers, last) };
    pieces.push(value);
    last = new Uint8Array([...last, ...value.slice(-LAST)]).slice(-LAST);
    bytes += value.length;
    const count = coming && Math.min(coming.count(value), coming.total);
    say(bytes, coming && { ...coming, count });
  }
}

function save(pieces, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(pieces, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_FOR);
}

function opened(stop) {
  const shown = box.cloneNode(true);
  const [standing, bar, button] = ["[role=status]", "progress", "button"].map((part) => shown.querySelector(part));
  let said = 0;
  button.addEventListener("click", () => (bar.hidden ? shown.remove() : stop()));
  document.body.append(shown);
  return {
    far(bytes, coming) {
      if (coming) bar.value = coming.count / coming.total;
      if (Date.now() - said < 500) return; // often enough for a listener
      said = Date.now();
      standing.textContent = progress(bytes, coming);
    },
    end(words) {
      bar.hidden = true;
      button.textContent = gettext("Close");
      standing.textContent = words;
    },
  };
}

function progress(bytes, coming) {
  if (!coming) return gettext("Export: %(size)s", { size: size(bytes) });
  const [count, total] = [coming.count, coming.total].map((number) => number.toLocaleString(document.documentElement.lang));
  return gettext("Export: %(count)s of %(total)s, %(size)s", { count, total, size: size(bytes) });
}

async function take(link) {
  const stopping = new AbortController();
  const shown = opened(() => stopping.abort());
  running += 1;
  try {
    const response = await fetch(link.href, { signal: stopping.signal });
    const name = named(response.headers);
    if (!response.ok || !name) {
      running -= 1;
      location.assign(link.href); // the refusal is a page
      return;
    }
    const { pieces, bytes, whole } = await read(response, shown.far);
    if (!whole) throw new Error("incomplete");
    save(pieces, response.headers.get("Content-Type"), name);
    shown.end(gettext("%(name)s is saved, %(size)s.", { name, size: size(bytes) }));
  } catch {
    shown.end(
      stopping.signal.aborted
        ? gettext("The export was stopped. Nothing was saved.")
        : gettext("The export broke off. Nothing was saved."),
    );
  }
  running -= 1;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-export]");
  if (!link || !box || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  take(link);
});
window.addEventListener("beforeunload", (event) => {
  if (running) event.preventDefault();
});
