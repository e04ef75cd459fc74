/**
 * Checks certificates of qsdp in a browser or in Node: a port of `qsdp_check.py`, whose first page says what is proven.
 *
 * It reads files of data in blocks whose rows are in the file, or follow from the images given beside it, with every
 * loss. It refuses others by name: statistics, sums, batches and data without blocks are for `qsdp-check`. Sums are in
 * any order, as the allowances for rounding permit.
 */

const MAGIC = "qsdp certificate 2\n";
const EPS = 2 ** -52;
const TOLERANCE = 1e-9;
const LOSSES = ["squared", "absolute", "huber", "hinge", "squared_hinge", "logistic", "cross_entropy", "piecewise quadratic"];
const KINDS = {
  fiu:
    "X forms y sample_weight nu alpha scores steps mixture shifts cut_weights interval activation parameters " +
    "inverse_curvature beta lower_bound objective omega gram products squares",
  iu: "levels U V order leaves lengths signs cuts cut_lengths cut_nodes cut_values n_samples block sizes patches",
  b: "shifted linear",
  U: "loss label bound_type arithmetic data_sha256 rows_sha256",
};
const SINGLE = "beta lower_bound objective inverse_curvature levels n_samples " + KINDS.U;

/** The reason why a certificate does not hold. */
export class ClaimError extends Error {}
/** Why nothing is known of a file: it is of a kind that is checked by `qsdp-check` only, or time is over. */
export class Undecided extends Error {}

function need(condition, reason) {
  if (!condition) throw new ClaimError(reason);
}

// -- bytes ----------------------------------------------------------------------------------------------------------

const primes = Array.from({ length: 311 }, (_, k) => k + 2).filter((k) => {
  for (let j = 2; j * j <= k; j++) if (k % j === 0) return false;
  return true;
});
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const ROUNDS = Int32Array.from(primes.slice(0, 64), (p) => fraction(Math.cbrt(p)));

/** SHA-256 of bytes in hexadecimal digits. */
export function sha256(bytes) {
  const state = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, 8n * BigInt(bytes.length));
  const w = new Int32Array(64);
  const turned = (x, by) => (x >>> by) | (x << (32 - by));
  for (let start = 0; start < padded.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const [a, b] = [w[i - 15], w[i - 2]];
      w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ (a >>> 3)) + w[i - 7] + (turned(b, 17) ^ turned(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((own, i) => (state[i] += own));
  }
  return Array.from(state, (own) => (own >>> 0).toString(16).padStart(8, "0")).join("");
}

const CRC = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

function crc32(bytes) {
  let sum = -1;
  for (const byte of bytes) sum = (sum >>> 8) ^ CRC[(sum ^ byte) & 255];
  return ~sum >>> 0;
}

const textOf = (bytes) => String.fromCharCode(...bytes);

/** The members of an uncompressed zip archive by name: their bytes, and the places of their checksums. */
function membersOf(body) {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  let end = body.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new Error("not a zip archive");
  const members = new Map();
  let at = view.getUint32(end + 16, true);
  for (let count = view.getUint16(end + 10, true); count > 0; count--) {
    if (view.getUint32(at, true) !== 0x02014b50) throw new Error("the directory of the archive is damaged");
    need(view.getUint16(at + 10, true) === 0, "the archive is compressed");
    const [crc, size, full] = [16, 20, 24].map((place) => view.getUint32(at + place, true));
    const [length, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const name = textOf(body.subarray(at + 46, at + 46 + length));
    const local = view.getUint32(at + 42, true);
    if (view.getUint32(local, true) !== 0x04034b50 || size !== full) throw new Error(`${name} is damaged`);
    const nameLength = view.getUint16(local + 26, true);
    if (textOf(body.subarray(local + 30, local + 30 + nameLength)) !== name) throw new Error(`${name} has two names`);
    const start = local + 30 + nameLength + view.getUint16(local + 28, true);
    const bytes = body.subarray(start, start + size);
    if (bytes.length !== size || crc32(bytes) !== crc) throw new Error(`${name} has a bad checksum`);
    members.set(name, { bytes, sums: [at + 16, local + 14] });
    at += 46 + length + extra + comment;
  }
  return members;
}

const READ = {
  f8: (view, at) => view.getFloat64(at, true), f4: (view, at) => view.getFloat32(at, true),
  i1: (view, at) => view.getInt8(at), i2: (view, at) => view.getInt16(at, true), i4: (view, at) => view.getInt32(at, true),
  i8: (view, at) => Number(view.getBigInt64(at, true)), u8: (view, at) => Number(view.getBigUint64(at, true)),
  u1: (view, at) => view.getUint8(at), u2: (view, at) => view.getUint16(at, true), u4: (view, at) => view.getUint32(at, true),
  b1: (view, at) => view.getUint8(at),
};  // prettier-ignore

/** An array in NumPy's format: its shape, the kind of its entries, and these as numbers, or as one text. */
function arrayOf(bytes) {
  if (textOf(bytes.subarray(0, 6)) !== "\x93NUMPY") throw new Error("a member is no array");
  const wide = bytes[6] > 1;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const start = (wide ? 12 : 10) + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = textOf(bytes.subarray(wide ? 12 : 10, start));
  const match = /^\{'descr': '[<|]([a-zA-Z])(\d+)', 'fortran_order': (False|True), 'shape': \(([\d, ]*)\), \} *\n$/.exec(header);
  if (!match) throw new Error(`an array has the header ${header}`);
  const [, kind, width, fortran, sides] = match;
  const shape = sides.split(",").filter((side) => side.trim()).map(Number);
  const size = shape.reduce((product, side) => product * side, 1);
  const bytesOfOne = kind === "U" ? 4 * width : Number(width);
  if (fortran === "True" && shape.length > 1) throw new Error("an array is stored by columns");
  if (bytes.length !== start + size * bytesOfOne) throw new Error("an array has another length than its shape");
  if (kind === "U") {
    const letters = Array.from({ length: size * width }, (_, i) => view.getUint32(start + 4 * i, true));
    return { shape, kind, start, text: String.fromCodePoint(...letters).replace(/\0+$/, "") };
  }
  const read = READ[kind + width];
  const values = read ? Float64Array.from({ length: size }, (_, i) => read(view, start + i * bytesOfOne)) : null;
  return { shape, kind, start, values };
}

function arraysOf(body) {
  const found = new Map();
  for (const [name, { bytes }] of membersOf(body)) found.set(name.replace(/\.npy$/, ""), arrayOf(bytes));
  return found;
}

/** The arrays of a file, each of which must be there when it is asked for. */
class Fields {
  constructor(arrays) {
    this.arrays = arrays;
  }
  has(name) {
    return this.arrays.has(name);
  }
  get(name) {
    if (!this.has(name)) throw new Error(`it has no ${name}`);
    return this.arrays.get(name);
  }
  number(name) {
    const { values } = this.get(name);
    if (values?.length !== 1) throw new Error(`${name} is no number`);
    return values[0];
  }
  text(name) {
    return this.get(name).text;
  }
  list(name) {
    const { shape, values } = this.get(name);
    if (shape.length !== 1 && values.length) throw new Error(`${name} is no vector`);
    return spread(values);
  }
}

const same = (first, second) => String(first) === String(second) && first.length === second.length;
const finite = (values) => values.every(Number.isFinite);
const spread = (values) => Array.from(values);

const headOf = (contents) => textOf(contents.subarray(0, MAGIC.length));

/** Split a file into its digest and what follows it. */
function partsOf(contents) {
  if (headOf(contents) !== MAGIC) throw new Undecided("it is not a certificate of qsdp, version 2");
  const [line, body] = [contents.subarray(MAGIC.length, MAGIC.length + 65), contents.slice(MAGIC.length + 65)];
  return { line: textOf(line), body };
}

function withDigest(body) {
  const head = new TextEncoder().encode(`${MAGIC}${sha256(body)}\n`);
  const made = new Uint8Array(head.length + body.length);
  made.set(head);
  made.set(body, head.length);
  return made;
}

/** A file with one entry of an array changed by a function, and with checksums and digest that are right again. */
export function changed(contents, name, place, change) {
  const { body } = partsOf(contents);
  const { bytes, sums } = membersOf(body).get(`${name}.npy`);
  const { kind, start, values } = arrayOf(bytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const number = change(values[place]);
  if (kind === "f") view.setFloat64(start + 8 * place, number, true);
  else view.setInt8(start + place, number);
  for (const at of sums) new DataView(body.buffer).setUint32(at, crc32(bytes), true);
  return withDigest(body);
}

// -- the data -------------------------------------------------------------------------------------------------------

function read(contents, given) {
  const { line, body } = partsOf(contents);
  need(line === `${sha256(body)}\n`, "the contents do not match their digest");
  const arrays = arraysOf(body);
  for (const [kinds, names] of Object.entries(KINDS)) {
    for (const name of names.split(" ")) {
      const kind = arrays.get(name)?.kind;
      need(!kind || (kinds.includes(kind) && (kind === "U" || arrays.get(name).values)), `the entries of ${name} have a wrong type`);
    }
  }
  for (const name of SINGLE.split(" ")) need(!arrays.get(name)?.shape.length, "a number or a text is an array");
  arrays.delete("given");
  arrays.delete("images");
  const f = new Fields(arrays);
  for (const [name, what] of [["gram", "sums"], ["forms", "statistics"], ["rows_sha256", "batches"], ["scores", "batches"]]) {
    if (f.has(name)) throw new Undecided(`files of ${what} are checked by qsdp-check only`);
  }
  if (!f.has("sizes")) throw new Undecided("data without blocks are checked by qsdp-check only");
  if (given) for (const [name, array] of dataOf(f, arraysOf(given))) arrays.set(name, array);
  need(f.has("X"), "the file holds only a digest of its data: give them with --data");
  return { f, digest: digestOf(f) };
}

/** The data given, which must be those of the file. */
function dataOf(f, archive) {
  const data = new Map([...archive].filter(([name]) => ["X", "y", "sample_weight"].includes(name)));
  if (f.has("patches") && archive.has("images")) data.set("X", packedRows(archive.get("images"), f.list("patches")));
  if (f.text("loss") === "cross_entropy" && data.get("y").shape.length === 1) {
    const C = f.get("alpha").shape[1];
    const labels = data.get("y").values;
    const values = Float64Array.from({ length: labels.length * C }, (_, i) => Number(labels[Math.floor(i / C)] === i % C));
    data.set("y", { shape: [labels.length, C], kind: "f", values });
  }
  const weights = data.get("sample_weight")?.values;
  if (weights?.some((own) => own <= 0)) {
    const kept = spread(weights.keys()).filter((i) => weights[i] > 0);
    for (const [name, { shape, kind, values }] of data) {
      const width = values.length / shape[0];
      const rows = kept.flatMap((i) => spread(values.subarray(i * width, (i + 1) * width)));
      data.set(name, { shape: [kept.length, ...shape.slice(1)], kind, values: Float64Array.from(rows) });
    }
  }
  if (data.get("sample_weight")?.values.every((own) => own === 1)) data.delete("sample_weight");
  const stored = f.has("data_sha256") ? f.text("data_sha256") : digestOf(f);
  need(digestOf(new Fields(data)) === stored, "the certificate does not belong to the data given");
  return data;
}

/** SHA-256 of the shapes, as text, and the little-endian floats of the data: X, y and weights, if any. */
function digestOf(f) {
  const parts = [];
  for (const name of ["X", "y", "sample_weight"]) {
    if (!f.has(name)) continue;
    const { shape, values } = f.get(name);
    parts.push(new TextEncoder().encode(`(${shape.join(", ")}${shape.length === 1 ? "," : ""})`));
    // Minus zero counts as zero. Floats of typed arrays are little-endian wherever browsers run.
    parts.push(new Uint8Array(values.map((own) => own + 0).buffer));
  }
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return sha256(all);
}

/** The packed rows of images, which the integers of a file describe. */
export function packedRows(images, patches) {
  if (patches.length !== 8) throw new Error("patches have other numbers than eight");
  const [size, stride, padding, regions, pooling, centre, constant, floats] = patches;
  const { shape, kind, values } = images;
  need("iu".includes(kind) && (shape.length === 3 || shape.length === 4), "the images are not integers (n, height, width)");
  const sound = Math.min(size, stride, regions, pooling) > 0 && padding >= 0 && padding < size && [0, 4, 8].includes(floats);
  need(sound, "invalid patches");
  const [n, tall, wide, channels = 1] = shape;
  const [height, width] = [tall, wide].map((side) => Math.floor(side / pooling));
  const [rows, lines] = [height, width].map((side) => side + 2 * padding);
  const counts = [rows, lines].map((side) => Math.floor((side - size) / stride) + 1);
  need(Math.min(...counts) >= regions, "some regions have no patches");
  const N = size * size * channels + Number(constant !== 0);
  const entries = (N * (N + 1)) / 2;
  const P = regions * regions * entries;
  const found = new Float64Array(n * P);
  const members = new Float64Array(regions * regions);
  const patch = new Float64Array(N).fill(constant);
  const regionOf = (i, j) => Math.floor((i * regions) / counts[0]) * regions + Math.floor((j * regions) / counts[1]);
  for (let i = 0; i < counts[0]; i++) for (let j = 0; j < counts[1]; j++) members[regionOf(i, j)]++;
  let largest = Math.abs(constant);
  for (let image = 0; image < n; image++) {
    const padded = new Float64Array(rows * lines * channels);
    for (let i = 0; i < height * pooling; i++) {
      for (let j = 0; j < width * pooling; j++) {
        const at = (Math.floor(i / pooling) + padding) * lines + Math.floor(j / pooling) + padding;
        for (let k = 0; k < channels; k++) padded[at * channels + k] += values[((image * tall + i) * wide + j) * channels + k];
      }
    }
    for (let i = 0; i < counts[0]; i++) {
      for (let j = 0; j < counts[1]; j++) {
        for (let row = 0, at = 0; row < size; row++) {
          const start = ((i * stride + row) * lines + j * stride) * channels;
          for (let k = 0; k < size * channels; k++) largest = Math.max(largest, Math.abs((patch[at++] = padded[start + k] - centre)));
        }
        let at = image * P + regionOf(i, j) * entries;
        for (let a = 0; a < N; a++) for (let b = a; b < N; b++) found[at++] += patch[a] * patch[b];
      }
    }
  }
  // Sums of integers in double precision are exact up to 2^53.
  need(largest ** 2 * counts[0] * counts[1] < 2 ** 53, "the pixels are too large");
  if (floats) {
    const rounded = floats === 4 ? Math.fround : (number) => number;
    found.forEach((sum, at) => (found[at] = rounded(sum / members[Math.floor((at % P) / entries)])));
  }
  return { shape: [n, P], kind: floats ? "f" : "i", values: found };
}

// -- the loss -------------------------------------------------------------------------------------------------------

/** The sum of numbers, rounded once (Shewchuk). */
export function exactSum(numbers) {
  const parts = [];
  for (let x of numbers) {
    let count = 0;
    for (let y of parts) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) parts[count++] = low;
      x = high;
    }
    parts.length = count;
    parts.push(x);
  }
  let high = parts.pop() ?? 0;
  let low = 0;
  while (parts.length && !low) {
    const [x, y] = [high, parts.pop()];
    high = x + y;
    low = y - (high - x);
  }
  // Half a unit in the last place is rounded away from zero if more follows on its side.
  if (parts.length && Math.sign(low) === Math.sign(parts.at(-1))) {
    const twice = 2 * low;
    const next = high + twice;
    if (twice === next - high) high = next;
  }
  return high;
}

const clip = (value, low, high) => Math.min(Math.max(value, low), high);

/** The weighted loss of a file, of targets y (n, C). */
class Loss {
  constructor(f, y, shape, w) {
    Object.assign(this, { name: f.text("loss"), y, shape, w, c: 0, C: shape[1] ?? 1 });
    const { name } = this;
    need(LOSSES.includes(name), `the loss '${name}' is unknown`);
    if (["logistic", "hinge", "squared_hinge"].includes(name)) need(y.every((own) => Math.abs(own) === 1), "the targets are not labels -1, +1");
    if (name === "cross_entropy") {
      const sums = w.map((_, i) => y.subarray(i * this.C, (i + 1) * this.C).reduce((sum, own) => sum + own, 0));
      need(shape.length === 2 && y.every((own) => own === 0 || own === 1) && sums.every((own) => own === 1), "the targets are not one-hot");
    }
    let [a, b] = [[0], [0]];
    if (name === "piecewise quadratic") {
      this.c = f.number("inverse_curvature");
      const { shape: sides, values } = f.get("interval");
      if (sides[0] !== 2) throw new Error("the interval has other ends than two");
      need(sides.length === 1 || same(sides.slice(1), shape), "an interval lacks zero");
      [a, b] = [values.subarray(0, values.length / 2), values.subarray(values.length / 2)];
    } else if (!["logistic", "cross_entropy"].includes(name)) {
      const delta = name === "huber" ? f.get("parameters").values[0] : 1;
      if (delta === undefined) throw new Error("Huber's loss has no parameter");
      need(delta > 0 && delta < Infinity, "Huber's parameter is not positive");
      this.c = ["squared", "huber", "squared_hinge"].includes(name) ? 0.5 : 0;
      const end = { squared: Infinity, absolute: 1, huber: 2 * delta }[name];
      if (end) [a, b] = [[-end], [end]];
      else if (name === "hinge") [a, b] = [y.map((own) => Math.min(own, 0)), y.map((own) => Math.max(own, 0))];
      else [a, b] = [y.map((own) => (own < 0 ? -Infinity : 0)), y.map((own) => (own > 0 ? Infinity : 0))];
    }
    Object.assign(this, { a: (i) => a[i % a.length], b: (i) => b[i % b.length] });
    need(a.every((own) => own <= 0) && b.every((own) => own >= 0), "an interval lacks zero");
    const bounded = a.every((own, i) => Number.isFinite(b[i] - own));
    need(this.c >= 0 && this.c < Infinity && (this.c > 0 || bounded), "the loss is infinite");
  }

  weight(i) {
    return this.w[Math.floor(i / this.C)];
  }

  /** The weighted loss of predictions t. */
  value(t) {
    const { name, y, w, c, C } = this;
    if (name === "cross_entropy") {
      return exactSum(
        w.map((weight, i) => {
          const own = t.subarray(i * C, (i + 1) * C);
          const top = Math.max(...own);
          const sum = own.reduce((all, one) => all + Math.exp(one - top), 0);
          const right = own.reduce((all, one, k) => all + y[i * C + k] * one, 0);
          return weight * (top + Math.log(sum) - right);
        }),
      );
    }
    return exactSum(
      t.map((one, i) => {
        if (name === "logistic") return this.weight(i) * (Math.max(0, -y[i] * one) + Math.log1p(Math.exp(-Math.abs(y[i] * one))));
        const r = y[i] - one;
        const nu = c > 0 ? clip(r / c, this.a(i), this.b(i)) : r > 0 ? this.b(i) : this.a(i);
        return this.weight(i) * nu * (r - (c / 2) * nu);
      }),
    );
  }

  /** p = u + y of u = -nu / w, of the cross-entropy; of the logistic loss that of the label, y nu / w. */
  probabilities(nu) {
    const coupled = this.name === "cross_entropy";
    return nu.map((own, i) => (coupled ? this.weight(i) * this.y[i] - own : this.y[i] * own) / this.weight(i));
  }

  checkDomain(nu) {
    const coupled = this.name === "cross_entropy";
    if (coupled || this.name === "logistic") {
      const p = this.probabilities(nu);
      // The own class of a sample has 1 - nu, which rounds; the signs of the others are exact.
      need(p.every((own, i) => own >= (coupled ? -EPS * this.y[i] : 0)), "the dual vector leaves its domain, p >= 0");
      need(p.every((own) => own <= 1 + (coupled ? 1e-12 : 0)), "the dual vector leaves its domain, p <= 1");
    } else {
      const within = nu.every((own, i) => own >= this.weight(i) * this.a(i) && own <= this.weight(i) * this.b(i));
      need(within, "the dual vector leaves its domain, w a <= nu <= w b");
    }
  }

  /** -l*(-nu) less an allowance, for 1 - 4 eps times the nu given, which must lie in the domain. */
  dualValue(given) {
    this.checkDomain(given);
    const nu = given.map((own) => (1 - 4 * EPS) * own);
    let terms, size = 0;
    if (["logistic", "cross_entropy"].includes(this.name)) {
      const p = this.probabilities(nu).map((own) => Math.max(own, 0));
      terms = p.map((own, i) => {
        let entropy = own > 0 ? -own * Math.log(own) : 0;
        if (this.name === "logistic") entropy -= (1 - own) * Math.log1p(-(own < 1 ? own : 0));
        return this.weight(i) * entropy;
      });
      // Rounding p changes its entropy by less than 16 eps: p log p is below 1, the slope next to p = 1 below 36.
      size = exactSum(nu.map((_, i) => this.weight(i)));
    } else {
      terms = [...nu.map((own, i) => own * this.y[i]), ...nu.map((own, i) => ((-this.c / 2) * own) / this.weight(i) * own)];
    }
    return exactSum(terms) - 16 * EPS * (exactSum(terms.map(Math.abs)) + size);
  }
}

// -- blocks ---------------------------------------------------------------------------------------------------------

/** Places of packed entries in the matrices of blocks, and factors of these matrices. */
class Blocks {
  constructor(f, P) {
    const [sizes, linear, omega] = ["sizes", "linear", "omega"].map((name) => f.get(name));
    const fits = sizes.shape.length === 1 && same(sizes.shape, linear.shape) && same(sizes.shape, omega.shape);
    need(fits, "the blocks do not fit together");
    Object.assign(this, { sizes: spread(sizes.values), linear: spread(linear.values) });
    const counts = this.sizes.map((N, r) => (this.linear[r] ? N : (N * (N + 1)) / 2));
    const total = counts.reduce((sum, own) => sum + own, 0);
    need(Math.min(...this.sizes, Infinity) > 0 && this.sizes.length && total === P, "the blocks do not fit their rows");
    // Within these limits, dividing by a price neither overflows nor loses digits.
    need(omega.values.every((own) => own >= 1e-100 && own <= 1e100), "a penalty factor is not positive, or extreme");
    this.factors = this.sizes.map((N, r) => 1 / (omega.values[r] * N));
    this.side = Math.max(...this.sizes);
    let start = 0;
    this.starts = counts.map((own) => (start += own) - own);
  }

  /** Calls `use` with row, column and place of every packed entry of a block. */
  forEntries(r, use) {
    let at = this.starts[r];
    for (let a = 0; a < this.sizes[r]; a++) {
      if (this.linear[r]) use(a, a, at++);
      else for (let b = a; b < this.sizes[r]; b++) use(a, b, at++);
    }
  }

  /** Vectors (P, C), by outputs, whose products with packed rows are the predictions. */
  entries({ U, V, alpha, block, C }, P) {
    const found = Array.from({ length: C }, () => new Float64Array(P));
    block.forEach((r, j) => {
      const [u, v] = [U, V].map((side) => side.subarray(j * this.side, (j + 1) * this.side));
      found.forEach((own, c) => {
        const weight = alpha[j * C + c];
        if (!weight) return;
        this.forEntries(r, (a, b, at) => {
          own[at] += weight * (this.linear[r] ? u[a] : a < b ? u[a] * v[b] + u[b] * v[a] : u[a] * v[a]);
        });
      });
    });
    return found;
  }

  /** The matrices of packed entries, filled to the largest side, and the sums of what these err by. */
  matrices(entries, errors) {
    return this.sizes.map((_, r) => {
      const M = Array.from({ length: this.side }, () => new Float64Array(this.side));
      let missed = 0;
      this.forEntries(r, (a, b, at) => {
        M[a][b] = M[b][a] = this.factors[r] * entries[at];
        missed += (a < b ? 2 : 1) * this.factors[r] * (errors[at] + 4 * EPS * Math.abs(entries[at]));
      });
      return { M, rounding: 1.01 * missed };
    });
  }
}

/** sum_i nu_i F_i, the sum of its magnitudes, and by what fraction of them rounding can change it. */
function sumsOver(X, n, P, nu) {
  const step = Math.max(64, Math.floor(Math.sqrt(n)));
  const [total, sizes] = [new Float64Array(P), new Float64Array(P)];
  for (let start = 0; start < n; start += step) {
    const [part, size] = [new Float64Array(P), new Float64Array(P)];
    for (let i = start; i < Math.min(start + step, n); i++) {
      for (let at = 0; at < P; at++) {
        const term = nu(i) * X[i * P + at];
        part[at] += term;
        size[at] += Math.abs(term);
      }
    }
    for (let at = 0; at < P; at++) {
      total[at] += part[at];
      sizes[at] += size[at];
    }
  }
  return { total, sizes, unit: ((Math.min(step, n) + Math.ceil(n / step) + 12) * EPS) / 2 };
}

/** Samples as packed rows, with targets and a loss. */
class Rows {
  constructor(f) {
    const [X, y] = [f.get("X"), f.get("y")];
    if (X.shape.length !== 2) throw new Error("the rows are no matrix");
    const [n, P] = X.shape;
    const weights = f.has("sample_weight") ? f.get("sample_weight") : { shape: [n], values: new Float64Array(n).fill(1) };
    const fits = [1, 2].includes(y.shape.length) && n > 0 && y.shape[0] === n && y.values.length && same(weights.shape, [n]);
    need(fits, "the shapes do not fit");
    need(finite(X.values) && finite(y.values), "some numbers are not finite");
    need(weights.values.every((own) => own > 0 && own < Infinity), "the sample weights are not positive");
    Object.assign(this, { f, X: X.values, n, P, w: weights.values, shape: y.shape.slice(1), C: y.shape[1] ?? 1 });
    this.loss = new Loss(f, y.values, y.shape, this.w);
    this.blocks = new Blocks(f, P);
  }

  /** The losses of a network and of zero. */
  objective(network) {
    const { n, P, C, X } = this;
    const vectors = this.blocks.entries(network, P);
    const found = new Float64Array(n * C);
    for (let i = 0; i < n; i++) {
      vectors.forEach((own, c) => {
        let sum = 0;
        for (let at = 0; at < P; at++) sum += X[i * P + at] * own[at];
        found[i * C + c] = sum;
      });
    }
    return [this.loss.value(found), this.loss.value(new Float64Array(n * C))];
  }

  /** The matrices of all outputs and blocks, and what rounding can add to a pricing value. */
  matrices() {
    const { n, P, C, X, w } = this;
    const { shape, values: nu } = this.f.get("nu");
    need(same(shape, this.loss.shape) && finite(nu), "the dual vector does not fit the targets");
    this.nu = nu;
    let moved = new Float64Array(P);
    if (this.loss.name === "cross_entropy") {
      // Probabilities of a sample must sum to one; what they miss moves the matrix.
      const defects = w.map((_, i) => {
        const own = nu.subarray(i * C, (i + 1) * C);
        return Math.abs(own.reduce((sum, one) => sum + one, 0)) + C * EPS * own.reduce((sum, one) => sum + Math.abs(one), 0);
      });
      need(defects.every((own, i) => own <= 1e-12 * w[i] * (C + 1)), "the dual vector leaves its domain, sum p = 1");
      moved = sumsOver(X, n, P, (i) => defects[i]).sizes;
    }
    return Array.from({ length: C }, (_, c) => {
      const { total, sizes, unit } = sumsOver(X, n, P, (i) => nu[i * C + c]);
      return this.blocks.matrices(total, sizes.map((own, at) => unit * own + moved[at]));
    }).flat();
  }
}

// -- trees ----------------------------------------------------------------------------------------------------------

/** The vectors and weights of the cuts of each leaf, of so many coordinates; files may have none at all. */
function cutsOf(f, sizes) {
  if (!f.has("cuts")) return sizes.map(() => ({ vectors: [], weights: [] }));
  const [counts, lengths, nodes, values] = ["cuts", "cut_lengths", "cut_nodes", "cut_values"].map((name) => f.list(name));
  const weights = f.list("cut_weights");
  const sum = (numbers) => numbers.reduce((all, own) => all + own, 0);
  need(Math.min(0, ...counts, ...lengths) >= 0 && counts.length === sizes.length, "the cuts do not fit the leaves");
  need(sum(counts) === lengths.length && lengths.length === weights.length, "the cuts do not fit the leaves");
  need(sum(lengths) === nodes.length && nodes.length === values.length, "the cuts do not fit their entries");
  let [cut, entry] = [0, 0];
  return counts.map((count, leaf) => {
    const size = sizes[leaf];
    const vectors = lengths.slice(cut, cut + count).map((length) => {
      const own = nodes.slice(entry, entry + length);
      need(own.every((node) => node >= 0 && node < size) && new Set(own).size === length, "a cut has a wrong entry");
      const vector = new Float64Array(size);
      own.forEach((node, i) => (vector[node] = values[entry + i]));
      entry += length;
      return vector;
    });
    cut += count;
    return { vectors, weights: weights.slice(cut - count, cut) };
  });
}

/** For each output and block the order and the leaves of its tree. */
function treesOf(f, N) {
  const [signs, lengths, leaves] = ["signs", "lengths", "leaves"].map((name) => f.list(name));
  const [order, shifted, shifts] = ["order", "shifted", "shifts"].map((name) => f.get(name));
  if (order.shape.length !== 2) throw new Error("the trees have no orders");
  const cuts = cutsOf(f, lengths.map((k) => 1 + 2 * N - k));
  let [leaf, sign, shift] = [0, 0, 0];
  const width = order.shape[1];
  const trees = [];
  for (let tree = 0; tree < Math.min(order.shape[0], leaves.length); tree++) {
    const found = [];
    const last = leaf + leaves[tree];
    for (let one = leaf; one < Math.min(last, lengths.length, shifted.values.length); one++) {
      const k = lengths[one];
      need(k >= 0 && k <= Math.min(N, signs.length - sign), "the leaves do not fit their signs");
      const size = shifted.values[one] ? 1 + 2 * N - k : 0;
      need(size || !cuts[one].weights.length, "a leaf has cuts and no shift");
      const z = size ? shifts.values.subarray(shift, (shift += size)) : null;
      found.push({ s: signs.slice(sign, (sign += k)), z, flat: shifts.shape.length === 1, ...cuts[one] });
    }
    need(found.length === leaves[tree] && leaves[tree] > 0, "a tree lacks leaves");
    trees.push({ order: spread(order.values.subarray(tree * width, (tree + 1) * width)), leaves: found });
    leaf = last;
  }
  need(trees.length === leaves.length && leaves.length === order.shape[0], "the trees do not fit together");
  const ended = sign === signs.length && shift >= shifts.values.length && leaf === lengths.length;
  need(ended && leaf === shifted.values.length, "some leaves have no tree");
  return trees;
}

const norm = (vector) => vector.reduce((sum, own) => sum + Math.abs(own), 0);

/**
 * The largest 1-norm of M u over u[order[:k]] = s. Signs are added one at a time; a partial vector is dropped if its norm
 * plus those of all columns to come cannot exceed a norm that has been attained.
 */
function enumerateLeaf(M, order, s, end) {
  const signs = s.length ? s : [1];
  const column = (j) => Float64Array.from(M, (row) => row[order[j]]);
  const fixed = new Float64Array(M.length);
  signs.forEach((sign, j) => column(j).forEach((own, i) => (fixed[i] += sign * own)));
  const rest = order.slice(signs.length).map((_, j) => column(signs.length + j)).filter((own) => own.some((x) => x !== 0));
  need(rest.length <= 40, `a leaf of ${rest.length} free signs has too many sign vectors to enumerate`);
  const tails = rest.map((_, j) => rest.slice(j).reduce((sum, own) => sum + norm(own), 0) * (1 + 1e-12));
  let [best, tried] = [0, 0];
  const visit = (j, head) => {
    const size = norm(head);
    if (j === rest.length) {
      best = Math.max(best, size);
      return;
    }
    if (size + tails[j] <= best) return;
    if (++tried % 65536 === 0 && Date.now() > end) throw new Undecided("it is not decided in time");
    for (const sign of [1, -1]) visit(j + 1, head.map((own, i) => own + sign * rest[j][i]));
  };
  visit(0, fixed);
  return best;
}

/** Eigenvalues of a symmetric matrix by cyclic rotations (Jacobi), and what rounding can change them by. */
export function eigenvaluesOf(matrix) {
  // Squares of entries must not overflow.
  const unit = Math.max(...matrix.map((row) => Math.max(...row.map(Math.abs)))) || 1;
  const A = matrix.map((row) => Float64Array.from(row, (own) => own / unit));
  const n = A.length;
  const size = Math.sqrt(A.reduce((sum, row) => sum + row.reduce((all, own) => all + own * own, 0), 0));
  let sweeps = 0;
  for (let off = size; off > EPS * size && sweeps < 40; sweeps++) {
    off = 0;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        off = Math.max(off, Math.abs(A[p][q]));
        if (!A[p][q]) continue;
        const theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const c = 1 / Math.hypot(t, 1);
        const s = t * c;
        for (let i = 0; i < n; i++) [A[i][p], A[i][q]] = [c * A[i][p] - s * A[i][q], s * A[i][p] + c * A[i][q]];
        for (let i = 0; i < n; i++) [A[p][i], A[q][i]] = [c * A[p][i] - s * A[q][i], s * A[p][i] + c * A[q][i]];
      }
    }
  }
  // Every sweep touches each row n times, each time with a relative error of a few units; what is left off the diagonal
  // changes an eigenvalue by no more than its norm.
  const left = A.reduce((sum, row, i) => sum + row.reduce((all, own, j) => all + (i === j ? 0 : own * own), 0), 0);
  const error = (8 * sweeps + 10) * n * EPS * size + Math.sqrt(left);
  return { values: A.map((row, i) => unit * row[i]), error: unit * error };
}

/** The diagonal matrix of z, minus weighted outer products of vectors, plus a factor times M in its last rows. */
function shiftedMatrix(z, vectors, weights, M, factor) {
  const first = z.length - M.length;
  return Array.from(z, (own, i) =>
    Float64Array.from(z, (_, j) => {
      const entry = i >= first && j >= first ? factor * M[i - first][j - first] : 0;
      return vectors.reduce((sum, b, cut) => sum - weights[cut] * b[i] * b[j], (i === j ? own : 0) + entry);
    }),
  );
}

/** The matrix of a leaf that fixes signs, Diag(z) - B. */
function wholeMatrix(M, order, { s, z, vectors, weights }) {
  const [N, k] = [M.length, s.length];
  const A = shiftedMatrix(z, vectors, weights, [], 0);
  const subtract = (i, j, value) => {
    A[i][j] -= value;
    A[j][i] -= value;
  };
  for (let i = 0; i < N; i++) {
    subtract(0, 1 + i, s.reduce((sum, sign, j) => sum + M[i][order[j]] * sign, 0) / 2);
    for (let j = k; j < N; j++) subtract(1 + i, 1 + N + j - k, M[i][order[j]] / 2);
  }
  return A;
}

/** An upper bound over a leaf by the eigenvalues of a shifted matrix. */
function boundOfShift(M, order, leaf) {
  const { s, z, flat, vectors, weights } = leaf;
  const [N, k] = [M.length, s.length];
  const size = 1 + 2 * N - k;
  need(flat && z.length === size && finite(z), "a shift has a wrong shape");
  need(weights.every((own) => own >= 0 && own < Infinity), "the weight of a cut is negative");
  need(vectors.every((own) => Math.abs(own.reduce((sum, x) => sum + x, 0) % 2) === 1), "a cut has an even sum");
  const cutSizes = vectors.reduce((sum, own, cut) => sum + weights[cut] * norm(own) ** 2, 0);
  const magnitude = M.reduce((all, row) => all + norm(row), 0) + ((vectors.length + 8) / N) * cutSizes;
  // Any w > 0 will do: with w^2 near z the eigenvalues are near one, however far apart the sizes of rows are.
  const mean = norm(z) / size;
  const near = Array.from(z, (own) => Math.max(own, 1e-9 * mean) || 1);
  let [shift, squares, matrices] = [z, [near, near.map(() => 1)], null];
  if (k === 0 && M.every((row, i) => row.every((own, j) => own === M[j][i]))) {
    // The mirror image of a leaf without signs, u and v exchanged, proves the same; their mean has two parts.
    const folded = (own, sign) => {
      const sums = Float64Array.from(own.slice(0, 1 + N));
      order.forEach((i, j) => (sums[1 + i] += sign * own[1 + N + j]));
      return sums;
    };
    shift = folded(z, 1);
    squares = squares.map((own) => folded(own, 1));
    const [sums, differences] = [1, -1].map((sign) => vectors.map((own) => folded(own, sign)));
    matrices = [
      shiftedMatrix(shift, sums, weights, M, -1),
      shiftedMatrix(shift.slice(1), differences.map((own) => own.slice(1)), weights, M, 1),
    ];
  }
  matrices ??= [wholeMatrix(M, order, leaf)];
  let missing = Infinity;
  for (const square of squares) {
    const worst = matrices.map((A) => {
      const w = square.slice(square.length - A.length).map(Math.sqrt);
      const scaled = A.map((row, i) => row.map((own, j) => own / (w[i] * w[j])));
      if (!scaled.every(finite)) return Infinity;
      const { values, error } = eigenvaluesOf(scaled);
      return Math.max(0, error - Math.min(...values));
    });
    const found = Math.max(...worst) * exactSum(square);
    if (found < missing) missing = found;
  }
  return exactSum(shift) - exactSum(weights) + missing + 4 * N * EPS * magnitude;
}

const isPrefix = (first, second) => first.every((sign, i) => sign === second[i]);

/** An upper bound of max |u'Mv| over signs u, v, proven by leaves. */
function pricingBound(M, { order, leaves }, end) {
  const N = M.length;
  need(M.every(finite), "the numbers are too large");
  const sorted = [...order].sort((a, b) => a - b);
  need(sorted.length === N && sorted.every((own, i) => own === i), "the order of a tree is not a permutation");
  leaves.forEach((one, i) => {
    need(!leaves.some((other, j) => i !== j && isPrefix(one.s, other.s)), "a leaf is contained in another one");
  });
  let [bound, covered] = [0, 0n];
  const sum = M.reduce((all, row) => all + norm(row), 0);
  for (const leaf of leaves) {
    const { s, z } = leaf;
    const k = s.length;
    const sound = k <= N && s.every((sign) => Math.abs(sign) === 1) && (k === 0 || s[0] === 1);
    need(sound, "a leaf fixes no signs, or -1 first");
    covered += 2n ** BigInt(N - Math.max(k, 1));
    const own = z ? boundOfShift(M, order, leaf) : enumerateLeaf(M, order, s, end) + 4 * N * EPS * sum;
    bound = Math.max(bound, own);
  }
  need(covered === 2n ** BigInt(N - 1), "the leaves do not cover all sign vectors");
  return bound;
}

// -- the check ------------------------------------------------------------------------------------------------------

/** Raise the reason unless neurons have signs in their blocks, and nothing but zeros elsewhere. */
function checkSigns(f, { U, V, block, neurons }, { side, sizes, linear }) {
  const shapes = ["U", "V"].every((name) => same(f.get(name).shape, [neurons, side])) && same(f.get("block").shape, [neurons]);
  need(shapes, "the network does not fit");
  need(block.every((r) => r >= 0 && r < sizes.length), "a neuron is in no block");
  const right = block.every((r, j) => {
    for (let i = 0; i < side; i++) {
      const inside = i < sizes[r];
      if (Math.abs(U[j * side + i]) !== Number(inside)) return false;
      if (Math.abs(V[j * side + i]) !== Number(inside && !linear[r])) return false;
    }
    return true;
  });
  need(right, "a weight is not a sign, or outside its block");
}

/** The sum of |alpha| omega_r N_r of each output and block. */
function weightsOf({ alpha, block, C }, { factors }) {
  const sums = new Float64Array(C * factors.length);
  block.forEach((r, j) => {
    for (let c = 0; c < C; c++) sums[c * factors.length + r] += Math.abs(alpha[j * C + c]);
  });
  return sums.map((own, at) => own / factors[at % factors.length]);
}

const shown = (number) => String(Number(number.toPrecision(12)));

function checked(f, end) {
  const alpha = f.get("alpha");
  const [beta, levels] = [f.number("beta"), f.number("levels")];
  const activation = f.get("activation");
  const sound = finite(alpha.values) && [1, 2].includes(alpha.shape.length) && beta >= 0 && beta < Infinity;
  need(sound, "some numbers are not finite");
  need(levels >= 2 && finite(activation.values), "the levels or the activation are invalid");
  const data = new Rows(f);
  need(same(alpha.shape.slice(1), data.shape), "the network and the data differ in outputs");
  if (!activation.shape.length) throw new Error("the activation is a number");
  need(levels === 2 && !activation.shape[0], "blocks have two levels and no activation");
  const [U, V, block] = ["U", "V", "block"].map((name) => f.get(name).values);
  const network = { U, V, block, alpha: alpha.values, C: data.C, neurons: alpha.shape[0] };
  checkSigns(f, network, data.blocks);
  const weights = weightsOf(network, data.blocks);
  const [loss, zero] = data.objective(network);
  const objective = loss + beta * exactSum(weights);
  need(Number.isFinite(objective), "the numbers are too large");
  const tolerance = TOLERANCE * Math.max(objective, 1e-6 * zero);
  const claimedObjective = f.number("objective");
  const off = Math.abs(objective - claimedObjective);
  need(off <= tolerance, `the objective is ${shown(objective)}, not ${shown(claimedObjective)} as claimed`);

  const matrices = data.matrices();
  const trees = treesOf(f, data.blocks.side);
  need(trees.length === matrices.length, "there must be one tree for each output and block");
  let vanish = true;
  const values = matrices.map(({ M, rounding }, place) => {
    const largest = pricingBound(M, trees[place], end);
    vanish &&= largest <= 8 * rounding;
    return largest + rounding;
  });
  const value = Math.max(0, ...values);
  need(Number.isFinite(value), "the numbers are too large");
  const scale = value > 0 && beta > 0 ? Math.min(1, beta / value) : Number(beta > 0 || vanish);
  let bound = scale > 0 ? data.loss.dualValue(data.nu.map((own) => scale * own)) : 0;
  if (beta === 0) bound -= exactSum(values.map((own, place) => own * weights[place]));
  bound = Math.max(0, bound);
  const claimed = f.number("lower_bound");
  need(bound >= claimed - tolerance, `only ${shown(bound)} is proven, not ${shown(claimed)} as claimed`);
  need(claimed <= objective + tolerance, "the lower bound exceeds the objective");
  const leaves = trees.reduce((sum, tree) => sum + tree.leaves.length, 0);
  return { objective, bound, value, beta, leaves, neurons: network.neurons, samples: data.n, claimed };
}

/**
 * Check the bytes of a file, with those of an archive of its data where it holds a digest only.
 *
 * Returns `verdict`, "yes", "no" or "undecided", with `reason` of the latter two; after a yes, what was recomputed.
 */
export function check(contents, given = null, seconds = Infinity) {
  try {
    const { f, digest } = read(contents, given);
    const claims = [f.text("bound_type"), f.text("arithmetic")];
    f.get("shifted");
    const known = ["sdp", "exact"].includes(claims[0]) && ["float", "verified"].includes(claims[1]);
    need(known, "it claims an unknown bound type");
    return { verdict: "yes", digest, ...checked(f, Date.now() + 1000 * seconds) };
  } catch (error) {
    if (error instanceof Undecided) return { verdict: "undecided", reason: error.message };
    const malformed = error instanceof ClaimError ? "" : "the file is malformed: ";
    return { verdict: "no", reason: malformed + error.message };
  }
}
