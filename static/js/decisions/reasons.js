// A reason that was typed or given before gets to the field that asks for one.

/** Move a typed reason to where the chosen answer asks for it. The agent gets that of a rejection, unless it is private. */
export function moveReason(form) {
  const { message, reason } = form.elements;
  const kind = form.querySelector("input[name='kind']:checked")?.value;
  if (!message || !kind || form.querySelector(".private-reason input")?.checked || kind === "respond" || kind.startsWith("option-")) return;
  const [from, to] = kind === "reject" ? [reason, message] : [message, reason];
  if (!from.value || to.value) return;
  [to.value, from.value] = [from.value, ""];
  for (const field of [to, from]) field.dispatchEvent(new Event("input", { bubbles: true }));
}

// A reason that the reader has given before takes the place of an empty text.
document.addEventListener("click", (event) => {
  const earlier = event.target.closest?.("button[data-fill]");
  if (!earlier) return;
  const field = document.getElementById(earlier.dataset.fill);
  field.value = earlier.textContent;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});
