// What can be done with the pictures that are selected.

import { confirmed, named } from "./dialogs.js";
import { button, element, say } from "./dom.js";
import { counted } from "./words.js";

export function drawSelection(root, store, learner) {
  const text = element("p", {});
  const chosen = () => [...store.state.selected].map((id) => store.state.taught.get(id)).filter(Boolean);
  const clear = () => store.set({ selected: new Set() });
  const list = element("select", { "aria-label": "Move to", onchange: () => move(list.value) });
  const move = async (label) => {
    const photos = chosen();
    list.value = "";
    if (label === "\n") label = await named("Move to a new class", null, "Name of the class", "", "Move");
    if (!label) return;
    clear();
    await learner.move(photos, label);
  };
  const forget = async () => {
    const photos = chosen();
    const ask = "The model becomes what it would be had it never seen them. To have them again, teach them again.";
    if (await confirmed(`Forget ${counted(photos.length, "photo")}?`, ask, "Forget")) await learner.forget(photos);
  };
  const bar = element(
    "div",
    { class: "notice", role: "group", "aria-label": "Selected pictures", hidden: true },
    text,
    element("div", { class: "row" }, list, button("Forget", forget, { class: "grave" }), button("Clear", clear)),
  );
  root.append(bar);
  store.drawn((state) => {
    bar.hidden = !state.selected.size || !state.mayTeach;
    say(text, `${counted(state.selected.size, "picture")} selected`);
    const options = [["", "Move to …"], ...state.classes.map(({ label }) => [label, label]), ["\n", "a new class …"]];
    if (options.map(([value]) => value).join() !== [...list.options].map((each) => each.value).join()) {
      list.replaceChildren(...options.map(([value, name]) => element("option", { value }, name)));
    }
  });
}
