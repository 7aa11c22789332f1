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
