// How probable each class is, and "none of these": bars that add up to one, and move with every photo.

import { element, keyed, say } from "./dom.js";
import { currentPhoto } from "./state.js";
import { percent } from "./words.js";

const NONE = "none of these";

/**
 * The bars of an answer: classes by how probable they are, then "none of these". What the server says of classes
 * holds if the photo is of any of them, so it is multiplied by how probable that is.
 */
export function barsOf(answer) {
  const none = answer.none_of_these ?? 0;
  const found = Object.entries(answer.probabilities ?? {}).map(([label, share]) => ({
    key: `class ${label}`,
    label,
    share: share * (1 - none),
    best: label === answer.label && !answer.unknown,
  }));
  found.sort((a, b) => b.share - a.share);
  const shown = found.reduce((sum, { share }) => sum + share, 0);
  const rest = 1 - none - shown;
  if (rest > 0.005) found.push({ key: "rest", label: "all other classes", share: rest, best: false, other: true });
  if (answer.none_of_these !== null && answer.none_of_these !== undefined) {
    found.push({ key: "none", label: NONE, share: none, best: Boolean(answer.unknown), other: true });
  }
  return found;
}

/** Whether it is more probable that a photo is of no class than that it is of its most probable one. */
export function inDoubt({ confidence, none_of_these: none }) {
  return none > confidence * (1 - none);
}

export function drawBars(root, store) {
  const list = element("ul", { class: "bars", "aria-label": "How probable each class is" });
  root.append(list);
  store.drawn((state) => {
    const photo = currentPhoto(state);
    const answer = photo?.answer;
    // Until the answer is there, the bars of the photo before stay, so that they move and do not grow anew.
    list.hidden = !photo || Boolean(photo.problem) || !state.classes.length;
    list.classList.toggle("waiting", !answer);
    if (answer) keyed(list, barsOf(answer), ({ key }) => key, makeBar);
  });
}

function makeBar({ label, other }) {
  const fill = element("span", { class: "fill" });
  const number = element("span", { class: "number" });
  const node = element(
    "li",
    { class: other ? "other" : "" },
    element("span", { class: "name" }, label),
    number,
    element("span", { class: "track", "aria-hidden": "true" }, fill),
  );
  node.update = ({ share, best }) => {
    node.classList.toggle("best", best);
    say(number, percent(share));
    // In the next frame, so that a new bar grows too.
    requestAnimationFrame(() => (fill.style.transform = `scaleX(${share})`));
  };
  return node;
}
