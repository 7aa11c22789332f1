// Buttons that copy: the text in `data-copy`, that of the element `data-copy-from` names, or what stands at `data-copy-url`.

import { gettext } from "./words.js";

async function fetched(address) {
  const response = await fetch(address, { headers: { Accept: "text/plain" } });
  if (!response.ok) throw new Error(response.statusText);
  return response.text();
}

function wanted(button) {
  if (button.dataset.copyUrl) return fetched(button.dataset.copyUrl);
  return Promise.resolve(button.dataset.copy ?? document.getElementById(button.dataset.copyFrom).textContent);
}

/** Browsers give the clipboard to pages that came over https alone; a selected text can be copied everywhere. */
function select(text, button) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  (button.closest("dialog") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  button.focus({ preventScroll: true });
  if (!done) throw new Error("refused");
}

/** The text is promised at once, since some browsers allow copying only in the very moment of the click. */
async function copy(text, button) {
  try {
    const blob = text.then((found) => new Blob([found], { type: "text/plain" }));
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } catch {
    select(await text, button);
  }
}

function say(words) {
  const announcement = document.getElementById("announcement");
  if (announcement) announcement.textContent = words;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from], [data-copy-url]");
  if (!button) return;
  say("");
  try {
    await copy(wanted(button), button);
  } catch {
    say(gettext("This could not be copied."));
    button.classList.add("failed");
    setTimeout(() => button.classList.remove("failed"), 1500);
    return;
  }
  button.classList.add("done");
  say(gettext("Copied."));
  setTimeout(() => button.classList.remove("done"), 1500);
});
