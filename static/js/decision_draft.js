// Unfinished input of the decision form is kept in the tab over reloads, lost connections and other pages, until it is
// recorded or the reader signs out.

const PREFIX = "decision-draft:";
const SAVED_FIELDS = "textarea, select, input[type='text'], input:not([type]), input[type='radio']";

const form = () => document.querySelector("form[data-decide]");
const storageKey = () => `${PREFIX}${window.location.pathname}`;
const callStatus = () => document.querySelector("[data-state]")?.dataset.state;

/** Return whether a field is valid for one revision only, as arguments are. */
const isBoundToRevision = (name) => name === "args" || name === "written_as" || name.startsWith("argument-");

function saveDraft() {
  const values = {};
  for (const field of form().querySelectorAll(SAVED_FIELDS)) {
    if (field.type === "radio" ? field.checked : field.value !== initialValue(field)) values[field.name] = field.value;
  }
  window.sessionStorage.setItem(storageKey(), JSON.stringify({ revision: form().elements.revision.value, values }));
}

/** Return the value of a field when the page was rendered. */
function initialValue(field) {
  if (field.tagName !== "SELECT") return field.defaultValue;
  return (field.querySelector("option[selected]") ?? field.options[0]).value;
}

function restoreDraft() {
  const stored = window.sessionStorage.getItem(storageKey());
  if (!stored) return;
  const { revision, values } = JSON.parse(stored);
  const same = form().elements.revision.value === revision;
  for (const [name, value] of Object.entries(values)) {
    if (isBoundToRevision(name) && !same) continue;
    for (const field of form().querySelectorAll(`[name="${CSS.escape(name)}"]`)) {
      if (field.type !== "radio") field.value = value;
      else if (field.value === value && !field.disabled) field.checked = true;
    }
  }
  form().querySelector("input[name='kind']:checked")?.dispatchEvent(new Event("change", { bubbles: true }));
}

function deleteDrafts() {
  const keys = Object.keys(window.sessionStorage).filter((key) => key.startsWith(PREFIX));
  for (const key of keys) window.sessionStorage.removeItem(key);
}

for (const name of ["input", "change"]) {
  document.addEventListener(name, (event) => {
    if (event.target.closest?.("form[data-decide]")) saveDraft();
  });
}

// After a submission, a form that still contains the input has to be sent again; otherwise the input was recorded, or is
// shown beside the decision of somebody else.
document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id !== "main" || !callStatus()) return;
  if (!form()?.hasAttribute("data-sent")) window.sessionStorage.removeItem(storageKey());
});

if (!document.getElementById("live")) deleteDrafts();
else if (!form()) window.sessionStorage.removeItem(storageKey());
else if (!new URLSearchParams(window.location.search).has("answer")) restoreDraft();
