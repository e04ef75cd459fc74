const isList = (value) => Array.isArray(value) || ArrayBuffer.isView(value);

function finite(value, name) {
  const number = numeric(value);
  if (typeof number !== "number" || !(Math.abs(number) <= 1e100)) {
    throw new TypeError(`${name} must be a finite number; got ${quoted(value)}`);
  }
  return number;
}

/** Adds the products of the numbers of a vector, the upper triangle row by row, to the sums of a block. */
function addProducts(vector, sums, block, weight = 1) {
  let at = block * entries;
  for (let a = 0; a < side; a++) for (let b = a; b < side; b++) sums[at++] += weight * vector[a] * vector[b];
}

const entries = (side * (side + 1)) / 2;
const network = Object.fromEntries(
  Object.entries(MODEL.network).map(([name, part]) => [name, part?.data === undefined ? part : unpacked(part)]),
);

/** For each output, the coefficients of the sums of products, in its unit. */
function formOf() {
  const form = network.units.map((_, output) => network.entries?.slice(output * MODEL.inputs, (output + 1) * MODEL.inputs));
  if (network.entries) return form;
  const empty = form.map(() => new Float64Array(MODEL.inputs));
  network.weight.forEach((weight, neuron) => {
    const own = empty[network.output[neuron]];
    const [u, v] = [network.left, network.right].map((signs) => signs.subarray(neuron * side, (neuron + 1) * side));
    let at = network.block[neuron] * entries;
    for (let a = 0; a < side; a++) {
      for (let b = a; b < side; b++) own[at++] += weight * (a < b ? u[a] * v[b] + u[b] * v[a] : u[a] * v[a]);
    }
  });
  return empty;
}
let ready;

/** Parts of every output by block. */
function partsOf(sums) {
  ready ??= formOf();
  return ready.map((form, output) =>
    Array.from({ length: grid[0] * grid[1] }, (_, block) => {
      let sum = 0;
      for (let at = block * entries; at < (block + 1) * entries; at++) sum += form[at] * sums[at];
      return network.units[output] * sum;
    }),
  );
}

const scoresOf = (sums) => partsOf(sums).map((own, output) => own.reduce((sum, part) => sum + part, network.rest[output]));

function contributions(sample, options) {
  let parts = partsOf(inputsOf(sample, options));
  let rest = network.rest;
  if (decision === "argmax" && parts.length === 2) {
    parts = [parts[1].map((part, block) => part - parts[0][block])];
    rest = [rest[1] - rest[0]];
  }
  return parts.map((own, output) => {
    const terms = own.map((value, place) => ({ region: [Math.floor(place / grid[1]), place % grid[1]], value }));
    return { output: MODEL.effectOutputs[output], constant: rest[output], terms };
  });
}
