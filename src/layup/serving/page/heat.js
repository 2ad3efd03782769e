// Where in a photo the model found its answer: a small grid, spread over the pixels of the photo.

/** How much each position of the patch counts for each of so many pixels; null where the network does not look. */
function nearness(count, begin, end, steps, side) {
  const centres = Array.from({ length: steps }, (_, i) => side / 2 + (i * (1 - side)) / (steps - 1));
  return Array.from({ length: count }, (_, pixel) => {
    const place = (pixel + 0.5 - begin) / (end - begin);
    if (place < 0 || place > 1) return null;
    const near = centres.map((centre) => Math.max(1 - Math.abs(place - centre) / side, 0));
    const sum = near.reduce((a, b) => a + b, 0);
    return near.map((value) => value / sum);
  });
}

/**
 * One number per pixel of a picture of the photo, row by row; NaN where the network does not look.
 * `scale`: how many pixels of the picture one pixel of the photo takes.
 */
export function over(heat, width, height, scale = 1) {
  const { drops, side, region } = heat;
  const [left, top, right, bottom] = region.map((edge) => edge * scale);
  const across = nearness(width, left, right, drops[0].length, side);
  const down = nearness(height, top, bottom, drops.length, side);
  return down.map((rows) => across.map((columns) => spread(drops, rows, columns)));
}

function spread(drops, rows, columns) {
  if (!rows || !columns) return NaN;
  let sum = 0;
  rows.forEach((row, i) => row && columns.forEach((column, j) => (sum += row * column * drops[i][j])));
  return sum;
}

const WIDE = 96; // pixels that are computed; the browser smooths them

/** Draw the heat over a photo of this size: the more it costs to cover a part, the warmer. */
export function draw(canvas, heat, width, height) {
  const scale = WIDE / Math.max(width, height);
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const numbers = over(heat, canvas.width, canvas.height, scale).flat();
  const most = Math.max(...numbers.filter((value) => value > 0), 1e-12);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  numbers.forEach((value, i) => {
    const share = Math.max(0, value / most) || 0;
    image.data.set([255, 90, 20, Math.round(190 * share ** 1.5)], 4 * i);
  });
  context.putImageData(image, 0, 0);
}
