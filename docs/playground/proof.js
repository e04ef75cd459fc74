const part = document.getElementById("proof");
const find = (selector) => part.querySelector(selector);
const [original, images] = ["cert", "npz"].map((name) => Uint8Array.from(atob(FILES[name]), (letter) => letter.charCodeAt(0)));

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function paintImages() {
  const { shape, values } = arraysOf(images).get("images");
  const [count, height, width] = shape;
  const columns = 40;
  const canvas = find("canvas");
  Object.assign(canvas, { width: columns * width, height: Math.ceil(count / columns) * height });
  const context = canvas.getContext("2d");
  const painted = context.createImageData(canvas.width, canvas.height);
  values.forEach((value, at) => {
    const [image, pixel] = [Math.floor(at / (height * width)), at % (height * width)];
    const row = Math.floor(image / columns) * height + Math.floor(pixel / width);
    const place = 4 * (row * canvas.width + (image % columns) * width + (pixel % width));
    painted.data.set([16 * value, 16 * value, 16 * value, 255].map((one) => Math.min(one, 255)), place);
  });
  context.putImageData(painted, 0, 0);
}

/** Why a change is noticed. */
const WHY = {
  weight: "With another weight, it is another network, whose objective this tab computes from the pixels.",
  bound: "The dual vector in the file proves what it proves, to the last digits, whatever the file claims.",
};
let flips = 0;

/** A file with something changed and its digest made right again, and what was changed. */
function forged(change) {
  if (change === "weight") {
    const flip = flips++;
    return [changed(original, "U", flip, (sign) => -sign), `sign ${flip + 1} of the first layer is flipped`];
  }
  if (change === "bound") {
    return [changed(original, "lower_bound", 0, (bound) => bound * (1 + 1e-6)), "the bound is a millionth higher"];
  }
  return [original, "nothing"];
}

function show(change) {
  const [file, what] = forged(change);
  const start = performance.now();
  const found = check(file, images);
  const milliseconds = performance.now() - start;
  const yes = found.verdict === "yes";
  find(".verdict").classList.toggle("no", !yes);
  find(".verdict strong").textContent = yes ? "Yes." : "No.";
  find(".verdict span").textContent = yes
    ? `Every such network, of any width, has an objective of at least ${shown(found.bound)}, and the one in the file has ${shown(found.objective)}.`
    : `Refused: ${found.reason}. ${WHY[change] ?? ""}`;
  const digest = textOf(file.subarray(MAGIC.length, MAGIC.length + 64));
  const rows = [
    ["changed", change ? `${what}, and the digest made right again` : what],
    ["files", `${file.length.toLocaleString("en-US")} bytes of certificate, ${images.length.toLocaleString("en-US")} of images`],
    ["SHA-256", element("code", {}, digest)],
  ];
  if (yes) {
    rows.push(
      ["data", `${found.samples} images; their packed products have the SHA-256 ${found.digest.slice(0, 16)}… of the certificate`],
      ["network", `${found.neurons} neurons, objective ${shown(found.objective)}`],
      ["sign vectors", `all of ${found.leaves} matrices, 512 each: the largest value is ${shown(found.value)}, allowed is ${shown(found.beta)}`],
      ["lower bound", `${shown(found.bound)}, which is ${(1 - found.bound / found.objective).toExponential(1)} of the objective below it`],
    );
  }
  rows.push(["time", `${Math.round(milliseconds)} ms in this tab`]);
  find("tbody").replaceChildren(
    ...rows.map(([name, fact]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, fact))),
  );
}

for (const button of part.querySelectorAll("button")) button.addEventListener("click", () => show(button.dataset.change));
paintImages();
// After the page is shown.
setTimeout(() => show(""), 50);
find(".need").hidden = true;
find(".work").hidden = false;
