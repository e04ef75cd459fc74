const limitsOf = (place) => MODEL.inputs?.find((input) => input[0] === place && input.length > 5)?.slice(5) ?? null;
const columns = (MODEL.columns ?? Array.from({ length: MODEL.width }, (_, place) => ({ name: `x${place}` }))).map(
  (column, place) => (
    { type: "number", unit: null, required: true, nullable: false, categories: null, range: null, limits: limitsOf(place), ...column }
  ),
);

const OPTIONS = { unknown: ["warn", "ignore", "error"] };

// The reading rule of Python: texts that are missing, true/false, plain numbers, and dates of ISO 8601.
const missing = new Set(["", "na", "n/a", "nan", "none", "null", "nat", "?", "-", "."]);
const truth = new Map([["true", true], ["false", false]]);
const decimal = /^[+-]?(?!0[0-9])([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const iso =
  /^(?:(\d{4})(?:-(\d\d))?|(\d{4})(-?)(\d\d)\4(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d)(\.\d+)?)?)?(?: ?(?:Z|([+-])(\d\d):?(\d\d)?))?)?)$/;

const codes = columns.map(({ categories }) => new Map(categories?.map((symbol, code) => [symbol, code])));

/** Days since 1970-01-01 of an ISO date, in UTC if it names no zone; NaN for other texts. */
function daysOf(text) {
  const parts = iso.exec(text);
  if (!parts) return NaN;
  const [year, month, day] = [parts[1] ?? parts[3], parts[2] ?? parts[5] ?? 1, parts[6] ?? 1].map(Number);
  const [hour, minute, second, hours, minutes] = [7, 8, 9, 12, 13].map((place) => Number(parts[place] ?? 0));
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const known = date.getUTCDate() === day && date.getUTCMonth() === month - 1;
  if (!known || hour > 23 || minute > 59 || second > 59 || hours > 23 || minutes > 59) return NaN;
  const zone = (parts[11] === "-" ? -60 : 60) * (60 * hours + minutes);
  const seconds = date.getTime() / 1000 + 3600 * hour + 60 * minute + second - zone;
  return (seconds * 1e6 + Number((parts[10] ?? ".").slice(1, 7).padEnd(6, "0"))) / 864e8;
}

/** The entry of a column as a number, the code of a category (-1 for none), or null if it is missing. */
function entryOf(value, place, unknown) {
  const { name, type, categories, nullable } = columns[place];
  let entry = typeof value === "string" ? value.trim() : value;
  if (typeof entry === "string" && missing.has(entry.toLowerCase()) && !codes[place].has(entry)) entry = null;
  if (categories) {
    if (type === "boolean" && typeof entry === "string") entry = truth.get(entry.toLowerCase());
    if (type === "category" && typeof entry === "number") entry = String(entry);
    if (type === "category" && typeof entry === "boolean") entry = entry ? "True" : "False";
    const code = codes[place].get(entry);
    if (code === undefined && unknown !== "ignore") {
      const known = categories.slice(0, 8).map(quoted).join(", ") + (categories.length > 8 ? ", ..." : "");
      const message = `column ${quoted(name)} has no category ${quoted(value)}; its categories: ${known}`;
      if (unknown === "error") throw new RangeError(message);
      console.warn(message);
    }
    return entry === null ? null : (code ?? -1);
  }
  if (entry === null && nullable) return null;
  const text = typeof entry === "string";
  const number = !text ? entry : type === "date" ? daysOf(entry) : decimal.test(entry) ? Number(entry) : NaN;
  if (typeof number !== "number" || !Number.isFinite(number)) {
    const allowed = `${type === "date" ? "a date such as 2024-01-31" : "a finite number"}${nullable ? " or null" : ""}`;
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
  const entries = entriesOf(row, options?.unknown ?? "warn");
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
