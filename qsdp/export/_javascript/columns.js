const limitsOf = (place) => MODEL.inputs?.find((input) => input[0] === place && input.length > 5)?.slice(5) ?? null;
const columns = (MODEL.columns ?? Array.from({ length: MODEL.width }, (_, place) => ({ name: `x${place}` }))).map(
  (column, place) => (
    { type: "number", unit: null, required: true, nullable: false, categories: null, range: null, limits: limitsOf(place), ...column }
  ),
);

const OPTIONS = { unknown: ["error", "ignore"] };

const truth = new Map([["true", 1], ["false", 0]]);

const codes = columns.map(({ categories }) => new Map(categories?.map((symbol, code) => [numeric(symbol), code])));

/** Days since 1970-01-01 of an ISO date, in UTC if it names no zone. */
function daysOf(text, name) {
  const parts = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?(?:Z|([+-])(\d\d):?(\d\d))?)?$/.exec(
    text.trim(),
  );
  const [year, month, day, hour, minute, second, , , hours, minutes] = (parts ?? []).slice(1).map((one) => Number(one ?? 0));
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (!parts || date.getUTCDate() !== day || date.getUTCMonth() !== month - 1 || !year || hour > 23 || minute > 59 || second > 59 || hours > 23 || minutes > 59) {
    throw new TypeError(`column ${quoted(name)} must be a date such as "2024-01-31"; got ${quoted(text)}`);
  }
  const zone = (parts[8] === "-" ? -60 : 60) * (60 * hours + minutes);
  const seconds = date.getTime() / 1000 + 3600 * hour + 60 * minute + second - zone;
  return (seconds + Number(parts[7] ?? 0)) / 86400;
}

/** The entry of a column as a number, the code of a category (-1 for none), or null if it is missing. */
function entryOf(value, place, unknown) {
  const { name, type, categories, nullable } = columns[place];
  if (categories) {
    const text = type === "boolean" && typeof value === "string" ? value.trim().toLowerCase() : null;
    const code = codes[place].get(truth.get(text) ?? numeric(value));
    if (code === undefined && unknown !== "ignore") {
      const known = categories.slice(0, 8).map(quoted).join(", ") + (categories.length > 8 ? ", ..." : "");
      throw new RangeError(`column ${quoted(name)} has no category ${quoted(value)}; its categories: ${known}`);
    }
    return value === null ? null : (code ?? -1);
  }
  if (value === null && nullable) return null;
  const number = type === "date" && typeof value === "string" ? daysOf(value, name) : numeric(value);
  if (typeof number !== "number" || !Number.isFinite(number)) {
    const allowed = `a finite number${type === "date" ? " or an ISO date" : ""}${nullable ? " or null" : ""}`;
    throw new TypeError(`column ${quoted(name)} must be ${allowed}; got ${quoted(value)}`);
  }
  return number;
}

/** The entries of the columns that the model needs; null for others. */
function entriesOf(row, unknown) {
  const listed = Array.isArray(row) || ArrayBuffer.isView(row);
  if (typeof row !== "object" || row === null) throw new TypeError(`a row must be an object or an array; got ${quoted(row)}`);
  if (listed && row.length !== columns.length) {
    throw new TypeError(`a row must have ${columns.length} entries, one for each column; got ${row.length}`);
  }
  return columns.map(({ name, required }, place) => {
    if (!required) return null;
    const value = listed ? row[place] : Object.hasOwn(row, name) ? row[name] : undefined;
    if (value === undefined) throw new TypeError(`column ${quoted(name)} is missing; give null for a missing entry`);
    return entryOf(value, place, unknown);
  });
}

/** The inputs of the network, without constants, for a row. */
function inputsOf(row, options) {
  checkOptions(options);
  const entries = entriesOf(row, options?.unknown ?? "error");
  return Float64Array.from(MODEL.inputs ?? entries, (input, place) => {
    const [at, kind, value, center, scale, low, high] = MODEL.inputs ? input : [place, "value", null, 0, 1];
    const entry = entries[at];
    const filled = entry ?? MODEL.fills?.[at];
    let term;
    if (kind === "value") term = Math.min(Math.max(filled, low ?? -Infinity), high ?? Infinity);
    else term = Number(kind === "missing" ? entry === null : kind === "equals" ? entry === value : filled > value);
    const number = (term - center) / scale;
    if (!(Math.abs(number) <= 1e100)) throw new RangeError(`column ${quoted(columns[at].name)} is too large: ${quoted(entry)}`);
    return number;
  });
}
