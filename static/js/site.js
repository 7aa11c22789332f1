// Everything here makes pages quicker to use. Without it they are links and forms, and complete.

import "./morph.js";
import "./live.js";
import "./waiting.js";
import "./times.js";
import "./copy.js";
import "./keys.js";
import "./decide.js";
import "./typed.js";
import "./notify.js";

document.documentElement.classList.add("js");
