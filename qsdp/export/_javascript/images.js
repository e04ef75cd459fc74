const { shape, size, stride, padding, regions, downsample, centre, constant } = MODEL.image;
const [height, width, channels] = shape;
const area = downsample ** 2;
const forms = [[height * width * channels], shape, ...(channels === 1 ? [[height, width]] : [])].map(String);
const OPTIONS = {};

/** The pixels of an image, flat or nested, row by row. */
function pixelsOf(image) {
  const sides = [];
  for (let part = image; isList(part); part = part[0]) sides.push(part.length);
  const allowed = `an image must have ${channels > 1 ? shape.join(" x ") : `${height} x ${width}`} numbers, flat or nested`;
  if (!forms.includes(String(sides))) throw new RangeError(`${allowed}; got ${sides.join(" x ") || quoted(image)}`);
  let parts = [image];
  for (const side of sides) {
    const wrong = parts.find((part) => !isList(part) || part.length !== side);
    if (wrong) throw new RangeError(`${allowed}; got ${isList(wrong) ? wrong.length : quoted(wrong)} in place of ${side}`);
    parts = parts.flatMap((part) => Array.from(part));
  }
  return parts.map((pixel, place) => finite(pixel, `pixel ${place}`));
}

const sides = [height, width].map((side) => Math.floor(side / downsample));
const [rows, lines] = sides.map((side) => side + 2 * padding);
const counts = [rows, lines].map((side) => Math.floor((side - size) / stride) + 1);
const side = size * size * channels + Number(constant > 0);

/** For every region, the sums of products of the numbers of its patches: upper triangles, row by row. */
function inputsOf(image, options) {
  checkOptions(options);
  const pixels = pixelsOf(image);
  const padded = new Float64Array(rows * lines * channels);
  for (let i = 0; i < sides[0] * downsample; i++) {
    for (let j = 0; j < sides[1] * downsample; j++) {
      const at = (Math.floor(i / downsample) + padding) * lines + Math.floor(j / downsample) + padding;
      for (let k = 0; k < channels; k++) padded[at * channels + k] += pixels[(i * width + j) * channels + k];
    }
  }
  const sums = new Float64Array(MODEL.inputs);
  const patch = new Float64Array(side).fill(constant * area);
  for (let i = 0; i < counts[0]; i++) {
    for (let j = 0; j < counts[1]; j++) {
      for (let row = 0, at = 0; row < size; row++) {
        const start = ((i * stride + row) * lines + j * stride) * channels;
        for (let k = 0; k < size * channels; k++) patch[at++] = padded[start + k] - centre * area;
      }
      addProducts(patch, sums, Math.floor((i * regions) / counts[0]) * regions + Math.floor((j * regions) / counts[1]));
    }
  }
  return sums;
}

const isList = (value) => Array.isArray(value) || ArrayBuffer.isView(value);

function finite(value, name) {
  const number = typeof value === "boolean" ? Number(value) : value;
  if (typeof number !== "number" || !(Math.abs(number) <= 1e100)) {
    throw new TypeError(`${name} must be a finite number; got ${quoted(value)}`);
  }
  return number;
}

/** Adds the products of the numbers of a vector, the upper triangle row by row, to the sums of a block. */
function addProducts(vector, sums, block) {
  let at = block * entries;
  for (let a = 0; a < side; a++) for (let b = a; b < side; b++) sums[at++] += vector[a] * vector[b];
}

const entries = (side * (side + 1)) / 2;
const { network } = MODEL;

/** Parts of every output by block. */
function partsOf(sums) {
  return network.entries.map((form, output) =>
    Array.from({ length: regions ** 2 }, (_, block) => {
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
    const terms = own.map((value, place) => ({ region: [Math.floor(place / regions), place % regions], value }));
    return { output: MODEL.effectOutputs[output], constant: rest[output], terms };
  });
}
