const { decision, classes, link } = MODEL;

function scores(row, options) {
  const values = scoresOf(inputsOf(row, options));
  if (decision === "argmax" && values.length === 2) return values[1] - values[0];
  return MODEL.several ? values : values[0];
}

function predict(row, options) {
  const values = scoresOf(inputsOf(row, options));
  if (decision === "none") return MODEL.several ? values : values[0];
  return classes[decision === "sign" ? Number(values[0] > 0) : values.indexOf(Math.max(...values))];
}

const logOfLogistic = (odds) => Math.min(odds, 0) - Math.log1p(Math.exp(-Math.abs(odds)));

function predictProba(row, options) {
  let odds = scoresOf(inputsOf(row, options));
  if (link === "logistic") odds = [0, odds[0]];
  else if (link === "normalised") odds = odds.map(logOfLogistic);
  const largest = Math.max(...odds);
  const powers = odds.map((one) => Math.exp(one - largest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
