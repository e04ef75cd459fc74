const { size, stride, segments, lags, mean, scale, constant } = MODEL.series;
const channels = mean.length;
const grid = [lags.length, segments];
const side = size * channels + Number(constant > 0);
const least = Math.max(...lags.map((lag) => (size - 1) * lag + (segments - 1) * stride + 1));
const OPTIONS = {};

/** The standardised samples of every channel. */
function samplesOf(series) {
  const parts = isList(series) && channels === 1 && !isList(series[0]) ? [series] : series;
  const allowed = channels > 1 ? `a series must be an array of ${channels} channels` : "a series must be an array of samples";
  if (!isList(parts) || parts.length !== channels) {
    throw new RangeError(`${allowed}; got ${isList(parts) ? parts.length : quoted(series)}`);
  }
  return Array.from(parts, (part, channel) => {
    if (!isList(part)) throw new TypeError(`channel ${channel} must be an array of samples; got ${quoted(part)}`);
    if (part.length !== parts[0].length) {
      throw new RangeError(`channels must have equally many samples; got ${parts[0].length} and ${part.length}`);
    }
    if (part.length < least) throw new RangeError(`a series must have at least ${least} samples; got ${part.length}`);
    const name = (time) => `sample ${time} of channel ${channel}`;
    return Array.from(part, (value, time) => (finite(value, name(time)) - mean[channel]) / scale[channel]);
  });
}

/** For every lag and segment, the means of products of the numbers of its windows: upper triangles, row by row. */
function inputsOf(series, options) {
  checkOptions(options);
  const samples = samplesOf(series);
  const sums = new Float64Array(MODEL.inputs);
  const vector = new Float64Array(side).fill(constant);
  lags.forEach((lag, place) => {
    const count = Math.floor((samples[0].length - (size - 1) * lag - 1) / stride) + 1;
    const first = (segment) => Math.ceil((segment * count) / segments);
    for (let segment = 0; segment < segments; segment++) {
      for (let i = first(segment); i < first(segment + 1); i++) {
        for (let at = 0; at < size * channels; at++) {
          vector[at] = samples[at % channels][i * stride + Math.floor(at / channels) * lag];
        }
        addProducts(vector, sums, place * segments + segment, 1 / (first(segment + 1) - first(segment)));
      }
    }
  });
  return sums;
}
