// What changes without the focus is said to screen readers in one place of the page.

/** Have screen readers say these words, also if they are the same as before. */
export function announce(words) {
  const announcement = document.getElementById("announcement");
  if (!announcement) return;
  announcement.textContent = "";
  setTimeout(() => {
    announcement.textContent = words;
  }, 50);
}
