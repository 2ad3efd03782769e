// Uploads that run, with how far they are.

import { button, element, keyed, say } from "./dom.js";
import { counted } from "./words.js";

export function drawJobs(root, store) {
  store.drawn((state) => keyed(root, state.jobs, (job) => job.key, drawJob));
}

function drawJob(job) {
  const text = element("p", { id: `job-${job.key}` });
  const bar = element("progress", { "aria-labelledby": `job-${job.key}` });
  const cancel = button("Cancel", () => {
    cancel.disabled = true;
    job.cancel();
  });
  const node = element("div", { class: "notice job" }, text, bar, element("div", { class: "row" }, cancel));
  node.update = ({ title, done, total }) => {
    say(text, `${title}: ${done} of ${counted(total, "photo")}`);
    bar.max = total;
    bar.value = done;
  };
  return node;
}
