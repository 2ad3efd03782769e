// Asking: a photo, what the model says of it, and what it really is.

import { adders } from "./adders.js";
import { unlabelled } from "./asker.js";
import { barsOf, drawBars, inDoubt } from "./bars.js";
import { button, element, keyed, say, step, whileBusy } from "./dom.js";
import { canDrop, takesDrops } from "./files.js";
import { drawReasons } from "./reasons.js";
import { currentPhoto, total } from "./state.js";
import { opened } from "./tile.js";
import { drawTruth } from "./truth.js";
import { counted, listed, percent } from "./words.js";

const COMPARABLE = 3; // photos without a label, from which on it makes sense to ask which to label next
const ENOUGH = 10; // photos, before which "none of these" is hardly calibrated
const DOUBT = "Of the classes, this is the most probable one, but it may well be none of them.";

/** All of the part "Ask". */
export function drawAsk(root, store, asker, learner, notices) {
  const take = (files) => asker.ask(files);
  const place = element("div", { class: "drop place" });
  const viewer = drawPhoto(store);
  const verdict = element("p", { class: "verdict", "aria-live": "polite" });
  const detail = element("p", { class: "quiet" });
  const headline = element("div", { class: "headline" }, verdict);
  const answer = element("div", { class: "answer" }, headline, detail);
  const all = button("", () => strip.querySelector('[aria-pressed="true"]').focus(), { class: "small all" });
  place.append(viewer, drawInvitation(take, notices, store, all));
  takesDrops(place, take);
  root.append(place, answer);
  drawBars(answer, store);
  drawReasons(answer, headline, store, asker, viewer.canvas);
  drawTruth(answer, store, learner);
  const show = () => place.scrollIntoView({ block: "nearest" });
  const strip = drawStrip(root, store, asker, show);
  drawTries(root, store, asker, show);
  store.drawn((state) => {
    const photo = currentPhoto(state);
    place.classList.toggle("full", Boolean(photo));
    place.classList.toggle("next", !photo && state.lessons.length > 0);
    all.hidden = state.asked.length < 2;
    say(all, `See all ${counted(state.asked.length, "photo")}`);
    answer.hidden = !photo;
    if (photo) [verdict, detail].forEach((node, i) => say(node, verdictOf(photo, state)[i]));
  });
}

/** The headline of an answer, and the line below it. */
function verdictOf(photo, state) {
  const { answer, problem } = photo;
  if (problem) return ["This cannot be used", problem];
  if (!answer) {
    if (state.classes.length) return ["…", ""];
    return ["Not known yet", "The model has learned nothing. Say what this is, and it learns it."];
  }
  const known = answer.learned_as ?? [];
  const taught = known.length ? `It was taught this very photo as ${listed(known)}.` : "";
  const strange = `It is unlike all that the model has learned. The nearest is ${answer.label}.`;
  const early = total(state) < ENOUGH ? `From ${counted(total(state), "photo")}, this is a first guess: more make it surer.` : "";
  if (answer.unknown) return ["None of these", taught || `${strange} ${early}`.trim()];
  const doubt = inDoubt(answer) ? DOUBT : "";
  return [answer.label, taught || `${doubt} ${early}`.trim()];
}

/** The photo itself, at full size, with a canvas over it for the heat. */
function drawPhoto(store) {
  const image = element("img", { alt: "" });
  const canvas = element("canvas", { class: "heat", hidden: true, "aria-hidden": "true" });
  const nameless = element("p", { class: "nameless" });
  const frame = element("div", { class: "viewer", hidden: true }, element("div", { class: "photo" }, image, canvas), nameless);
  let shown = null;
  let url = null; // of the file itself: the browser reads it from where it is
  image.addEventListener("error", () => {
    image.hidden = true;
    nameless.textContent = `${shown?.name}: this browser cannot show it.`;
  });
  store.drawn((state) => {
    const photo = currentPhoto(state);
    frame.hidden = !photo;
    if (photo?.key === shown?.key) return;
    if (url) URL.revokeObjectURL(url);
    shown = photo;
    url = photo && URL.createObjectURL(photo.file);
    nameless.textContent = "";
    image.hidden = !photo;
    if (photo) Object.assign(image, { src: url, alt: `The photo ${photo.name}` });
  });
  frame.canvas = canvas;
  return frame;
}

function drawInvitation(take, notices, store, all) {
  const third = step(3);
  const text = element("p", { class: "drop-text" });
  store.drawn((state) => {
    third.hidden = state.classes.length > 0;
    say(text, invitationOf(state));
  });
  return element("div", { class: "invitation" }, third, text, adders("Choose photos", "to ask about", take, notices), all);
}

function invitationOf({ classes, asked, lessons }) {
  if (!classes.length) return "Then show it a photo that it has not seen.";
  if (!asked.length && lessons.length) return "Now show it a photo that it has not seen.";
  if (asked.length > 1) return "";
  if (canDrop) return "Drop a photo here, or paste one.";
  return asked.length ? "" : "What is on a photo?";
}

/** Pictures that a demonstration brings along; `show` brings the chosen one into view. */
function drawTries(root, store, asker, show) {
  const list = element("ul", { class: "tiles" });
  const about = element("p", { class: "quiet" });
  const box = element("div", { class: "tries", hidden: true }, element("h3", {}, "Pictures to try"), about, list);
  const fetched = async ({ name, url }) => {
    const blob = await (await fetch(url)).blob();
    const asked = asker.ask([new File([blob], name, { type: blob.type })]);
    show();
    await asked;
  };
  root.append(box);
  store.drawn((state) => {
    box.hidden = !state.demo.photos.length;
    say(about, state.demo.about);
    keyed(list, state.demo.photos, ({ url }) => url, (each) => {
      const image = element("img", { src: each.url, alt: `Ask about ${each.name}`, loading: "lazy" });
      return element("li", {}, element("button", { type: "button", class: "tile", onclick: () => fetched(each) }, image));
    });
  });
}

/** All photos that were asked about, with what the model says; `show` brings the chosen one into view. The element. */
function drawStrip(root, store, asker, show) {
  const list = element("ul", { class: "tiles strip" });
  const next = button("Which should I label next?", () =>
    whileBusy(next, "Comparing …", () => asker.suggest()).then(show),
    { class: "small" },
  );
  const title = element("h3", {});
  const open = (photo) => {
    asker.look(now(store, photo));
    show();
  };
  const box = element(
    "div",
    { class: "asked", hidden: true },
    element(
      "div",
      { class: "row" },
      title,
      next,
      button("Clear", () => asker.clear(), { class: "small", "aria-label": "Clear the photos that were asked about" }),
    ),
    list,
  );
  root.append(box);
  store.drawn((state) => {
    box.hidden = !state.asked.length;
    say(title, counted(state.asked.length, "photo"));
    next.hidden = unlabelled(state.asked).length < COMPARABLE;
    keyed(list, inOrder(state), ({ photo }) => photo.key, (item) => opened(item, () => open(item.photo)));
  });
  return box;
}

/** The photo as it is now: its answer comes later than its picture. */
function now(store, photo) {
  return store.state.asked.find((each) => each.key === photo.key);
}

function inOrder(state) {
  const order = new Map(state.suggested.map((key, i) => [key, i]));
  const ranked = state.asked.toSorted((a, b) => (order.get(a.key) ?? Infinity) - (order.get(b.key) ?? Infinity) || 0);
  return ranked.map((photo) => {
    const rank = order.has(photo.key) ? `${order.get(photo.key) + 1}. ` : "";
    return { photo, mark: rank + markOf(photo), current: photo.key === state.current };
  });
}

function markOf({ answer, problem }) {
  if (problem) return "cannot be used";
  if (!answer) return "…";
  const best = barsOf(answer).find((bar) => bar.best);
  return best ? `${best.label} · ${percent(best.share)}` : answer.label;
}
