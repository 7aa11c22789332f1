// A field for several names, separated by commas, offers the names of its list after each comma: a browser compares the
// whole text of the field with each option.

const FIELDS = "input[data-several-names][list]";

function offerNamesAfterComma({ target: field }) {
  if (!field.matches?.(FIELDS) || !field.list) return;
  const before = field.value.slice(0, field.value.lastIndexOf(",") + 1);
  const chosen = new Set(before.split(",").map((name) => name.trim()));
  for (const option of field.list.options) {
    option.dataset.name ??= option.value;
    option.value = before ? `${before} ${option.dataset.name}` : option.dataset.name;
    option.disabled = chosen.has(option.dataset.name);
  }
}

document.addEventListener("focusin", offerNamesAfterComma);
document.addEventListener("input", offerNamesAfterComma);
