// What the page knows: one value that is replaced as a whole, and those who draw it.

/**
 * @typedef {Object} Photo A photo that this tab has; the server keeps none.
 * @property {string} key This tab's own name for it.
 * @property {File} file What was dropped: what is taught is this file as it is.
 * @property {string} name
 * @property {string|null} thumb The address of a small picture; null if the browser cannot read the file.
 * @property {string|null} id The name by which the model knows it, once the server has seen it.
 * @property {string|null} label The class that it was taught as.
 * @property {Object|null} answer What the model said of it.
 * @property {string|null} problem Why it cannot be used.
 */

/** @returns {Object} What the page knows before it has asked the server anything. */
export function beginning() {
  return {
    connected: false,
    info: null,
    classes: [],
    expected: null,
    version: 0,
    judged: null, // the version that `expected` and the accuracies of classes are about
    mayTeach: false, // until the server says so
    taught: new Map(), // Photo by id
    asked: [], // Photo, newest first
    current: null, // the key of the photo that is looked at
    reasons: new Map(), // explanation by key of the photo
    selected: new Set(), // ids
    jobs: [], // uploads that run: {key, title, done, total, cancel}
    filter: "", // what the names of the shown classes contain
    suggested: [], // keys of asked photos, the one that would teach most first
    demo: { about: "", photos: [] }, // what a demonstration brings along
    audit: null,
    log: [],
    lessons: [], // what this tab taught: {parts: [{version, ids}], at}, oldest first; `at`: the version that it led to
  };
}

/** Holds the state, and tells those who draw once per frame, however often it was changed. */
export class Store {
  #drawers = [];
  #waiting = false;

  constructor(state) {
    this.state = state;
  }

  /** Replace parts of the state. */
  set(changes) {
    this.state = { ...this.state, ...changes };
    if (this.#waiting) return;
    this.#waiting = true;
    queueMicrotask(() => {
      this.#waiting = false;
      for (const draw of this.#drawers) draw(this.state);
    });
  }

  /** Call `draw` now and after every change. */
  drawn(draw) {
    this.#drawers.push(draw);
    draw(this.state);
  }
}

/** The photo with this key among those that were asked about. */
export function currentPhoto(state) {
  return state.asked.find((photo) => photo.key === state.current) ?? null;
}

/** This tab's photos of a class, as they came. */
export function photosOf(state, label) {
  return [...state.taught.values()].filter((photo) => photo.label === label);
}

/** The number of learned photos. */
export function total(state) {
  return state.classes.reduce((sum, each) => sum + each.count, 0);
}

let photos = 0;

/** @returns {Photo} A file that somebody gave to this tab. */
export function newPhoto(file) {
  const name = file.name || "photo";
  return { key: `p${++photos}`, file, name, thumb: null, id: null, label: null, answer: null, problem: null };
}

/** The asked photos, with changes to one of them. */
export function withPhoto(asked, key, changes) {
  return asked.map((photo) => (photo.key === key ? { ...photo, ...changes } : photo));
}
