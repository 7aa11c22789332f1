// What is half typed into the decision form outlives a reload, a lost connection and a look at another page. It stays in
// this tab, and goes when it was recorded or somebody has signed out.

const PREFIX = "typed:";
const KEPT = "textarea, select, input[type='text'], input:not([type]), input[type='radio']";

const form = () => document.querySelector("form[data-decide]");
const place = () => `${PREFIX}${window.location.pathname}`;
const standing = () => document.querySelector("[data-state]")?.dataset.state;

// Arguments are those of one revision; everything else is as true of the next one.
const bound = (name) => name === "args" || name === "written_as" || name.startsWith("argument-");

function keep() {
  const values = {};
  for (const field of form().querySelectorAll(KEPT)) {
    if (field.type === "radio" ? field.checked : field.value !== begun(field)) values[field.name] = field.value;
  }
  window.sessionStorage.setItem(place(), JSON.stringify({ revision: form().elements.revision.value, values }));
}

// What a field held when the page was made.
function begun(field) {
  if (field.tagName !== "SELECT") return field.defaultValue;
  return (field.querySelector("option[selected]") ?? field.options[0]).value;
}

function restore() {
  const stored = window.sessionStorage.getItem(place());
  if (!stored) return;
  const { revision, values } = JSON.parse(stored);
  const same = form().elements.revision.value === revision;
  for (const [name, value] of Object.entries(values)) {
    if (bound(name) && !same) continue;
    for (const field of form().querySelectorAll(`[name="${CSS.escape(name)}"]`)) {
      if (field.type !== "radio") field.value = value;
      else if (field.value === value && !field.disabled) field.checked = true;
    }
  }
  form().querySelector("input[name='kind']:checked")?.dispatchEvent(new Event("change", { bubbles: true }));
}

function forget() {
  const keys = Object.keys(window.sessionStorage).filter((key) => key.startsWith(PREFIX));
  for (const key of keys) window.sessionStorage.removeItem(key);
}

for (const name of ["input", "change"]) {
  document.addEventListener(name, (event) => {
    if (event.target.closest?.("form[data-decide]")) keep();
  });
}

// The answer to what was sent: a form that holds it has to be sent again; otherwise it was recorded, or stands beside
// what others decided.
document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id !== "main" || !standing()) return;
  if (!form()?.hasAttribute("data-sent")) window.sessionStorage.removeItem(place());
});

if (!document.getElementById("live")) forget();
else if (!form()) window.sessionStorage.removeItem(place());
else if (!new URLSearchParams(window.location.search).has("answer")) restore();
