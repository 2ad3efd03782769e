// Why the model says so: what each layer says, and where in the photo it is.

import { button, element, say, whileBusy } from "./dom.js";
import { draw } from "./heat.js";
import { currentPhoto } from "./state.js";
import { signed } from "./words.js";

/** The button goes to `head`, beside the answer. */
export function drawReasons(root, head, store, asker, canvas) {
  const explain = () => asker.explain(currentPhoto(store.state));
  const ask = button("Why?", () => whileBusy(ask, "Covering every part of it …", explain));
  const summary = element("p", { role: "status" });
  const legend = element("p", { class: "quiet legend" }, "Orange: where covering the photo costs the answer most.");
  const layers = element("div", {});
  const box = element("div", { class: "reasons" }, summary, legend, layers);
  const image = canvas.previousElementSibling;
  let drawn = null;
  head.append(ask);
  root.append(box);
  store.drawn((state) => {
    const photo = currentPhoto(state);
    const found = photo && state.reasons.get(photo.key);
    const reasons = found?.version === state.version ? found : null;
    ask.hidden = !photo?.answer || Boolean(reasons);
    box.classList.toggle("shown", Boolean(reasons));
    canvas.hidden = legend.hidden = !reasons?.heat;
    say(summary, reasons?.summary ?? "");
    if (drawn === reasons) return;
    drawn = reasons;
    layers.replaceChildren(...(reasons?.parts ? [table(reasons)] : []));
    if (reasons?.heat) draw(canvas, reasons.heat, image.naturalWidth || 1, image.naturalHeight || 1);
  });
}

/** What each layer says, as a table whose bars point to the class that it speaks for. */
function table({ label, second, parts }) {
  const most = Math.max(...parts.map(({ lead }) => Math.abs(lead)), 1e-12);
  const heads = ["Layer", "Lead", "Drawn"].map((name) => element("th", { scope: "col" }, name));
  return element(
    "table",
    { class: "layers" },
    element("caption", {}, `What each layer says for ${label} (right) rather than ${second} (left)`),
    element("thead", { class: "unseen" }, element("tr", {}, ...heads)),
    element("tbody", {}, ...parts.map((part) => layerRow(part, most))),
  );
}

function layerRow({ layer, lead }, most) {
  const bar = element("span", { class: lead < 0 ? "pull against" : "pull" });
  bar.style.width = `${(50 * Math.abs(lead)) / most}%`;
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, layer),
    element("td", { class: "number" }, signed(lead)),
    element("td", { class: "pulls", "aria-hidden": "true" }, bar),
  );
}
