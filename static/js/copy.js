// Copy buttons: the text is in `data-copy`, in the element that `data-copy-from` names, or at the URL `data-copy-url`.

import { announce } from "./announce.js";
import { gettext } from "./translations.js";

async function fetchText(address) {
  const response = await fetch(address, { headers: { Accept: "text/plain" }, redirect: "error" }); // as to the sign-in page
  if (!response.ok) throw new Error(response.statusText);
  return response.text();
}

function textToCopy(button) {
  if (button.dataset.copyUrl) return fetchText(button.dataset.copyUrl);
  if (button.dataset.copy !== undefined) return Promise.resolve(button.dataset.copy);
  const source = document.getElementById(button.dataset.copyFrom);
  return Promise.resolve(source.matches("textarea") ? source.value : source.textContent);
}

/** Copy by selecting the text, because browsers offer the clipboard interface only to pages served over HTTPS. */
function copyBySelection(text, button) {
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

/** Copy a promised text; the promise is passed at once because some browsers allow copying only during the click. */
async function copyText(text, button) {
  try {
    const blob = text.then((found) => new Blob([found], { type: "text/plain" }));
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } catch {
    copyBySelection(await text, button);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from], [data-copy-url]");
  if (!button) return;
  try {
    await copyText(textToCopy(button), button);
  } catch {
    announce(gettext("This could not be copied."));
    button.classList.add("failed");
    setTimeout(() => button.classList.remove("failed"), 1500);
    return;
  }
  button.classList.add("done");
  announce(gettext("Copied."));
  setTimeout(() => button.classList.remove("done"), 1500);
});
