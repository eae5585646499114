// Values of tensors in a run that was recorded.
"use strict";

/** The values of an entry after a step, of the last one that wrote it; null if there are none. */
function valuesAfter(plan, entry, step) {
  if (!plan.recorded) return null;
  return plan.recorded.get(entry)?.filter(each => each.step <= step).at(-1)?.values ?? null;
}

const numberText = value => value == null ? "none" : String(Number(value.toPrecision(3)));

/** "−0.2 to 3.1, mean 0.4": the range of values. */
const rangeText = ({low, high, mean, not_finite: bad}) =>
  (low == null ? "no finite value" : `${numberText(low)} to ${numberText(high)}, mean ${numberText(mean)}`)
  + (bad ? `; ${plural(bad, "value")} not finite` : "");

/** A sample of values as a grid: positive and negative ones in two colours, stronger where they are larger. */
function valuesGrid(values, name) {
  const most = Math.max(1e-30, ...values.sample.flat().map(each => Math.abs(each ?? 0)));
  const columns = values.sample[0]?.length ?? 0, hasText = columns <= 8;
  return h("div", {class: `grid ${hasText ? "numbers" : ""}`, role: "img", style: `--columns:${columns}`,
                   "aria-label": `Sample of ${name}: ${rangeText(values)}`},
    values.sample.flat().map(value => h("span", {
      class: value == null ? "bad" : value < 0 ? "negative" : "positive", title: value == null ? "not finite" : String(value),
      style: `--weight:${value == null ? 100 : Math.round(45 * Math.abs(value) / most)}%`},
    hasText ? value == null ? "✗" : numberText(value) : "")));
}
