// The table of who is taken for whom; its cells open this tab's photos.

import { button, element } from "./dom.js";
import { photosOf } from "./state.js";
import { picture } from "./tile.js";
import { counted, percent } from "./words.js";

const MOST = 30; // classes in a table that people can read

/** The classes in the table: all, or if these are too many, those that are confused most. */
export function tabled({ labels, counts }, most = MOST) {
  const all = labels.map((_, i) => i);
  if (labels.length <= most) return all;
  const mistakes = (i) => counts.reduce((sum, row, j) => sum + (i === j ? 0 : row[i] + counts[i][j]), 0);
  return all.toSorted((i, j) => mistakes(j) - mistakes(i)).slice(0, most).sort((i, j) => i - j);
}

/** This tab's photos of a cell: of class `label`, as now, and by the others of class `said`. */
function photosIn(state, { label, said }) {
  const suggested = new Map(state.audit.wrong.map((each) => [each.id, each.suggested]));
  return photosOf(state, label).filter((photo) => (suggested.get(photo.id) ?? label) === said);
}

export function drawConfusion(root, store, learner) {
  const place = element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Who is taken for whom" });
  const notes = element("p", { class: "quiet" });
  const cell = element("div", { class: "cell", "aria-live": "polite" });
  root.append(place, notes, cell);
  let drawn = null;
  let opened = null; // the cell that is shown: {label, said, away, ids}
  const show = (photos) => {
    opened.ids = idsOf(photos);
    cell.replaceChildren(...cellContent(store, learner, opened, photos));
  };
  const open = (label, said, count) => {
    const photos = photosIn(store.state, { label, said });
    opened = { label, said, away: count - photos.length };
    show(photos);
  };
  store.drawn((state) => {
    place.hidden = !state.audit;
    if (opened && drawn === state.audit) {
      const photos = photosIn(state, opened);
      if (idsOf(photos) !== opened.ids) show(photos); // some were moved, or forgotten
    }
    if (drawn === state.audit) return;
    drawn = state.audit;
    opened = null;
    cell.replaceChildren();
    place.replaceChildren(tableOf(drawn, open));
    notes.textContent = notesOf(drawn);
  });
}

function tableOf({ confusion }, open) {
  const { labels, counts } = confusion;
  const shown = tabled(confusion);
  const head = shown.map((j) => heading("col", labels[j]));
  const rows = shown.map((i) => {
    const sum = counts[i].reduce((a, b) => a + b, 0);
    const cells = shown.map((j) => cellOf(labels[i], labels[j], counts[i][j], sum, open));
    return element("tr", {}, heading("row", labels[i]), ...cells);
  });
  return element(
    "table",
    { class: "confusion" },
    element("caption", {}, "Rows: taught as. Columns: looks like, by all other photos."),
    element("thead", {}, element("tr", {}, element("td", {}), ...head)),
    element("tbody", {}, ...rows),
  );
}

/** The name of a class beside the table: broken where its words end; a long one is cut, and shown whole to a pointer. */
function heading(scope, label) {
  const words = label.split(/(?<=[_-])/).flatMap((word) => [word, element("wbr")]);
  return element("th", { scope, title: label }, element("span", {}, ...words));
}

function cellOf(label, said, count, sum, open) {
  if (!count) return element("td", { class: "none" }, "·");
  const right = label === said;
  const name = `${counted(count, "photo")} of ${label}, said to be ${said}`;
  const control = button(String(count), () => open(label, said, count), { "aria-label": name, class: right ? "right" : "wrong" });
  control.style.setProperty("--share", String(count / sum));
  return element("td", {}, control);
}

function idsOf(photos) {
  return photos.map(({ id }) => id).join();
}

function cellContent(store, learner, { label, said, away }, photos) {
  const title = label === said ? `${label}, told right` : `Taught as ${label}, but looks like ${said}`;
  const tiles = photos.map((photo) => element("li", {}, picture(photo), ...verbs(store, learner, photo, label, said)));
  return [
    element("h3", {}, title),
    element("ul", { class: "tiles large" }, ...tiles),
    away > 0 ? element("p", { class: "quiet" }, `${counted(away, "picture")} not in this tab.`) : null,
    away || photos.length ? null : element("p", { class: "quiet" }, "None are left."),
  ].filter(Boolean);
}

/** What can be done with a photo that is taken for another class. */
function verbs(store, learner, photo, label, said) {
  if (label === said || !store.state.mayTeach) return [];
  return [
    button(`It is ${said}`, () => learner.move([photo], said), { "aria-label": `${photo.name} is ${said}: move it` }),
    button("Forget", () => learner.forget([photo]), { class: "grave", "aria-label": `Forget ${photo.name}` }),
  ];
}

function notesOf(audit) {
  if (!audit) return "";
  const right = audit.judged - audit.wrong.length;
  const share = audit.judged ? ` (${percent(right / audit.judged)})` : "";
  const said = [`${counted(right, "photo")} of ${audit.judged} told right${share}.`];
  if (audit.confusion.labels.length > MOST) said.push(`Shown: the ${MOST} classes that are confused most.`);
  if (audit.alone) said.push(`${counted(audit.alone, "photo")} not judged: the only one of its class.`);
  if (audit.not_judged) said.push(`${counted(audit.not_judged, "photo")} not judged: the features are not on this machine.`);
  if (audit.duplicates.length) said.push(`${counted(audit.duplicates.length, "pair")} of photos nearly the same.`);
  return said.join(" ");
}
