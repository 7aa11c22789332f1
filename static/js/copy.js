// Buttons that copy: the text in `data-copy`, or that of the element `data-copy-from` names.

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from]");
  if (!button) return;
  const text = button.dataset.copy ?? document.getElementById(button.dataset.copyFrom).textContent;
  await navigator.clipboard.writeText(text);
  button.classList.add("done");
  const announcement = document.getElementById("announcement");
  if (announcement) announcement.textContent = "Copied.";
  setTimeout(() => button.classList.remove("done"), 1500);
});
