// The log: what was done to the model, the newest first.

import { element, keyed, say } from "./dom.js";
import { counted, ofClasses, when } from "./words.js";

const SHOWN = 50; // lessons

const NOTHING = "Every lesson is noted here: when, and how many photos of which class. Never which photos.";

const VERBS = { learn: "Learned", forget: "Forgot", undo: "Undid", sync: "Synced", merge: "Merged", rename: "Renamed" };

/** A lesson as a sentence. */
export function sentence({ action, learned, forgotten, note }) {
  const said = [];
  if (Object.keys(learned ?? {}).length) said.push(`learned ${ofClasses(learned)}`);
  if (Object.keys(forgotten ?? {}).length) said.push(`forgot ${ofClasses(forgotten)}`);
  if (note) said.push(note);
  const text = said.join("; ");
  const verb = VERBS[action] ?? action;
  if (!text) return verb;
  return ["learn", "forget"].includes(action) ? text[0].toUpperCase() + text.slice(1) : `${verb}: ${text}`;
}

export function drawLog(root, store) {
  const list = element("ol", { class: "log" });
  const empty = element("p", { class: "quiet" });
  root.append(list, empty);
  store.drawn((state) => {
    const newest = state.log.map((entry, i) => ({ ...entry, key: String(i) })).reverse().slice(0, SHOWN);
    keyed(list, newest, ({ key, action, date }) => `${key} ${action} ${date}`, (entry) =>
      element("li", {}, element("time", { dateTime: entry.date }, when(entry.date)), element("span", {}, sentence(entry))),
    );
    const older = state.log.length - newest.length;
    const rest = older ? `And ${counted(older, "lesson")} before these.` : "";
    say(empty, state.log.length ? rest : NOTHING);
  });
}
