// The decision form: the keys 1 to 4 choose an answer, the button names the decision, Ctrl+Enter records it.

const form = () => document.querySelector("form[data-decide]");

function labelButton(form) {
  const chosen = form.querySelector("input[name='kind']:checked");
  const button = form.querySelector("button[type='submit']");
  if (chosen && button) button.textContent = chosen.dataset.button;
}

document.addEventListener("change", (event) => {
  const decide = event.target.closest?.("form[data-decide]");
  if (decide) labelButton(decide);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches?.("main form *")) {
    event.preventDefault();
    event.target.form?.requestSubmit();
    return;
  }
  const decide = form();
  if (!decide || event.altKey) return;
  if (event.ctrlKey || event.metaKey || event.target.closest?.("input:not([type='radio']), textarea, select, dialog")) return;
  const option = decide.querySelectorAll("input[name='kind']")[Number(event.key) - 1];
  if (!option || option.disabled) return;
  option.click();
  option.focus();
});

/** Focus the first invalid field, and scroll it into view. */
function focusInvalid(form) {
  const invalid = form.dataset.invalid;
  if (!invalid) return;
  const fields = form.querySelectorAll(`[name="${CSS.escape(invalid)}"], .arguments [name^="argument-"]`);
  const field = [...fields].find((each) => each.name === invalid && each.checkVisibility()) ?? [...fields].find((each) => each.checkVisibility());
  if (!field) return;
  field.focus({ preventScroll: true });
  (field.closest("fieldset, .field") ?? field).scrollIntoView({ block: "nearest" });
}

document.body.addEventListener("htmx:afterSettle", ({ target }) => {
  const decide = form();
  if (!decide) return;
  labelButton(decide);
  if (target.id === "main") focusInvalid(decide);
});
if (form()) {
  labelButton(form());
  focusInvalid(form());
}
