// Filter forms and selections of lists.

// Leave empty fields of a filter form out of the address that it leads to.

document.addEventListener("formdata", ({ target, formData }) => {
  if (!target.matches("form[role='search']")) return;
  for (const [name, value] of [...formData]) {
    if (value === "") formData.delete(name);
  }
  // The time zone is that of the days.
  if (!formData.has("first") && !formData.has("last")) formData.delete("zone");
});

// Apply an order at once, and select all rows of a table with the box in its head.
document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-applies-at-once]")) target.form.requestSubmit();
  const table = target.closest(".list:has([data-picks-all])");
  if (!table || !target.closest(".pick")) return;
  const all = table.querySelector("[data-picks-all]");
  const boxes = [...table.querySelectorAll(".pick [name]")];
  if (target === all) for (const box of boxes) box.checked = all.checked;
  const picked = boxes.filter((box) => box.checked).length;
  all.checked = picked === boxes.length;
  all.indeterminate = picked > 0 && picked < boxes.length;
});

/** Offer the comparison of two selected sessions: the one further down is the first, as lists begin with the newest. */
function offerComparison() {
  const link = document.querySelector("a[data-compare]");
  if (!link) return;
  const picked = [...document.querySelectorAll(".pick [name]:checked")].map((box) => box.value);
  link.hidden = picked.length !== 2;
  document.querySelector('[data-compare-hint="one"]').hidden = picked.length !== 1;
  document.querySelector('[data-compare-hint="several"]').hidden = picked.length < 3;
  if (!link.hidden) link.href = `${link.dataset.compare}${picked[1]}/compare/?with=${picked[0]}`;
}

document.addEventListener("change", offerComparison);
document.addEventListener("htmx:afterSettle", offerComparison); // a live update renders the link as it is without a selection
window.addEventListener("pageshow", offerComparison); // Back may return to a selection
