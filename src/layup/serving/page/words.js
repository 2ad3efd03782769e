// How numbers and names are said. Pure functions.

const NUMBER = new Intl.NumberFormat("en-GB");

/** "1 photo", "2,000 photos". */
export function counted(number, noun, plural = `${noun}s`) {
  return `${NUMBER.format(number)} ${number === 1 ? noun : plural}`;
}

/** A share as "93 %", on one line; what is nearly all or nearly nothing is not said to be all or nothing. */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<\u00a01\u00a0%";
  if (share < 1 && share >= 0.995) return ">\u00a099\u00a0%";
  return `${Math.round(100 * share)}\u00a0%`;
}

/** "a", "a and b", "a, b and c". */
export function listed(names) {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** "3 of tabby and 1 of pug": how many photos of which class. */
export function ofClasses(counts) {
  return listed(Object.entries(counts).map(([label, count]) => `${NUMBER.format(count)} of ${label}`));
}

/** "+0.25", "−0.10". */
export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

/** The time of a lesson, as people here write it. */
export function when(date) {
  const parsed = new Date(date);
  if (Number.isNaN(parsed.getTime())) return date;
  return parsed.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}
