// The classes: a card for each, with its count, this tab's pictures, and what can be done with it.

import { adders } from "./adders.js";
import { hasCamera, openCamera } from "./camera.js";
import { confirmed, named } from "./dialogs.js";
import { button, element, keyed, say, step } from "./dom.js";
import { canDrop, chooser, takesDrops } from "./files.js";
import { newPhoto, photosOf, total } from "./state.js";
import { selectable } from "./tile.js";
import { counted } from "./words.js";

const FEW = 14; // pictures that a card shows before it is asked for all
const MANY = 12; // classes from which on they can be filtered
const ALONE =
  "Only one photo: what the model keeps of this class are the features of that very photo. More photos blend it in.";

/** The field for a new class, and the filter; the cards are drawn below it. */
export function drawTools(root, store, learner) {
  const name = element("input", {
    id: "new-name", maxLength: 200, autocomplete: "off", placeholder: "for example, tabby cat",
  });
  const take = async (files, groups = [{ label: null, files }]) => {
    const label = name.value.trim();
    name.value = "";
    const each = label ? [{ label, files }] : await allNamed(groups);
    const photos = each.flatMap((group) => group.files.map((file) => ({ ...newPhoto(file), label: group.label })));
    if (photos.length) await learner.teachEach(photos);
  };
  const form = element(
    "form",
    { class: "new drop", onsubmit: (event) => event.preventDefault(), "aria-label": "New class" },
    element("p", { class: "lead" }, `Name something, and ${canDrop ? "drop" : "add"} a few photos of it${canDrop ? " here" : ""}.`),
    element("p", { class: "lead-more" }, "It is recognised from then on: nothing is trained, and no photo is kept."),
    step(1),
    element("label", { for: "new-name" }, "New class"),
    name,
    step(2),
    element("p", { class: "drop-text" }, `${canDrop ? "Drop its photos here, or a folder of them" : "Add its photos"}. Five are a good beginning.`),
    adders("Add photos", "the new class", take, learner.notices),
  );
  takesDrops(form, take);
  form.addEventListener("photos", (event) => take(event.detail));
  const find = () => store.set({ filter: filter.value });
  const filter = element("input", { type: "search", id: "filter", oninput: find });
  const label = element("label", { for: "filter" }, "Find a class");
  const filtering = element("div", { class: "filter", hidden: true }, label, filter);
  root.append(form, filtering);
  store.drawn((state) => {
    form.hidden = !state.mayTeach;
    form.classList.toggle("first", state.connected && !state.classes.length);
    filtering.hidden = state.classes.length < MANY;
  });
}

/** The groups of photos; who gave those without a label is asked for it, and they are left out if there is none. */
async function allNamed(groups) {
  const named = [];
  for (const { label, files } of groups) {
    const known = label ?? (await askedName(files.length));
    if (known) named.push({ label: known, files });
  }
  return named;
}

function askedName(count) {
  const title = count === 1 ? "What is on this photo?" : `What is on these ${count} photos?`;
  return named(title, null, "Name of the class", "", "Teach");
}

/** All cards. */
export function drawCards(root, store, learner) {
  store.drawn((state) => {
    const wanted = state.filter.toLowerCase();
    const shown = state.classes.filter(({ label }) => label.toLowerCase().includes(wanted));
    keyed(root, shown, ({ label }) => label, ({ label }) => card(label, store, learner));
  });
}

function card(label, store, learner) {
  const title = element("h3", {}, label);
  const count = element("p", { class: "count" });
  const needs = element("p", { class: "needs" }, "more photos would help");
  const note = element("p", { class: "note" }, ALONE);
  const tiles = element("ul", { class: "tiles" });
  let all = false; // whether all pictures are shown
  const more = button("", () => {
    all = true;
    node.update();
  }, { class: "link" });
  const away = element("p", { class: "quiet away" });
  const take = (files) => learner.teach(files.map(newPhoto), label);
  const verbs = cardVerbs(label, store, learner, take);
  const head = element("div", { class: "head" }, title, verbs, element("div", { class: "row" }, count, needs));
  const node = element("li", { class: "card drop" }, head, note, tiles, more, away);
  takesDrops(node, take);
  node.addEventListener("photos", (event) => take(event.detail));
  const toggle = (id) => store.set({ selected: toggled(store.state.selected, id) });
  node.update = () => {
    const { state } = store;
    const known = state.classes.find((each) => each.label === label);
    if (!known) return;
    const photos = photosOf(state, label);
    node.classList.toggle("bare", !photos.length && known.count > 0);
    const shown = all ? photos : photos.slice(0, FEW);
    const items = shown.map((photo) => ({ key: photo.id, photo, selected: state.selected.has(photo.id) }));
    if (state.mayTeach) items.push({ key: "add" });
    say(count, countOf(known));
    note.hidden = known.count !== 1;
    needs.hidden = known.count === 1 || !known.needs_more;
    keyed(tiles, items, ({ key }) => key, (item) => (item.photo ? selectable(item, toggle) : adder(label, take)));
    more.hidden = shown.length === photos.length;
    say(more, `Show all ${photos.length}`);
    say(away, awayOf(known.count - photos.length, photos.length));
    away.hidden = !away.textContent;
    verbs.hidden = !state.mayTeach;
  };
  return node;
}

/** A square like those of photos, by which more of them come in. */
function adder(label, take) {
  const control = chooser("+", `Add photos: ${label}`, take, { class: "tile add", title: "Add photos, or drop them on this card" });
  return element("li", {}, control);
}

function cardVerbs(label, store, learner, take) {
  const rename = async () => {
    const others = store.state.classes.map((each) => each.label).filter((each) => each !== label);
    const text = "If a class of that name is there, the two become one, and cannot be told apart again.";
    const name = await named(`Rename ${label}`, others.length ? text : null, "New name", label, "Rename");
    if (name && name !== label) await learner.rename(label, name);
  };
  const forget = async () => {
    const known = store.state.classes.find((each) => each.label === label);
    const text =
      `The model forgets its ${counted(known.count, "photo")}. This cannot be undone: to have the class again, ` +
      "teach its photos again.";
    if (await confirmed(`Forget ${label}?`, text, "Forget")) await learner.forgetClass(label);
  };
  const select = () =>
    store.set({ selected: new Set([...store.state.selected, ...photosOf(store.state, label).map(({ id }) => id)]) });
  const camera = () => learner.notices.trying(() => openCamera(`Camera: ${label}`, take));
  const menu = element(
    "details",
    { class: "verbs", onclick: chosen, onkeydown: pressed, onfocusout: left },
    element("summary", { "aria-label": `More about ${label}` }, "⋯"),
    element(
      "div",
      { class: "menu" },
      hasCamera ? button("Take photos", camera) : null,
      button("Rename", rename),
      button("Select all pictures", select),
      button("Forget class", forget, { class: "grave" }),
    ),
  );
  function chosen({ target }) {
    if (target.closest(".menu button")) menu.open = false;
  }
  function pressed({ key }) {
    if (key === "Escape") menu.open = false;
  }
  function left({ relatedTarget }) {
    if (relatedTarget && !menu.contains(relatedTarget)) menu.open = false;
  }
  return menu;
}

function countOf({ count, accuracy }) {
  const right = accuracy && accuracy.tested ? ` · ${accuracy.right} of ${accuracy.tested} right` : "";
  return counted(count, "photo") + right;
}

/** Photos that are counted, and not shown. */
function awayOf(away, here) {
  if (away <= 0) return "";
  if (!here) return `${counted(away, "picture")} not in this tab.`;
  return `${counted(away, "more picture")} not in this tab.`;
}

function toggled(set, value) {
  const changed = new Set(set);
  if (!changed.delete(value)) changed.add(value);
  return changed;
}

/** What the page says of pictures that it does not have. */
export function drawTabNote(node, store) {
  store.drawn((state) => {
    const away = total(state) - state.taught.size;
    node.hidden = away <= 0;
    const how = state.mayTeach ? ` ${canDrop ? "Drop" : "Add"} photos again to see them here: they are recognised, and count once.` : "";
    say(node, `The model knows ${counted(away, "photo")} whose pictures are not in this tab: no picture is kept anywhere.${how}`);
  });
}
