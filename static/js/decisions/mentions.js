// Names of members below the text of a comment or of a note of a hand-over: a click mentions one. While a mention is typed,
// those that begin like it are offered, and Enter or Tab mentions the first of them, which is marked.

const MENTIONING_TEXTS = ":is([data-comment], [data-hand-over]) textarea";
const MOST = 8; // names that are offered before a mention is begun
const SIGN = "[\\p{L}\\p{N}_@.+-]"; // of a name
const BEGUN = new RegExp(`(?<!${SIGN})@${SIGN}*$`, "u");

/** Return the mention that the reader is typing, from its `@`; undefined without one. */
const findBegunMention = (text) => text.value.slice(0, text.selectionStart).match(BEGUN)?.[0];

function offerNames(text) {
  const begun = findBegunMention(text)?.toLowerCase();
  const names = [...text.form.querySelectorAll("[data-mentions] button")];
  for (const [index, name] of names.entries()) {
    name.hidden = begun === undefined ? index >= MOST : !name.textContent.toLowerCase().startsWith(begun);
  }
  // An `@` alone, or a whole name, leaves the keys as they are.
  const offered = begun?.length > 1 && !names.some((name) => name.textContent.toLowerCase() === begun);
  const first = names.find((name) => offered && !name.hidden);
  for (const name of names) name.classList.toggle("marked", name === first);
}

document.addEventListener("keydown", (event) => {
  const isChoice = (event.key === "Enter" || event.key === "Tab") && !event.isComposing;
  if (!isChoice || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || !event.target.matches?.(MENTIONING_TEXTS)) return;
  const name = event.target.form.querySelector("[data-mentions] .marked");
  if (!name) return;
  event.preventDefault();
  name.click();
});

document.addEventListener("input", ({ target }) => {
  if (target.matches?.(MENTIONING_TEXTS)) offerNames(target);
});

// A live update shows all names again. They are hidden before the browser draws them.
document.body.addEventListener("htmx:afterSwap", () => document.querySelectorAll(MENTIONING_TEXTS).forEach(offerNames));

document.addEventListener("click", (event) => {
  const name = event.target.closest?.("[data-mentions] button");
  if (!name) return;
  const text = name.form.querySelector("textarea");
  const begun = findBegunMention(text) ?? "";
  const start = text.selectionStart - begun.length;
  const space = begun || /(^|\s)$/.test(text.value.slice(0, start)) ? "" : " ";
  text.setRangeText(`${space}${name.textContent} `, start, text.selectionEnd, "end");
  text.dispatchEvent(new Event("input", { bubbles: true }));
  text.focus();
});
