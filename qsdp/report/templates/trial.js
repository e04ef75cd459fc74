const section = document.getElementById("trial");
const [fields, more, output, chances, explained, sum, effects] = [
  "form > div", "details", "output", ".chances", "select[name=output]", ".sum", ".effects",
].map((selector) => section.querySelector(selector));

/** Number of bars for classes and for terms. */
const MAX_SHOWN = 10;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function written(number, digits = 4) {
  const size = Math.abs(number);
  if (size && (size < 1e-3 || size >= 1e7)) return number.toExponential(digits - 1);
  return number.toLocaleString("en-US", { maximumSignificantDigits: digits });
}
const signed = (number) => `${number < 0 ? "\u2212" : "+"}${written(Math.abs(number), 3)}`;
const percent = (fraction) => `${(100 * fraction).toFixed(1)} %`;

// -- controls ---------------------------------------------------------------------------------------------

/** Add a field with its label and return what reads its entry. */
function fieldOf({ name }, position, parent, control, ...beside) {
  control.id = `column${position}`;
  const label = element("label", { htmlFor: control.id, id: `label${position}` }, name);
  parent.append(element("div", { className: "field" }, label, ...beside, control));
}

/** A step of 1, 2 or 5 times a power of ten, of which a range has at least fifty; whole between whole ends. */
function stepOf(low, high) {
  const smallest = (high - low) / 50;
  const power = 10 ** Math.floor(Math.log10(smallest));
  const step = power * [5, 2, 1].find((factor) => factor * power <= smallest);
  return Number.isInteger(low) && Number.isInteger(high) && high - low >= 10 ? Math.max(step, 1) : step;
}

function numberField(column, position, parent, start) {
  const number = element("input", { type: "number", step: "any", required: !column.nullable });
  const [low, high] = column.range ?? [0, 0];
  if (column.nullable) number.placeholder = "missing";
  if (low < high) {
    const step = stepOf(low, high);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    const rounded = (value, round) => (round(Number((value / step).toPrecision(12))) * step).toFixed(digits);
    const ends = { min: rounded(low, Math.floor), max: rounded(high, Math.ceil) };
    const slider = element("input", { type: "range", ...ends, step: step.toFixed(digits) });
    slider.setAttribute("aria-labelledby", `label${position}`);
    number.defaultValue = slider.defaultValue = rounded(start ?? (low + high) / 2, Math.round);
    slider.addEventListener("input", () => (number.value = slider.value));
    number.addEventListener("input", () => number.value !== "" && (slider.value = number.value));
    fieldOf(column, position, parent, number, slider);
  } else {
    number.defaultValue = String(start ?? low);
    fieldOf(column, position, parent, number);
  }
  return () => (number.value === "" && !number.validity.badInput ? null : number.valueAsNumber);
}

function dateField(column, position, parent, start) {
  const days = start ?? (column.range ? (column.range[0] + column.range[1]) / 2 : 0);
  const [value, min, max] = [days, ...(column.range ?? [])].map((day) => new Date(864e5 * day).toISOString().slice(0, 10));
  const date = element("input", { type: "date", defaultValue: value, required: !column.nullable });
  if (min) Object.assign(date, { min, max });
  fieldOf(column, position, parent, date);
  return () => date.value || null;
}

function choiceField(column, position, parent, start) {
  const { type, categories } = column;
  if (type === "boolean" && categories.length === 2 && !column.nullable) {
    const box = element("input", { type: "checkbox", defaultChecked: categories[start] });
    fieldOf(column, position, parent, box);
    return () => box.checked;
  }
  const texts = categories.map((one) => (one === null ? "(missing)" : String(one)));
  if (type === "category") texts.push("(another)");
  const options = texts.map((text, code) => new Option(text, code, code === start, code === start));
  const select = element("select", {}, ...options);
  fieldOf(column, position, parent, select);
  // An object equals no category.
  return () => (select.value < categories.length ? categories[select.value] : {});
}

const kinds = { number: numberField, date: dateField };
const readers = new Map();
for (const [positions, parent] of [[TRIAL.first, fields], [TRIAL.others, more]]) {
  for (const position of positions) {
    const column = columns[position];
    readers.set(position, (kinds[column.type] ?? choiceField)(column, position, parent, TRIAL.starts[position]));
  }
}
more.hidden = !TRIAL.others.length;
more.firstElementChild.textContent = `${TRIAL.others.length} more columns`;

// -- answers ----------------------------------------------------------------------------------------------

const explains = typeof contributions === "function";
const names = explains ? MODEL.effectOutputs : [];
if (explains && decision === "argmax" && names.length > 1) explained.append(new Option("the predicted class", ""));
names.forEach((name, position) => explained.append(new Option(name, position)));
explained.parentElement.hidden = names.length < 2;

function barOf(label, number, left, width, other = false) {
  const bar = element("div", { className: other ? "other" : "" });
  Object.assign(bar.style, { marginLeft: `${100 * left}%`, width: `${100 * width}%` });
  return element("li", { className: "bar" }, element("span", {}, label), bar, element("span", { className: "number" }, number));
}

function showChances(row, options) {
  const bars = predictProba(row, options).map((chance, position) => ({ chance, name: String(classes[position]) }));
  if (bars.length > MAX_SHOWN) bars.sort((a, b) => b.chance - a.chance);
  chances.replaceChildren(...bars.slice(0, MAX_SHOWN).map(({ chance, name }) => barOf(name, percent(chance), 0, chance)));
}

function showEffects(row, options, answer) {
  const all = contributions(row, options);
  const chosen = explained.value === "" ? classes.indexOf(answer) : Number(explained.value);
  const { output: name, constant, terms } = all[chosen];
  const sorted = terms.filter(({ value }) => value).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const shown = sorted.slice(0, MAX_SHOWN);
  const total = terms.reduce((all, { value }) => all + value, constant);
  const rest = sorted.slice(MAX_SHOWN).reduce((all, { value }) => all + value, 0);
  const few = `${sorted.length - MAX_SHOWN} smaller ones, together ${signed(rest)}`;
  const parts = sorted.length > MAX_SHOWN ? `, the effects below and ${few}` : " and the effects below";
  const what = decision === "none" ? (names.length > 1 ? `Prediction of ${name}` : "Prediction") : `Score of ${name}`;
  sum.textContent = `${what}: ${written(total)}. It is the sum of the constant ${written(constant)}${parts}.`;
  const largest = Math.abs(shown[0]?.value ?? 1);
  effects.replaceChildren(
    ...shown.map(({ columns, value }) => {
      const width = Math.abs(value) / largest / 2;
      return barOf(columns.join(" × "), signed(value), value < 0 ? 0.5 - width : 0.5, width, value < 0);
    }),
  );
}

// Pairs of hundreds of columns take a second: then effects are shown once the row rests, so that answers keep up.
const slow = names.length * columns.length ** 2 > 1e5;
let waiting;

function showEffectsInTime(...args) {
  if (slow) waiting = setTimeout(() => showEffects(...args), 200);
  else showEffects(...args);
}

function textOf(answer) {
  if (decision !== "none") return String(answer);
  return Array.isArray(answer) ? answer.map((one) => written(one)).join(", ") : written(answer);
}

function update() {
  const options = { unknown: "ignore" };
  let text;
  clearTimeout(waiting);
  try {
    const row = columns.map((_, position) => readers.get(position)?.() ?? null);
    const answer = predict(row, options);
    text = textOf(answer);
    if (link !== "none") showChances(row, options);
    if (explains) showEffectsInTime(row, options, answer);
  } catch (error) {
    text = error.message;
    sum.textContent = "";
    chances.replaceChildren();
    effects.replaceChildren();
    section.classList.add("wrong");
  }
  // What is written again is read again to those who listen.
  if (output.textContent !== text) output.textContent = text;
}

section.addEventListener("input", () => {
  section.classList.remove("wrong");
  update();
});
section.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
section.querySelector("form").addEventListener("reset", () => setTimeout(() => section.dispatchEvent(new Event("input"))));
update();
section.hidden = false;
