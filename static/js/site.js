// Scripts that make pages quicker to use. Without them, pages are complete with links and forms.

import "./morph.js";
import "./live.js";
import "./pressed_controls.js";
import "./pending_count.js";
import "./relative_times.js";
import "./time_zone.js";
import "./copy.js";
import "./exports.js";
import "./keys.js";
import "./decide.js";
import "./decision_draft.js";
import "./desktop_notifications.js";
import "./sticky_column.js";
import "./deadlines.js";
import "./chart_tips.js";
import "./filters.js";

document.documentElement.classList.add("js");

/** Scroll the current tab into view on narrow screens. */
function scrollToCurrentTab() {
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
    const beyond = tab.getBoundingClientRect().right - tab.parentElement.getBoundingClientRect().right;
    if (beyond > 0) tab.parentElement.scrollLeft += beyond;
  }
}

scrollToCurrentTab();
addEventListener("resize", scrollToCurrentTab);
