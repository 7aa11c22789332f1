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
import "./decisions/keyboard.js";
import "./decisions/reasons.js";
import "./decisions/handover.js";
import "./decisions/link_to_form.js";
import "./decisions/live_card.js";
import "./decisions/presence.js";
import "./decisions/live_outage.js";
import "./decisions/mentions.js";
import "./decisions/decide.js";
import "./decisions/draft.js";
import "./desktop_notifications.js";
import "./sticky_column.js";
import "./deadlines.js";
import "./chart_tips.js";
import "./filters.js";
import "./several_names.js";
import "./breadcrumb_filters.js";
import "./next_page_fragment.js";
import "./folds_on_paper.js";

document.documentElement.classList.add("js");

/** Scroll the current tab to the middle on narrow screens. */
function scrollToCurrentTab() {
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
    const [box, strip] = [tab, tab.parentElement].map((element) => element.getBoundingClientRect());
    tab.parentElement.scrollLeft += box.left + box.width / 2 - (strip.left + strip.width / 2);
  }
}

scrollToCurrentTab();
addEventListener("resize", scrollToCurrentTab);
