// What a photo really is: one click teaches it, or moves it to the right class.

import { button, element, keyed, say } from "./dom.js";
import { currentPhoto } from "./state.js";

const CHIPS = 8; // classes with a button; the others are typed

/** @param learner teaches and moves. */
export function drawTruth(root, store, learner) {
  const question = element("h3", {});
  const chips = element("ul", { class: "chips" });
  const names = element("datalist", { id: "class-names" });
  const field = element("input", { id: "truth", maxLength: 200, autocomplete: "off", required: true });
  field.setAttribute("list", "class-names");
  const teach = (label) => learner.move([currentPhoto(store.state)], label);
  const send = (event) => {
    event.preventDefault();
    const label = field.value.trim();
    field.value = "";
    if (label) teach(label);
  };
  const form = element(
    "form",
    { class: "truth", onsubmit: send },
    element("label", { for: "truth" }, "Another class"),
    element("div", { class: "row" }, field, names, element("button", {}, "Teach")),
  );
  const forget = button("Forget this photo", () => learner.forget([currentPhoto(store.state)]), { class: "link grave" });
  const box = element("div", { class: "truths" }, question, chips, form, forget);
  root.append(box);
  store.drawn((state) => {
    const photo = currentPhoto(state);
    box.hidden = !photo || Boolean(photo.problem) || !state.mayTeach;
    if (box.hidden) return;
    const known = photo.answer?.learned_as ?? [];
    say(question, known.length ? "Is it something else?" : "What is it?");
    forget.hidden = !known.length;
    keyed(chips, choices(photo, state), ({ label }) => label, ({ label }) => makeChip(label, teach));
    const labels = state.classes.map(({ label }) => label);
    if (labels.join("\n") !== names.dataset.labels) {
      names.dataset.labels = labels.join("\n");
      names.replaceChildren(...labels.map((value) => element("option", { value })));
    }
  });
}

function makeChip(label, teach) {
  const chip = button(label, () => teach(label), { "aria-label": `It is ${label}: teach it` });
  const node = element("li", {}, chip);
  node.update = ({ best }) => chip.classList.toggle("main", best);
  return node;
}

/** The classes that it may be: the most probable first; not those that it was taught as. */
function choices(photo, state) {
  const { answer } = photo;
  const taken = answer?.learned_as ?? [];
  const chance = (label) => answer?.probabilities?.[label] ?? 0;
  const labels = state.classes.map(({ label }) => label).filter((label) => !taken.includes(label));
  labels.sort((a, b) => chance(b) - chance(a));
  const sure = answer && !answer.unknown && !taken.length ? answer.label : null;
  return labels.slice(0, CHIPS).map((label) => ({ label, best: label === sure }));
}
