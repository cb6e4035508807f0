"use strict";
// What the page holds, unpacked: gzip in base64, as genar/write/report/pack.py writes it.

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackNumbers(text) {
  return new Float32Array((await unpack(text)).buffer);
}

async function unpackTexts(text) {
  return JSON.parse(new TextDecoder().decode(await unpack(text)));
}

// One gene: its counts in 1, 2 or 4 planes of bytes, then two planes of each layer: a float32 without
// its sign and the last 15 bits.
function splitGene(bytes, n, layers) {
  const width = bytes.length / n - 2 * layers.length;
  const values = { counts: new Float64Array(n) };
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0; i < n; i++) values.counts[i] += bytes[plane * n + i] * 256 ** plane;
  }
  layers.forEach((layer, k) => {
    const bits = new Uint32Array(n);
    const low = (width + 2 * k) * n;
    for (let i = 0; i < n; i++) bits[i] = ((bytes[low + i] << 15) | (bytes[low + n + i] << 23)) >>> 0;
    values[layer] = new Float32Array(bits.buffer);
  });
  return values;
}

const KEPT = 24; // genes that stay unpacked

class Store {
  constructor(held) {
    this.held = held;
    this.unpacked = new Map();
  }

  async spots() {
    const { spots, views } = this.held;
    const [names, ...columns] = await Promise.all([
      unpackTexts(spots.names),
      ...[spots.x, spots.y].map(unpackNumbers),
      ...["array_row", "array_col"].map((key) => (spots[key] ? unpackNumbers(spots[key]) : null)),
      ...views.map((view) => unpackNumbers(view.data)),
    ]);
    const [x, y, row, col, ...values] = columns;
    views.forEach((view, k) => (view.values = values[k]));
    return { names, x, y, row, col };
  }

  async gene(place) {
    if (!this.unpacked.has(place)) {
      if (this.unpacked.size >= KEPT) this.unpacked.delete(this.unpacked.keys().next().value);
      const bytes = await unpack(this.held.genes[place].data);
      this.unpacked.set(place, splitGene(bytes, this.held.n, this.held.layers));
    }
    return this.unpacked.get(place);
  }
}
