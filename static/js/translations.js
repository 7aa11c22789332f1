// Translation of sentences in scripts. The site's catalogue `words.js`, which Django generates, is loaded before for every
// language but English.

/** Translate a sentence; `%(name)s` in it becomes `values.name`. */
export function gettext(sentence, values = {}) {
  return fill(window.django?.gettext(sentence) ?? sentence, values);
}

/** Translate a sentence with a singular and a plural form; `%(name)s` in it becomes `values.name`. */
export function ngettext(one, many, count, values = { count }) {
  return fill(window.django?.ngettext(one, many, count) ?? (count === 1 ? one : many), values);
}

function fill(sentence, values) {
  return sentence.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
}
