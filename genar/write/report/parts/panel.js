// Words and small pictures beside the slide: the scale, the gene, the spot, the small multiples.

const BINS = 48;
const MULTIPLES = 12;
const NAMES = { counts: "Counts", expected: "Expected", std: "Standard deviation" };
const SHORT = { counts: "Counts", expected: "Expected", std: "SD" };

function drawLegend(canvas, values, low, high, colours) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const context = sharp(canvas, width, height);
  const [bar, foot, left] = [12, 20, 8];
  const [span, top] = [width - 2 * left, height - bar - foot];
  const numbers = new Array(BINS).fill(0);
  for (const value of values) {
    const step = stepOf(value, low, high);
    if (step >= 0) numbers[Math.floor((step * BINS) / STEPS)] += 1;
  }
  const most = Math.max(...numbers, 1);
  context.fillStyle = "#9aa3ad";
  numbers.forEach((number, k) => {
    const tall = number ? Math.max(1, (number / most) * (top - 4)) : 0;
    context.fillRect(left + (k * span) / BINS, top - tall - 2, span / BINS - 1, tall);
  });
  for (let i = 0; i < span; i++) {
    context.fillStyle = colours[Math.min(STEPS - 1, Math.floor((i / span) * STEPS))];
    context.fillRect(left + i, top, 1.5, bar);
  }
  context.fillStyle = "#33383d";
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  for (const tick of ticksOf(low, high, 5)) {
    const x = high > low ? left + ((tick - low) / (high - low)) * span : width / 2;
    context.fillRect(x - 0.5, top + bar, 1, 4);
    const half = context.measureText(say(tick)).width / 2;
    context.fillText(say(tick), Math.min(Math.max(x, half), width - half), height - 3);
  }
}

function terms(list, rows) {
  list.replaceChildren(...rows.flatMap(([name, value, key]) => {
    const described = element("dd", { textContent: value });
    if (key) described.dataset.key = key;
    return [element("dt", { textContent: name }), described];
  }));
}

function tellGene(place, gene) {
  const judged = gene.heldout_pcc !== undefined && gene.heldout_pcc !== null;
  const badge = element("p", { className: "badge" });
  if (gene.reliable === true) badge.append("✓ Reliable on tissue like the training's");
  else if (gene.reliable === false) badge.append("⚠ Not reliable: sections left out do not confirm it");
  badge.classList.add(gene.reliable === true ? "good" : "poor");
  const rows = [];
  if (judged) rows.push(["Held-out correlation", say(gene.heldout_pcc), "heldout_pcc"]);
  if (gene.heldout_pcc_min !== undefined) rows.push(["on the worst section", say(gene.heldout_pcc_min), "heldout_pcc_min"]);
  rows.push(["Moran's I here", say(gene.moran), "moran"]);
  if (gene.gene_ids) rows.push(["Gene ID", gene.gene_ids, "gene_ids"]);
  const list = element("dl");
  terms(list, rows);
  place.replaceChildren(...(gene.reliable === undefined ? [] : [badge]), list);
}

function spotRows(spots, spot, held, gene, values) {
  const rows = [["Name", spots.names[spot], "name"]];
  if (spots.row) rows.push(["Array row, column", `${say(spots.row[spot])}, ${say(spots.col?.[spot])}`, "array"]);
  for (const layer of ["counts", ...held.layers]) {
    rows.push([`${gene.name}: ${SHORT[layer].replace(/^[CE]/, (c) => c.toLowerCase())}`, say(values[layer][spot]), layer]);
  }
  for (const view of held.views) rows.push([view.label, say(view.values[spot]), view.key]);
  return rows;
}

// A picture of one gene without the slide, a button.
function multiple(gene, place, spots, onPick) {
  const canvas = element("canvas", { className: "small" });
  canvas.setAttribute("aria-hidden", "true");
  const button = element("button", { type: "button", className: "multiple" }, canvas,
    element("span", { textContent: gene.name }), element("small", { textContent: `I = ${gene.moran.toFixed(2)}` }));
  button.dataset.place = place;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => onPick(place));
  return button;
}

function drawSmall(canvas, spots, radius, steps, colours) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const context = sharp(canvas, width, height);
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < spots.x.length; i++) {
    left = Math.min(left, spots.x[i]);
    right = Math.max(right, spots.x[i]);
    top = Math.min(top, spots.y[i]);
    bottom = Math.max(bottom, spots.y[i]);
  }
  const room = radius * 2;
  const scale = Math.min(width / (right - left + 2 * room), height / (bottom - top + 2 * room));
  context.translate(width / 2, height / 2);
  context.scale(scale, scale);
  context.translate(-(left + right) / 2, -(top + bottom) / 2);
  fillSpots(context, spots.x, spots.y, Math.max(radius * 1.35, 0.75 / scale), steps, colours);
}
