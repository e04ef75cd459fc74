/** Numbers that are packed in base64: floats, or codes of `bits` bits that count from `low` or number a `table`. */
function unpacked({ count, bits, low, table, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float64Array.from({ length: count }, (_, place) => {
    if (bits === 64) return view.getFloat64(8 * place, true);
    let code = 0;
    for (let bit = 0; bit < bits; bit++) {
      const at = place * bits + bit;
      code += ((bytes[at >> 3] >> (at & 7)) & 1) * 2 ** bit;
    }
    return table ? table[code] : low + code;
  });
}

/** A value as an error message quotes it. */
function quoted(value) {
  const text = typeof value === "object" ? (value === null ? "null" : "an object") : String(value);
  return (typeof value === "string" ? JSON.stringify(value) : text).slice(0, 60);
}

// Python takes true for 1, as a category too.
const numeric = (value) => (typeof value === "boolean" ? Number(value) : value);

/** Throws an error for an option that is not known, or has a value that it does not take. */
function checkOptions(options = {}) {
  const known = Object.entries(OPTIONS).map(([name, values]) => `${name} (${values.map(quoted).join(" or ")})`);
  const allowed = known.length ? `options: ${known.join(", ")}` : "there are no options";
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`options must be an object; got ${quoted(options)}; in a map, call (row) => predict(row)`);
  }
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(OPTIONS, name)) throw new TypeError(`${quoted(name)} is not an option; ${allowed}`);
    if (value !== undefined && !OPTIONS[name].includes(value)) {
      throw new RangeError(`option ${quoted(name)} cannot be ${quoted(value)}; ${allowed}`);
    }
  }
}
