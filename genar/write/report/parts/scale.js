// From values to colours and to text.

const STEPS = 256;

function paletteOf(text) {
  const rgb = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return Array.from({ length: STEPS }, (_, i) => `rgb(${rgb[3 * i]},${rgb[3 * i + 1]},${rgb[3 * i + 2]})`);
}

// Smallest, 99th percentile and largest value; the percentile as NumPy's, between neighbours.
function rangesOf(values) {
  const sorted = Float64Array.from(values).filter((v) => !Number.isNaN(v)).sort();
  if (!sorted.length) return { low: 0, high: 1, top: 1, mean: NaN };
  const at = 0.99 * (sorted.length - 1);
  const below = Math.floor(at);
  const next = sorted[Math.min(below + 1, sorted.length - 1)];
  const high = sorted[below] + (at - below) * (next - sorted[below]);
  const low = sorted[0];
  const top = sorted[sorted.length - 1];
  const mean = sorted.reduce((sum, v) => sum + v, 0) / sorted.length;
  return { low, high: high > low ? high : top, top, mean };
}

// Place of a value among the palette's colours; -1 where there is none.
function stepOf(value, low, high) {
  if (Number.isNaN(value)) return -1;
  const share = high > low ? (value - low) / (high - low) : 0.5;
  return Math.max(0, Math.min(STEPS - 1, Math.floor(share * STEPS)));
}

// Whole numbers as they are, others to three digits, which is what the page keeps of them.
function say(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-GB");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-GB");
  return size < 0.001 ? value.toPrecision(2) : String(Number(value.toPrecision(3)));
}

function round(value) {
  return Number(value.toPrecision(4));
}

// Numbers of 1, 2 or 5 times a power of ten that lie between two.
function ticksOf(low, high, most) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

// A canvas as sharp as the screen; returns its context, in CSS pixels.
function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Spots of one colour are filled together, which is many times faster than one by one.
function fillSpots(context, x, y, radius, steps, colours) {
  const groups = new Map();
  for (let i = 0; i < x.length; i++) {
    const step = steps[i];
    if (step < 0) continue;
    if (!groups.has(step)) groups.set(step, []);
    groups.get(step).push(i);
  }
  for (const [step, spots] of groups) {
    context.fillStyle = colours[step];
    context.beginPath();
    for (const i of spots) {
      if (radius < 1) {
        context.rect(x[i] - radius, y[i] - radius, 2 * radius, 2 * radius);
      } else {
        context.moveTo(x[i] + radius, y[i]);
        context.arc(x[i], y[i], radius, 0, 2 * Math.PI);
      }
    }
    context.fill();
  }
}
