// What takes a while: uploads that run, how far they are, and how to stop them.

import { sendAll } from "./uploads.js";

let jobs = 0;

export class Jobs {
  constructor(store) {
    this.store = store;
  }

  /** Send photos in parts as one job; false if it was cancelled. Other errors are the caller's. */
  async run(title, photos, verbs) {
    const stop = new AbortController();
    const key = `j${++jobs}`;
    const job = { key, title, done: 0, total: photos.length, cancel: () => stop.abort() };
    this.store.set({ jobs: [...this.store.state.jobs, job] });
    const done = async (part, answer) => {
      await verbs.done(part, answer);
      this.#advance(key, part.length);
    };
    try {
      await sendAll(photos, { ...verbs, done, signal: stop.signal });
      return !stop.signal.aborted;
    } catch (error) {
      if (stop.signal.aborted) return false;
      throw error;
    } finally {
      this.store.set({ jobs: this.store.state.jobs.filter((each) => each.key !== key) });
    }
  }

  #advance(key, count) {
    const jobs = this.store.state.jobs.map((job) => (job.key === key ? { ...job, done: job.done + count } : job));
    this.store.set({ jobs });
  }
}
