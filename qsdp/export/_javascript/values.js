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
