const { width } = MODEL;

/** For each output, the coefficients of z_i z_j, i <= j, row by row, for z = (inputs, 1). */
const form = MODEL.network.entries.map((entries, output) => {
  const { units, tail, rest } = MODEL.network;
  const own = new Float64Array(((width + 1) * (width + 2)) / 2);
  const factor = (i) => (i < width ? 1 : tail[i - width]);
  let next = 0;
  for (let i = 0; i < width + tail.length; i++) {
    const row = Math.min(i, width);
    for (let j = i; j < width + tail.length; j++) {
      const at = row * width - (row * (row - 1)) / 2 + Math.min(j, width);
      own[at] += units[output] * (i < j ? 2 : 1) * factor(i) * factor(j) * entries[next++];
    }
  }
  own[own.length - 1] += rest[output];
  return own;
});

/** Scores of all outputs for the inputs of the network. */
function scoresOf(x) {
  const z = [...x, 1];
  return form.map((own) => {
    let sum = 0;
    for (let i = 0, at = 0; i <= width; i++) {
      let row = 0;
      for (let j = i; j <= width; j++, at++) row += own[at] * z[j];
      sum += z[i] * row;
    }
    return sum;
  });
}
