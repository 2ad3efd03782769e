// Puts the page together: what is known, those who change it, and those who draw it.

import { Api } from "./api.js";
import { drawAsk } from "./ask.js";
import { Asker } from "./asker.js";
import { drawCards, drawTabNote, drawTools } from "./cards.js";
import { drawCheck } from "./check.js";
import { say, whileBusy } from "./dom.js";
import { pasted, takesDrops } from "./files.js";
import { Jobs } from "./jobs.js";
import { Learner } from "./learner.js";
import { drawLog } from "./log.js";
import { Notices } from "./notices.js";
import { drawSelection } from "./selection.js";
import { beginning, Store, total } from "./state.js";
import { Tokens } from "./token.js";
import { drawJobs } from "./tray.js";
import { counted } from "./words.js";

const PAUSES = [250, 750, 2000, 5000, 10_000, 20_000]; // milliseconds until the judgement is looked for again

const at = (id) => document.getElementById(id);
const store = new Store(beginning());
const api = new Api(new Tokens());
const notices = new Notices(at("notices"), at("alerts"));
const jobs = new Jobs(store);
const asker = new Asker({ api, store, jobs, notices });
const learner = new Learner({ api, store, jobs, notices, refresh });

/** What the server knows now. What it says of photos and of itself then comes later than the lesson. */
async function refresh() {
  await notices.trying(async () => {
    const info = await api.get("model/info");
    await readClasses({ info, mayTeach: info.may_teach });
    follow();
  });
}

/** The classes now; whether the model, or what it is judged to be, has changed. */
async function readClasses(more = {}) {
  const { version, classes, expected, judged } = await api.get("classes");
  const before = store.state;
  store.set({ ...more, version, classes, expected, judged, connected: true });
  return before.version !== version || before.judged !== judged;
}

/** What is said of photos, and the log, as they are after a change. */
function follow() {
  asker.log();
  asker.askAgain();
  awaitJudged(store.state.version);
}

/** The model is judged a moment after each lesson. That also changes how sure it is of photos. */
async function awaitJudged(version, pauses = PAUSES) {
  if (store.state.judged === version || !pauses.length) return;
  await new Promise((resolve) => setTimeout(resolve, pauses[0]));
  if (store.state.version !== version) return;
  await notices.trying(async () => {
    if (await readClasses()) asker.askAgain();
  });
  await awaitJudged(version, pauses.slice(1));
}

/** The network that is read, in words. */
function networkOf({ backbone }) {
  return backbone.name === "bundled" ? "bundled network" : backbone.name;
}

/** What the model is, in a line. */
function factsOf(state) {
  if (!state.connected || !state.info) return "";
  const size = state.classes.length
    ? `${counted(state.classes.length, "class", "classes")}, ${counted(total(state), "photo")}`
    : "knows nothing yet";
  const where = state.info.saved ? "saved with every lesson" : "in memory only: download it to keep it";
  return [size, networkOf(state.info), where, state.mayTeach ? null : "read-only"].filter(Boolean).join(" · ");
}

function drawTop() {
  const undo = at("undo");
  const download = at("download");
  undo.addEventListener("click", () => whileBusy(undo, "Undoing …", () => learner.undo()));
  download.addEventListener("click", () => whileBusy(download, "Preparing …", () => asker.download()));
  store.drawn((state) => {
    say(at("facts"), factsOf(state));
    say(at("keeps"), state.info?.keeps ?? "");
    undo.hidden = !state.mayTeach;
    undo.disabled = download.disabled = !state.classes.length;
    at("lessons").hidden = document.querySelector('a[href="#lessons"]').hidden = !state.log.length;
  });
}

/** Photos that are pasted, or dropped beside everything, are asked about; those pasted in a card are taught. */
function listen() {
  document.addEventListener("paste", (event) => {
    const files = pasted(event);
    if (!files.length) return;
    event.preventDefault();
    const card = document.activeElement?.closest("#teach .drop");
    if (card) card.dispatchEvent(new CustomEvent("photos", { detail: files }));
    else asker.ask(files);
  });
  takesDrops(document.body, (files) => asker.ask(files));
  window.addEventListener("beforeunload", (event) => {
    if (store.state.jobs.length) event.preventDefault(); // the browser asks whether to leave what is being sent
  });
  window.addEventListener("unhandledrejection", ({ reason }) => notices.warn(`Something went wrong: ${reason.message}`));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    notices.trying(async () => {
      if (await readClasses()) follow(); // others have taught meanwhile
    });
  });
}

drawTop();
drawTabNote(at("tab-note"), store);
drawTools(at("teach-tools"), store, learner);
drawCards(at("cards"), store, learner);
drawAsk(at("ask-body"), store, asker, learner, notices);
drawCheck(at("check-body"), store, asker, learner);
drawLog(at("lessons-body"), store);
drawJobs(at("jobs"), store);
drawSelection(at("selection"), store, learner);
listen();
await refresh();
await notices.trying(async () => store.set({ demo: await api.get("demo") }));
