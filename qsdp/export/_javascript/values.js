/** A value as an error message quotes it. */
function quoted(value) {
  const text = typeof value === "object" ? (value === null ? "null" : "an object") : String(value);
  return (typeof value === "string" ? JSON.stringify(value) : text).slice(0, 60);
}

/** Throws an error for an unknown option, or for a value that an option does not take. */
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
