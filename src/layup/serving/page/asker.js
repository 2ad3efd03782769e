// What only reads the model: ask about photos, reasons, suggestions, the audit, the log, the download.

import { formOf } from "./api.js";
import { newPhoto, withPhoto } from "./state.js";
import { sweep, thumbnail } from "./thumbs.js";
import { parts } from "./uploads.js";

const AGAIN = 16; // photos that are asked about again after a lesson: they cost the network as much as one
const LIGHT = 8 * 2 ** 20; // bytes of all of these, if one photo alone is not more
const COMPARED = 64; // photos that are compared at once for a suggestion
const SUGGESTED = 10; // of these, at most; and no more than half
const SHOWN = 5; // classes with a bar

export class Asker {
  /** @param {{api, store, jobs, notices}} parts */
  constructor(parts) {
    Object.assign(this, parts);
  }

  async ask(files) {
    const photos = files.map(newPhoto);
    this.store.set({ asked: [...photos, ...this.store.state.asked], current: photos[0].key, suggested: [] });
    await this.notices.trying(() =>
      this.jobs.run("Asking", photos, {
        send: (part, signal) => this.#predicted(part, signal),
        done: (part, answer) => this.#answered(part, answer),
        refused: (photo, reason) => this.#set(photo, { problem: reason }),
      }),
    );
  }

  /** Look at a photo again; if the model has changed since it was asked about, ask again. */
  look(photo) {
    this.store.set({ current: photo.key });
    const { version, judged } = this.store.state;
    if (photo.answer?.version !== version || photo.answer.judged !== judged) return this.#again([photo]);
    return undefined;
  }

  /** Ask again about the photo that is looked at, and its neighbours: the model has changed. */
  async askAgain() {
    const { asked, current } = this.store.state;
    const usable = asked.filter((photo) => !photo.problem);
    const first = usable.filter((photo) => photo.key === current);
    const others = usable.filter((photo) => photo.key !== current);
    await this.#again(parts([...first, ...others], AGAIN, LIGHT)[0] ?? []);
  }

  /** Take the asked photos from the page; the server never kept them. */
  clear() {
    this.store.set({ asked: [], current: null, suggested: [], reasons: new Map() });
    sweep(this.store.state);
  }

  async explain(photo) {
    await this.notices.trying(async () => {
      const { version } = this.store.state; // before: a lesson that comes meanwhile may not be in the reasons
      const reasons = await this.api.look("explain?heat=true", formOf([photo]));
      this.store.set({ reasons: new Map(this.store.state.reasons).set(photo.key, { ...reasons, version }) });
    });
  }

  /** Which of the asked photos would teach most. */
  async suggest() {
    const { asked } = this.store.state;
    const photos = unlabelled(asked).slice(0, COMPARED);
    await this.notices.trying(async () => {
      const count = Math.min(SUGGESTED, Math.ceil(photos.length / 2));
      const answer = await this.api.look(`suggest?count=${count}`, formOf(photos));
      const keys = answer.photos.map((each) => photos.find((photo) => photo.id === each.id)?.key).filter(Boolean);
      this.store.set({ suggested: keys, current: keys[0] ?? this.store.state.current });
      this.notices.tell(
        keys.length
          ? "Say what is on this photo: of all that you asked about, it would teach most. The next ones have numbers."
          : "None of these photos would teach more than the others.",
      );
    });
  }

  async audit() {
    await this.notices.trying(async () => this.store.set({ audit: await this.api.get("audit") }));
  }

  async log() {
    await this.notices.trying(async () => this.store.set({ log: (await this.api.get("log")).entries }));
  }

  /** The model as a file. */
  async download() {
    await this.notices.trying(async () => {
      const url = URL.createObjectURL(await this.api.blob("model"));
      const link = document.createElement("a");
      link.href = url;
      link.download = "model.layup";
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    });
  }

  async #again(photos) {
    if (!photos.length) return;
    await this.notices.trying(async () => this.#answered(photos, await this.#predicted(photos)));
  }

  async #predicted(photos, signal) {
    const { judged } = this.store.state; // before it is asked: what is judged meanwhile is asked about again
    try {
      return { ...(await this.api.look(`predict?top=${SHOWN}`, formOf(photos), signal)), judged };
    } catch (error) {
      if (error.code !== "nothing-learned") throw error;
      return { version: this.store.state.version, predictions: photos.map(() => null) };
    }
  }

  async #answered(photos, { version, judged, predictions }) {
    for (const [i, said] of predictions.entries()) {
      const thumb = photos[i].thumb ?? (await thumbnail(photos[i].file));
      if (this.#latest(photos[i]).answer?.version > version) continue; // a newer answer has come meanwhile
      const answer = said?.label ? { ...said, version, judged } : null;
      const problem = said?.error?.message ?? null;
      this.#set(photos[i], { thumb, answer, problem, id: said?.id ?? photos[i].id });
    }
  }

  /** A photo as it is now; as it was if it has been cleared away. */
  #latest(photo) {
    return this.store.state.asked.find(({ key }) => key === photo.key) ?? photo;
  }

  #set(photo, changes) {
    this.store.set({ asked: withPhoto(this.store.state.asked, photo.key, changes) });
  }
}

/** The photos that can be used, and that the model has not learned. */
export function unlabelled(photos) {
  return photos.filter((photo) => !photo.problem && photo.answer && !photo.answer.learned_as?.length);
}
