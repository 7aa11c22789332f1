// Leave empty fields of a filter form out of the address that it leads to.

document.addEventListener("formdata", ({ target, formData }) => {
  if (!target.matches("form[role='search']")) return;
  for (const [name, value] of [...formData]) {
    if (value === "") formData.delete(name);
  }
  // The time zone is that of the days.
  if (!formData.has("first") && !formData.has("last")) formData.delete("zone");
});
