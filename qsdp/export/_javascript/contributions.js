const origin = MODEL.effects;
const groups = MODEL.inputs?.map(([at]) => at) ?? columns.map((_, place) => place);
const members = [...new Set(groups)].sort((first, second) => first - second);
const ranks = groups.map((at) => members.indexOf(at));

/** For each explained output, its form and the slopes of its main effects at the means of the inputs. */
function slopesOf() {
  let own = form;
  if (decision === "argmax" && own.length === 2) own = [own[1].map((entry, at) => entry - own[0][at])];
  return own.map((entries) => {
    const slopes = new Float64Array(width);
    for (let i = 0, at = 0; i < width; i++) {
      for (let j = i; j < width; j++, at++) {
        slopes[i] += entries[at] * origin.mean[j];
        slopes[j] += entries[at] * origin.mean[i];
      }
      slopes[i] += entries[at++];
    }
    return { entries, slopes };
  });
}
let prepared;

function contributions(row, options) {
  prepared ??= slopesOf();
  const z = inputsOf(row, options).map((value, place) => value - origin.mean[place]);
  const G = members.length;
  return prepared.map(({ entries, slopes }, output) => {
    const effects = new Float64Array(G * G);
    for (let i = 0, at = 0; i < width; i++, at++) {
      const a = ranks[i];
      effects[a * G + a] += slopes[i] * z[i];
      for (let j = i; j < width; j++, at++) {
        effects[Math.min(a, ranks[j]) * G + Math.max(a, ranks[j])] += entries[at] * z[i] * z[j];
      }
    }
    const names = members.map((at) => columns[at].name);
    const terms = names.map((name, a) => ({ columns: [name], value: effects[a * G + a] - origin.main[output][a] }));
    names.forEach((first, a) => {
      for (let b = a + 1; b < G; b++) terms.push({ columns: [first, names[b]], value: effects[a * G + b] });
    });
    return { output: MODEL.effectOutputs[output], constant: origin.constant[output], terms };
  });
}
