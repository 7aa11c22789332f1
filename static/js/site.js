// Everything here makes pages quicker to use. Without it they are links and forms, and complete.

import "./morph.js";
import "./live.js";
import "./waiting.js";
import "./times.js";
import "./zone.js";
import "./copy.js";
import "./exports.js";
import "./keys.js";
import "./decide.js";
import "./typed.js";
import "./notify.js";
import "./stick.js";
import "./deadlines.js";

document.documentElement.classList.add("js");

// On a narrow screen, or one that was turned, the tab of this page may lie beyond the edge.
function bringTabIntoSight() {
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
    const beyond = tab.getBoundingClientRect().right - tab.parentElement.getBoundingClientRect().right;
    if (beyond > 0) tab.parentElement.scrollLeft += beyond;
  }
}

bringTabIntoSight();
addEventListener("resize", bringTabIntoSight);
