const part = document.getElementById("draw");
const find = (selector) => part.querySelector(selector);
const field = find(".field");
const seen = find(".evidence canvas");
const [answer, bars, select, grid, neurons, slider, size] = [
  ".answer", ".bars", "select", ".grid", ".neurons", "#bytes", ".size output",
].map(find);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// -- drawing ------------------------------------------------------------------------------------------------

/** Strokes of ten digits, as corners in a unit square that curves pass. */
const DIGITS = [
  [[[0.5, 0.1], [0.25, 0.25], [0.22, 0.6], [0.4, 0.88], [0.65, 0.82], [0.78, 0.5], [0.68, 0.18], [0.5, 0.1]]],
  [[[0.5, 0.1], [0.5, 0.5], [0.5, 0.9]]],
  [[[0.25, 0.3], [0.35, 0.13], [0.6, 0.12], [0.7, 0.32], [0.5, 0.6], [0.24, 0.88]], [[0.24, 0.88], [0.5, 0.87], [0.78, 0.87]]],
  [[[0.28, 0.16], [0.55, 0.1], [0.7, 0.27], [0.45, 0.47]], [[0.45, 0.47], [0.72, 0.6], [0.68, 0.83], [0.45, 0.9], [0.25, 0.82]]],
  [[[0.3, 0.12], [0.25, 0.35], [0.25, 0.52]], [[0.25, 0.52], [0.5, 0.54], [0.75, 0.5]], [[0.7, 0.15], [0.66, 0.5], [0.62, 0.9]]],
  [[[0.74, 0.12], [0.55, 0.12], [0.34, 0.14]], [[0.34, 0.14], [0.32, 0.3], [0.3, 0.45]],
   [[0.3, 0.45], [0.55, 0.42], [0.7, 0.6], [0.6, 0.84], [0.4, 0.9], [0.24, 0.84]]],
  [[[0.62, 0.1], [0.4, 0.3], [0.28, 0.62], [0.4, 0.88], [0.62, 0.86], [0.68, 0.65], [0.5, 0.55], [0.3, 0.68]]],
  [[[0.22, 0.16], [0.5, 0.16], [0.76, 0.14]], [[0.76, 0.14], [0.58, 0.5], [0.44, 0.9]]],
  [[[0.66, 0.2], [0.5, 0.1], [0.34, 0.2], [0.42, 0.42], [0.64, 0.62], [0.66, 0.82], [0.48, 0.9], [0.34, 0.8], [0.4, 0.6],
    [0.62, 0.38], [0.66, 0.2]]],
  [[[0.68, 0.3], [0.5, 0.12], [0.3, 0.26], [0.38, 0.48], [0.62, 0.44], [0.68, 0.3]], [[0.68, 0.3], [0.66, 0.6], [0.6, 0.9]]],
];  // prettier-ignore

/** Strokes as lists of points in a unit square. */
let strokes = [];

function trace(context, points, place) {
  const [first, ...others] = points.map(place);
  context.beginPath();
  context.moveTo(...first);
  // Curves pass halfway between neighbouring points.
  others.forEach((point, i) => {
    const next = others[i + 1];
    if (next) context.quadraticCurveTo(...point, (point[0] + next[0]) / 2, (point[1] + next[1]) / 2);
    else context.lineTo(...point);
  });
  if (!others.length) context.lineTo(...first);
  context.stroke();
}

function paint(canvas, width, place) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#000";
  context.fillRect(0, 0, canvas.width, canvas.height);
  Object.assign(context, { strokeStyle: "#fff", lineWidth: width, lineCap: "round", lineJoin: "round" });
  strokes.forEach((points) => trace(context, points, place));
  return context;
}

/** The image that the network sees: as in MNIST, 20 pixels high or wide, its centre of mass in the middle of 28. */
function pixelsOf() {
  const points = strokes.flat();
  if (!points.length) {
    paint(seen, 0, (point) => point);
    return null;
  }
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const pen = 2.6;
  const scale = (20 - pen) / Math.max(Math.max(...xs) - left, Math.max(...ys) - top, 0.15);
  let [dx, dy] = [4, 4];
  const place = ([x, y]) => [(x - left) * scale + dx, (y - top) * scale + dy];
  const read = () => {
    const { data } = paint(seen, pen, place).getImageData(0, 0, 28, 28);
    return Array.from({ length: 784 }, (_, i) => data[4 * i]);
  };
  const image = read();
  const total = image.reduce((sum, pixel) => sum + pixel, 0) || 1;
  dx += Math.round(13.5 - image.reduce((sum, pixel, i) => sum + pixel * (i % 28), 0) / total);
  dy += Math.round(13.5 - image.reduce((sum, pixel, i) => sum + pixel * Math.floor(i / 28), 0) / total);
  return read();
}

// -- answers ------------------------------------------------------------------------------------------------

const written = (number, digits) => number.toLocaleString("en-US", { maximumSignificantDigits: digits });
const signed = (number) => `${number < 0 ? "\u2212" : "+"}${Math.abs(number).toFixed(2)}`;
const percent = (fraction, digits = 1) => `${(100 * fraction).toFixed(digits)} %`;

const signsOf = (text) => Array.from(text, (sign) => (sign === "+" ? 1 : -1));

/** The neurons of a network that add most to the score of a class. */
function firing({ side, entries }, terms, sums, chosen) {
  const values = terms.map(([signs, region, output, weight]) => {
    if (output !== chosen) return 0;
    const [u, v] = [signs.slice(0, side), signs.slice(side)].map(signsOf);
    let [value, at] = [0, region * entries];
    for (let a = 0; a < side; a++) {
      for (let b = a; b < side; b++) value += (a < b ? u[a] * v[b] + u[b] * v[a] : u[a] * v[a]) * sums[at++];
    }
    return weight * value;
  });
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  return order.slice(0, 12).filter((at) => values[at]).map((at) => ({ term: terms[at], value: values[at] }));
}

const SVG = "http://www.w3.org/2000/svg";

/** Squares in rows, of which some have a class. */
function squares(count, columns, classOf, label) {
  const svg = document.createElementNS(SVG, "svg");
  const rows = Math.ceil(count / columns);
  svg.setAttribute("viewBox", `-0.1 -0.1 ${columns + 0.2} ${rows + 0.2}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  for (let i = 0; i < count; i++) {
    const square = document.createElementNS(SVG, "rect");
    const place = { x: i % columns, y: Math.floor(i / columns), width: 1, height: 1, class: classOf(i) };
    for (const [name, value] of Object.entries(place)) square.setAttribute(name, value);
    svg.append(square);
  }
  return svg;
}

function card({ side, regions }, { term: [signs, region], value }) {
  const filters = [signs.slice(0, side), signs.slice(side)].map((own) => {
    const label = `filter ${own.slice(0, 9).replaceAll("-", "\u2212")}`;
    return squares(9, 3, (i) => (own[i] === "+" ? "plus" : ""), label);
  });
  const where = `region ${Math.floor(region / regions) + 1}, ${(region % regions) + 1}`;
  const map = squares(regions ** 2, regions, (i) => (i === region ? "here" : ""), where);
  return element("li", {}, ...filters, map, element("span", {}, signed(value)));
}

/** The chosen class of an image, or nothing without an image. */
function show() {
  const model = MODELS[slider.value];
  const facts = FACTS.networks[slider.value];
  const image = pixelsOf();
  paint(field, 22, ([x, y]) => [280 * x, 280 * y]);
  const sums = image && model.inputsOf(image);
  const scores = image ? model.scoresOf(sums) : new Array(10).fill(0);
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const best = scores.indexOf(top);
  const text = image ? String(best) : "\u2013";
  if (answer.textContent !== text) answer.textContent = text;
  bars.replaceChildren(
    ...powers.map((power, digit) => {
      const bar = element("div");
      bar.style.width = `${image ? (100 * power) / total : 0}%`;
      const number = element("span", { className: "number" }, image ? percent(power / total) : "");
      return element("li", {}, element("span", {}, String(digit)), bar, number);
    }),
  );
  const chosen = select.value === "" ? best : Number(select.value);
  const parts = image ? model.partsOf(sums)[chosen] : new Array(model.regions ** 2).fill(0);
  const largest = Math.max(...parts.map(Math.abs)) || 1;
  grid.replaceChildren(
    ...parts.map((value) => {
      const cell = element("span", {}, image ? signed(value) : "");
      const shade = value < 0 ? "--against-shade" : "--for-shade";
      cell.style.background = `rgba(var(${shade}), ${(0.75 * Math.abs(value)) / largest})`;
      return cell;
    }),
  );
  neurons.replaceChildren(...(image ? firing(model, facts.terms, sums, chosen) : []).map((one) => card(model, one)));
  const right = `${percent(facts.accuracy)} of the 10,000 test images right`;
  size.textContent = `${facts.bytes.toLocaleString("en-US")} bytes: ${facts.neurons} neurons, ${right}`;
  const rows = [
    ["proven beforehand", `every such network, of any width and with any second-layer weights, has an objective of at least ${written(FACTS.bound, 6)}`],
    ["this network", `${written(facts.objective, 6)}: none is more than ${percent(facts.gap, 2)} below it`],
    ["training", `${FACTS.samples.toLocaleString("en-US")} images, cross-entropy, beta ${written(FACTS.beta, 3)}; solved once in ${FACTS.seconds} s of one core for all sizes`],
  ];
  find(".certificate tbody").replaceChildren(
    ...rows.map(([name, fact]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, fact))),
  );
}

// -- controls -----------------------------------------------------------------------------------------------

const pointOf = (event) => {
  const box = field.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
};
field.addEventListener("pointerdown", (event) => {
  field.setPointerCapture(event.pointerId);
  // A drawing of ours makes place for yours.
  if (field.dataset.example) strokes = [];
  delete field.dataset.example;
  strokes.push([pointOf(event)]);
  show();
});
field.addEventListener("pointermove", (event) => {
  if (!field.hasPointerCapture(event.pointerId)) return;
  strokes.at(-1).push(pointOf(event));
  show();
});
find(".clear").addEventListener("click", () => {
  strokes = [];
  show();
});
function example(digit) {
  field.dataset.example = digit;
  strokes = DIGITS[digit];
  show();
}
DIGITS.forEach((_, digit) => {
  const button = element("button", { type: "button" }, String(digit));
  button.addEventListener("click", () => example(digit));
  find(".examples").append(button);
  select.append(new Option(digit, digit));
});
select.addEventListener("input", show);
slider.max = MODELS.length - 1;
slider.value = MODELS.length - 1;
slider.addEventListener("input", show);
example(3);
find(".need").hidden = true;
find(".work").hidden = false;
