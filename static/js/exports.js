// Exports show their progress and can be stopped. Without this script they are plain downloads.

import { gettext } from "./translations.js";

const MARKS = { record: "\n", message: "<article " };
const ENDING_BYTES = 200; // enough bytes for every completion marker
const REVOKE_DELAY = 60000; // milliseconds after which the browser has written the file

const box = document.getElementById("exporting")?.content.firstElementChild;
let activeExports = 0;

function formatSize(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Return a function that counts the occurrences of `mark` in successive pieces, also across two of them. */
function createCounter(mark) {
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

/** Read the expected number of units from a header such as `Harness-Total: message 120`. */
function expectedTotal(headers) {
  const [unit, total] = (headers.get("Harness-Total") ?? "").split(" ");
  return MARKS[unit] && Number(total) ? { unit, total: Number(total), count: createCounter(MARKS[unit]) } : null;
}

function fileName(headers) {
  const found = /filename="?([^";]+)/.exec(headers.get("Content-Disposition") ?? "");
  return found?.[1];
}

/** Return whether the export ends with the text of `Harness-Ending`; session files have no such header. */
function isComplete(headers, last) {
  const ending = headers.get("Harness-Ending");
  return !ending || new TextDecoder().decode(last).trimEnd().endsWith(ending);
}

async function readResponse(response, onProgress) {
  const coming = expectedTotal(response.headers);
  const reader = response.body.getReader();
  const pieces = [];
  let bytes = 0;
  let last = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { pieces, bytes, whole: isComplete(response.headers, last) };
    pieces.push(value);
    last = new Uint8Array([...last, ...value.slice(-ENDING_BYTES)]).slice(-ENDING_BYTES);
    bytes += value.length;
    const count = coming && Math.min(coming.count(value), coming.total);
    onProgress(bytes, coming && { ...coming, count });
  }
}

function save(pieces, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(pieces, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_DELAY);
}

function openProgressBox(stop) {
  const progressBox = box.cloneNode(true);
  const [status, bar, button] = ["[role=status]", "progress", "button"].map((part) => progressBox.querySelector(part));
  let updatedAt = 0;
  button.addEventListener("click", () => (bar.hidden ? progressBox.remove() : stop()));
  document.body.append(progressBox);
  return {
    update(bytes, coming) {
      if (coming) bar.value = coming.count / coming.total;
      if (Date.now() - updatedAt < 500) return; // screen readers announce each update
      updatedAt = Date.now();
      status.textContent = progress(bytes, coming);
    },
    end(words) {
      bar.hidden = true;
      button.textContent = gettext("Close");
      status.textContent = words;
    },
  };
}

function progress(bytes, coming) {
  if (!coming) return gettext("Export: %(size)s", { size: formatSize(bytes) });
  const [count, total] = [coming.count, coming.total].map((number) => number.toLocaleString(document.documentElement.lang));
  return gettext("Export: %(count)s of %(total)s, %(size)s", { count, total, size: formatSize(bytes) });
}

async function exportFile(link) {
  const stopping = new AbortController();
  const progressBox = openProgressBox(() => stopping.abort());
  activeExports += 1;
  try {
    const response = await fetch(link.href, { signal: stopping.signal });
    const name = fileName(response.headers);
    if (!response.ok || !name) {
      activeExports -= 1;
      location.assign(link.href); // the refusal is a page
      return;
    }
    const { pieces, bytes, whole } = await readResponse(response, progressBox.update);
    if (!whole) throw new Error("incomplete");
    save(pieces, response.headers.get("Content-Type"), name);
    progressBox.end(gettext("%(name)s is saved, %(size)s.", { name, size: formatSize(bytes) }));
  } catch {
    progressBox.end(
      stopping.signal.aborted
        ? gettext("The export was stopped. Nothing was saved.")
        : gettext("The export broke off. Nothing was saved."),
    );
  }
  activeExports -= 1;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-export]");
  if (!link || !box || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  exportFile(link);
});
window.addEventListener("beforeunload", (event) => {
  if (activeExports) event.preventDefault();
});
