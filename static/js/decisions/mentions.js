// Names of members below the text of a comment or of a note of a hand-over: a click mentions one. While a mention is typed,
// those that begin like it are offered.

const MENTIONING_TEXTS = ":is([data-comment], [data-hand-over]) textarea";
const MOST = 8; // names that are offered before a mention is begun
const SIGN = "[\\p{L}\\p{N}_@.+-]"; // of a name
const BEGUN = new RegExp(`(?<!${SIGN})@${SIGN}*$`, "u");

/** Return the mention that the reader is typing, from its `@`; undefined without one. */
const findBegunMention = (text) => text.value.slice(0, text.selectionStart).match(BEGUN)?.[0];

function offerNames(text) {
  const begun = findBegunMention(text)?.toLowerCase();
  for (const [index, name] of [...text.form.querySelectorAll("[data-mentions] button")].entries()) {
    name.hidden = begun === undefined ? index >= MOST : !name.textContent.toLowerCase().startsWith(begun);
  }
}

document.addEventListener("input", ({ target }) => {
  if (target.matches?.(MENTIONING_TEXTS)) offerNames(target);
});

// A live update shows all names again.
document.body.addEventListener("htmx:afterSettle", () => document.querySelectorAll(MENTIONING_TEXTS).forEach(offerNames));

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
