// How good the model is: the accuracy to expect, classes that need more, and who is taken for whom.

import { drawConfusion } from "./confusion.js";
import { button, element, say, whileBusy } from "./dom.js";
import { counted, listed, percent } from "./words.js";

const UNTOLD = "The accuracy to expect cannot be told: this server does not have the features of these photos.";
const STALE = " This is from before the last change: it is being judged again.";
const NAMED = 6; // classes that are listed by name

export function drawCheck(root, store, asker, learner) {
  const number = element("span", {});
  const interval = element("span", { class: "interval" });
  const headline = element("p", { class: "expected" }, number, " ", interval);
  const range = element("span", { class: "span" });
  const mean = element("span", { class: "point" });
  const scale = element("div", { class: "scale", "aria-hidden": "true" }, range, mean);
  const text = element("p", {});
  const more = element("p", {});
  const link = document.querySelector('a[href="#check"]');
  const audit = button("", () => whileBusy(audit, "Judging …", () => asker.audit()).then(name));
  const name = () => {
    if (audit.ariaDisabled !== "true") say(audit, store.state.audit ? "Judge again" : "Show who is taken for whom");
  };
  name();
  const stale = element("p", { class: "quiet" }, "The model has changed since this table was made.");
  root.append(headline, scale, text, more, element("div", { class: "row" }, audit), stale);
  drawConfusion(root, store, learner);
  store.drawn((state) => {
    const { expected } = state;
    scale.hidden = headline.hidden = !expected;
    if (expected) {
      say(number, percent(expected.accuracy));
      say(interval, `${percent(expected.low)} to ${percent(expected.high)}`);
      Object.assign(range.style, { left: `${100 * expected.low}%`, width: `${100 * (expected.high - expected.low)}%` });
      mean.style.left = `${100 * expected.accuracy}%`;
    }
    say(text, textOf(state));
    say(more, needing(state.classes));
    more.hidden = !more.textContent;
    root.parentElement.hidden = link.hidden = !state.classes.length;
    audit.parentElement.hidden = state.classes.length < 2;
    stale.hidden = !state.audit || state.audit.version === state.version;
  });
}

function textOf({ expected, classes, judged, version }) {
  if (!expected) {
    if (judged === version && classes.length > 1 && classes.every(({ count }) => count > 1)) return UNTOLD;
    return (
      "When there are two classes with a few photos each, every photo is judged by all the others, and the accuracy " +
      "to expect is shown here."
    );
  }
  return (
    "of photos like yours should be told right; the range is where it probably is. Each of " +
    `${counted(expected.tested, "photo")} was judged by all the others. ` +
    "This is on your photos, not on new ones: photos from another place or camera may do worse." +
    (judged === version ? "" : STALE)
  );
}

function needing(classes) {
  const labels = classes.filter((each) => each.needs_more).map(({ label }) => label);
  if (!labels.length) return "";
  const others = labels.length - NAMED;
  const names = others > 0 ? [...labels.slice(0, NAMED), counted(others, "other")] : labels;
  return `More photos would help ${listed(names)} most.`;
}
