const network = Object.fromEntries(
  Object.entries(MODEL.network).map(([name, part]) => [name, part?.data === undefined ? part : unpacked(part)]),
);
const width = MODEL.width;
const outputs = Array.from({ length: MODEL.outputs }, (_, output) => output);

/** Second-layer weights of shape (neurons, outputs), most of which may be zero. */
function weightsOf({ alpha, served }) {
  let next = 0;
  return served ? served.map((bit) => (bit ? alpha[next++] : 0)) : alpha;
}
const weights = network.left && weightsOf(network);

/** Calls `use` with weights of the inputs, weight of the constant, and second-layer weights of every neuron. */
function forNeurons(use) {
  const { left, right = left, tail } = network;
  const side = width + tail.length;
  const constant = (side, start) => tail.reduce((sum, value, place) => sum + value * side[start + width + place], 0);
  for (let neuron = 0, start = 0; start < left.length; neuron++, start += side) {
    use(left, constant(left, start), right, constant(right, start), start, neuron * outputs.length);
  }
}

/** For each output, the coefficients of z_i z_j, i <= j, row by row, for z = (inputs, 1). */
function formOf() {
  const D = width + 1;
  const size = (D * (D + 1)) / 2;
  const form = outputs.map(() => new Float64Array(size));
  const add = (entryOf) => {
    for (let i = 0, at = 0; i < D; i++) for (let j = i; j < D; j++, at++) entryOf(i, j, at);
  };
  if (network.entries) {
    const { entries, units, lift } = network;
    add((i, j, at) => {
      const factor = (i < j ? 2 : 1) * lift[(i === width) + (j === width)];
      form.forEach((own, output) => (own[at] = units[output] * factor * entries[output * size + at]));
    });
  } else {
    forNeurons((left, p, right, q, start, first) => {
      const [a, b] = [[left, p], [right, q]].map(([side, last]) => [...side.subarray(start, start + width), last]);
      form.forEach((own, output) => {
        const weight = weights[first + output];
        if (weight) add((i, j, at) => (own[at] += weight * (i < j ? a[i] * b[j] + a[j] * b[i] : a[i] * b[i])));
      });
    });
  }
  form.forEach((own, output) => (own[size - 1] += network.rest[output]));
  return form;
}
let ready;
const form = () => (ready ??= formOf());

/** Scores of all outputs for the inputs of the network. */
function scoresOf(x) {
  if (!network.left) {
    const z = [...x, 1];
    return form().map((own) => {
      let sum = 0;
      for (let i = 0, at = 0; i <= width; i++) {
        let row = 0;
        for (let j = i; j <= width; j++, at++) row += own[at] * z[j];
        sum += z[i] * row;
      }
      return sum;
    });
  }
  const sums = Array.from(network.rest);
  forNeurons((left, p, right, q, start, first) => {
    for (let i = 0; i < width; i++) p += left[start + i] * x[i];
    if (right === left) q = p;
    else for (let i = 0; i < width; i++) q += right[start + i] * x[i];
    for (let output = 0; output < sums.length; output++) sums[output] += weights[first + output] * p * q;
  });
  return sums;
}
