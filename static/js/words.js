// Sentences that scripts show, in the language of the page: `words.js` of the site, which Django makes from the
// catalogue, is loaded before for every language but English.

/** Translates a sentence; `%(name)s` in it becomes `values.name`. */
export function gettext(sentence, values = {}) {
  return fill(window.django?.gettext(sentence) ?? sentence, values);
}

/** Translates a sentence that differs for one and for many; `%(name)s` in it becomes `values.name`. */
export function ngettext(one, many, count, values = { count }) {
  return fill(window.django?.ngettext(one, many, count) ?? (count === 1 ? one : many), values);
}

function fill(sentence, values) {
  return sentence.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
}
