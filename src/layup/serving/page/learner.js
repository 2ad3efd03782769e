// What changes the model: teach, move, forget, rename, undo; and what this tab knows after it.

import { formOf } from "./api.js";
import { sweep, thumbnail } from "./thumbs.js";
import { counted, ofClasses } from "./words.js";

const REACHED = ["learned", "known", "moved"]; // what can become of a photo that the model has now

const FORGOTTEN = ["forgotten", "unknown"]; // what becomes of a photo that the model does not have now
const NEVER = "The model is as if it had never seen them.";

/** What became of the photos of one lesson, put together from the answers to its requests. */
class Outcome {
  counts = { learned: 0, known: 0, moved: 0, conflict: 0, bad: 0 };
  elsewhere = []; // photos that are known as another class
  problems = []; // sentences
  parts = []; // of each request: the version that it led to, and the ids of what was learned or moved

  /** What was said of the photos of one request. */
  addPart(photos, answer) {
    const ids = answer.photos.filter(({ status }) => status === "learned" || status === "moved").map(({ id }) => id);
    this.parts.push({ version: answer.version, ids });
    answer.photos.forEach((said, i) => this.#add(photos[i], said));
  }

  #add(photo, said) {
    this.counts[said.status] += 1;
    if (said.status === "conflict") this.elsewhere.push({ ...photo, id: said.id });
    if (said.status === "bad") this.problems.push(said.error?.message ?? `${photo.name} cannot be used.`);
  }

  refuse(photo, reason) {
    this.problems.push(`${photo.name}: ${reason}`);
  }

  sentence(name) {
    const { learned, known, moved } = this.counts;
    const said = [];
    if (learned) said.push(`Learned ${counted(learned, "photo")} of ${name}.`);
    if (moved) said.push(`Moved ${counted(moved, "photo")} to ${name}.`);
    if (known) said.push(`${counted(known, "photo")} known already: a photo counts once.`);
    return said.join(" ");
  }
}

export class Learner {
  /** @param {{api, store, jobs, notices, refresh: () => Promise<void>}} parts */
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** Teach photos as one class. */
  teach(photos, label) {
    return this.teachEach(photos.map((photo) => ({ ...photo, label })));
  }

  /** Photos that may have been learned as another class are of this one. */
  move(photos, label) {
    return this.teachEach(photos.map((photo) => ({ ...photo, label })), true);
  }

  /** Teach photos, each as its own label; with `relabel`, those that are known as another class move. */
  async teachEach(photos, relabel = false) {
    const outcome = new Outcome();
    const name = nameOf(photos);
    const form = (part) => formOf(part, { labels: part.map(({ label }) => label), relabel });
    const finished = await this.notices.trying(() =>
      this.jobs.run(`Teaching ${name}`, photos, {
        send: (part, signal) => this.api.change("teach", form(part), signal),
        done: (part, answer) => this.#learned(part, answer, outcome),
        refused: (photo, reason) => outcome.refuse(photo, reason),
      }),
    );
    this.#remember(outcome);
    await this.refresh();
    this.#tell(name, outcome, finished === false);
  }

  /** Forget photos by their ids; those of which the server has no features any more, by the files of this tab. */
  async forget(photos) {
    const gone = new Set();
    let count = 0;
    const take = ({ photos: said, forgotten }) => {
      for (const { id, status } of said) if (FORGOTTEN.includes(status)) gone.add(id);
      for (const some of Object.values(forgotten)) count += some;
    };
    await this.notices.trying(async () => {
      take(await this.api.change("forget", { ids: photos.map(({ id }) => id) }));
      const left = photos.filter(({ id }) => !gone.has(id));
      if (!left.length) return;
      await this.jobs.run("Forgetting", left, {
        send: (part, signal) => this.api.change("forget", formOf(part), signal),
        done: (_, answer) => take(answer),
        refused: (photo, reason) => this.notices.warn(`${photo.name}: ${reason}`),
      });
    });
    this.#drop(({ id }) => gone.has(id));
    if (gone.size) this.notices.tell(`Forgot ${counted(count, "photo")}. ${NEVER}`);
    await this.refresh();
  }

  async forgetClass(label) {
    const forget = () => this.api.change("forget", { class: label });
    await this.#change(forget, () => this.#drop((photo) => photo.label === label));
  }

  async rename(old, name) {
    await this.#change(() => this.api.change("rename", { old, new: name }), () => {
      const renamed = ([id, photo]) => [id, photo.label === old ? { ...photo, label: name } : photo];
      this.store.set({ taught: new Map([...this.store.state.taught].map(renamed)) });
    });
  }

  /** Undo the last lesson: all requests that this tab sent for it, if nothing else changed the model since. */
  async undo() {
    const { lessons, version } = this.store.state;
    const last = lessons.at(-1);
    const parts = last?.at === version ? lastParts(last.parts) : [];
    const own = parts.length > 0;
    const forgotten = {};
    let now = version;
    await this.notices.trying(async () => {
      for (let left = own ? parts.length : 1; left > 0; left--) {
        const answer = await this.api.change("undo", {});
        now = answer.version;
        for (const [label, count] of Object.entries(answer.forgotten)) {
          forgotten[label] = (forgotten[label] ?? 0) + count;
        }
      }
      this.notices.tell(`Undone: ${ofClasses(forgotten)}, as if never learned.`);
    });
    if (now !== version) {
      // Whose lesson it was is only known if it was this tab's own.
      const ids = new Set(parts.flatMap((part) => part.ids));
      this.#drop((photo) => (own ? ids.has(photo.id) : photo.label in forgotten));
      this.store.set({ lessons: own ? withLast(lessons.slice(0, -1), { at: now }) : [] });
    }
    await this.refresh();
  }

  async #learned(part, answer, outcome) {
    const reached = new Map(this.store.state.taught);
    outcome.addPart(part, answer);
    for (const [i, said] of answer.photos.entries()) {
      if (!REACHED.includes(said.status)) continue;
      const thumb = part[i].thumb ?? (await thumbnail(part[i].file));
      reached.set(said.id, { ...part[i], thumb, id: said.id, label: said.label ?? part[i].label });
    }
    // Another part may have arrived meanwhile: only what is new here is added.
    this.store.set({ taught: new Map([...this.store.state.taught, ...reached]) });
  }

  /** What can be undone now. Requests that changed nothing have a version too, but there is nothing to undo of them. */
  #remember({ parts }) {
    if (!parts.length) return;
    const { lessons } = this.store.state;
    const sorted = parts.toSorted((a, b) => a.version - b.version);
    const at = sorted.at(-1).version;
    if (parts.some(({ ids }) => ids.length)) this.store.set({ lessons: [...lessons, { parts: sorted, at }] });
    else if (lessons.at(-1)?.at === at - parts.length) this.store.set({ lessons: withLast(lessons, { at }) });
  }

  #tell(name, outcome, cancelled) {
    const said = outcome.sentence(name);
    if (cancelled) this.notices.tell(said ? `Cancelled. ${said} Undo takes that back.` : "Cancelled. Nothing was learned.");
    else if (said) this.notices.tell(said);
    if (outcome.problems.length) this.notices.warn(outcome.problems.slice(0, 5).join("\n"));
    if (outcome.elsewhere.length) {
      const photos = outcome.elsewhere;
      const elsewhere = nameOf(photos);
      const text = `${counted(photos.length, "photo")} known as another class, so not learned as ${elsewhere}.`;
      this.notices.offer(text, `Move to ${elsewhere}`, () => this.teachEach(photos, true));
    }
  }

  /** Change something, and say what that did. */
  async #change(change, after) {
    await this.notices.trying(async () => {
      const { message } = await change();
      after();
      this.notices.tell(message);
    });
    await this.refresh();
  }

  /** This tab's photos, without those that the model has no more. */
  #drop(gone) {
    const { taught, selected } = this.store.state;
    const left = new Map([...taught].filter(([, photo]) => !gone(photo)));
    this.store.set({ taught: left, selected: new Set([...selected].filter((id) => left.has(id))) });
    sweep(this.store.state);
  }
}

/** The class of photos, or how many these are. */
function nameOf(photos) {
  const labels = new Set(photos.map(({ label }) => label));
  return labels.size === 1 ? photos[0].label : counted(labels.size, "class", "classes");
}

/** The items, with changes to the last one. */
function withLast(items, changes) {
  return items.map((item, i) => (i === items.length - 1 ? { ...item, ...changes } : item));
}

/** The parts at the end whose versions follow one another, without those that changed nothing. */
export function lastParts(parts) {
  let first = parts.length - 1;
  while (first > 0 && parts[first - 1].version === parts[first].version - 1) first--;
  return parts.slice(first).filter(({ ids }) => ids.length);
}
