// A photo and a model meet in this tab. The only requests are those that load the page and the model.
import * as ort from "./ort/ort.wasm.min.mjs";

const SHOWN = 5; // classes with a bar
const MOST = 4_000_000; // pixels; larger photos are made smaller first, because resizing them exactly takes seconds

const part = (id) => document.getElementById(id);
const [place, file, photo, answer] = ["place", "file", "photo", "answer"].map(part);
const percent = (share) => (share > 0.995 ? "> 99 %" : `${Math.round(100 * share)} %`);

ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
ort.env.wasm.numThreads = 1; // several need headers that isolate the page
ort.env.logLevel = "error";

function trouble(text) {
  part("trouble").textContent = text;
  part("trouble").hidden = !text;
}

/** The pixels of a photo as the model takes them: height × width × red, green and blue. */
async function decoded(blob) {
  const image = await createImageBitmap(blob, { imageOrientation: "from-image", colorSpaceConversion: "none" });
  const smaller = Math.min(1, Math.sqrt(MOST / (image.width * image.height)));
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * smaller)));
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  image.close();
  const { data } = context.getImageData(0, 0, width, height);
  const levels = new Uint8Array(3 * width * height);
  for (let from = 0, to = 0; from < data.length; from += 4) {
    levels[to++] = data[from];
    levels[to++] = data[from + 1];
    levels[to++] = data[from + 2];
  }
  return new ort.Tensor("uint8", levels, [1, height, width, 3]);
}

function bar(label, share, number, best) {
  const item = document.createElement("li");
  item.className = best ? "best" : "";
  for (const [name, text] of [["name", label], ["number", number]]) {
    const cell = document.createElement("span");
    cell.className = name;
    cell.textContent = text;
    item.append(cell);
  }
  const track = document.createElement("progress");
  track.max = 1;
  track.value = share;
  track.setAttribute("aria-label", label);
  item.append(track);
  return item;
}

function show(found, seconds) {
  const scores = [...found.scores.data];
  const sure = found.probabilities && [...found.probabilities.data];
  const order = scores.map((_, index) => index).sort((one, other) => scores[other] - scores[one]);
  const [least, most] = [Math.min(...scores), Math.max(...scores)];
  const [label, unknown] = [found.label.data[0], found.unknown?.data[0]];
  part("verdict").textContent = unknown ? `Unknown (${label}?)` : label;
  const strange = found.none_of_these && `None of these: ${percent(found.none_of_these.data[0])}. `;
  part("remark").textContent = `${strange ?? ""}Answered in ${seconds.toFixed(1)} s, in this tab.`;
  part("bars").replaceChildren(...order.slice(0, SHOWN).map((index, rank) => {
    const share = sure ? sure[index] : (scores[index] - least) / (most - least || 1);
    return bar(found.classes.data[index], share, sure ? percent(share) : scores[index].toFixed(2), !rank);
  }));
  answer.hidden = false;
}

async function ask(model, blob) {
  trouble("");
  try {
    URL.revokeObjectURL(photo.src);
    photo.src = URL.createObjectURL(blob);
    photo.hidden = false;
    place.classList.add("full");
    const images = await decoded(blob);
    await new Promise(requestAnimationFrame); // the photo is seen before the model works
    const start = performance.now();
    show(await model.run({ images }), (performance.now() - start) / 1000);
  } catch (error) {
    answer.hidden = true;
    photo.hidden = true;
    trouble(`This photo cannot be used: ${error.message}`);
  }
}

async function begin() {
  const model = await ort.InferenceSession.create("model.onnx", { executionProviders: ["wasm"] });
  let turn = Promise.resolve();
  const take = (blobs) => {
    const blob = [...blobs].find((each) => each.type.startsWith("image/"));
    if (blob) turn = turn.then(() => ask(model, blob));
    else trouble("That is no photo.");
  };
  file.addEventListener("change", () => { take(file.files); file.value = ""; });
  addEventListener("paste", (event) => event.clipboardData.files.length && take(event.clipboardData.files));
  addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
  addEventListener("dragleave", () => place.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    take(event.dataTransfer.files);
  });
  file.disabled = false;
  part("facts").textContent = "The model is ready, in this tab.";
}

begin().catch((error) => {
  part("facts").textContent = "There is no model.";
  trouble(`The model cannot be loaded: ${error.message}`);
});
