// The page: what is chosen, and what follows from it.

const $ = (id) => document.getElementById(id);

class Page {
  constructor(held, spots, store) {
    Object.assign(this, { held, spots, store });
    this.place = held.first;
    this.view = "gene";
    this.layer = "counts";
    this.mode = "99";
    this.colours = paletteOf(held.palettes.viridis);
    this.slide = new Slide($("slide"), $("image"), spots, held, (spot, spoken) => this.tellSpot(spot, spoken),
      () => this.toggle());
    this.picker = new Picker($("gene"), $("genes"), held.genes, (place) => this.choose(place));
    this.offer();
    this.listen();
  }

  offer() {
    $("view").append(...this.held.views.map((view) => element("option", { value: view.key, textContent: view.label })));
    $("palette").append(...Object.keys(this.held.palettes).map((name) => element("option", { value: name, textContent: name })));
    $("layers").append(...this.held.layers.map((layer) => element("label", {},
      element("input", { type: "radio", name: "layer", value: layer }), element("span", { textContent: SHORT[layer], title: NAMES[layer] }))));
    $("layers").hidden = !this.held.layers.length;
  }

  listen() {
    $("view").addEventListener("change", () => this.turnTo($("view").value));
    $("layers").addEventListener("change", (event) => {
      this.layer = event.target.value;
      this.show();
    });
    for (const id of ["low", "high"]) $(id).addEventListener("change", () => this.setMode("own"));
    $("range-99").addEventListener("click", () => this.setMode("99"));
    $("range-full").addEventListener("click", () => this.setMode("full"));
    $("palette").addEventListener("change", () => {
      this.colours = paletteOf(this.held.palettes[$("palette").value]);
      this.paint();
      this.drawMultiples();
    });
    $("opacity").addEventListener("input", () => {
      this.slide.opacity = $("opacity").value / 100;
      this.slide.draw();
    });
    $("large").parentElement.hidden = !(this.held.pitch > this.held.diameter);
    $("large").addEventListener("change", () => {
      this.slide.drawn = ($("large").checked ? this.held.pitch : this.held.diameter) / 2;
      this.slide.draw();
    });
    $("zoom-in").addEventListener("click", () => this.slide.zoom(ZOOM_STEP));
    $("zoom-out").addEventListener("click", () => this.slide.zoom(1 / ZOOM_STEP));
    $("fit").addEventListener("click", () => this.slide.fit());
    $("hide").addEventListener("click", () => this.toggle());
    window.addEventListener("resize", () => {
      this.paint();
      this.drawMultiples();
    });
  }

  toggle() {
    const hidden = !this.slide.hidden;
    this.slide.hide(hidden);
    $("hide").setAttribute("aria-pressed", String(hidden));
  }

  async choose(place) {
    this.place = place;
    if (this.view !== "gene") $("view").value = "gene";
    await this.turnTo("gene");
  }

  async turnTo(view) {
    this.view = view;
    $("of-gene").hidden = view !== "gene";
    if (!$("hold").checked && this.mode === "own") this.mode = "99";
    await this.show();
  }

  // Take the values of what is chosen, set their range, and draw.
  async show() {
    const place = this.place;
    const gene = await this.store.gene(place);
    if (place !== this.place) return; // another one was chosen meanwhile
    this.gene = gene;
    this.picker.show(place);
    tellGene($("gene-facts"), this.held.genes[place]);
    const view = this.held.views.find((v) => v.key === this.view);
    this.values = view ? view.values : gene[this.layer];
    this.limits = view?.limits ?? null;
    $("view-note").hidden = !view?.note;
    $("view-note").textContent = view?.note ?? "";
    this.range();
    this.paint();
    this.tellSpot(this.slide.marked, false);
    for (const button of $("multiples").children) {
      button.setAttribute("aria-pressed", String(this.view === "gene" && Number(button.dataset.place) === place));
    }
    document.body.dataset.shown = this.view === "gene" ? `${this.held.genes[place].name} ${this.layer}` : this.view;
  }

  setMode(mode) {
    this.mode = mode;
    this.range(true);
    this.paint();
  }

  // The range: that of the view, the user's own, or from the values.
  range(asked = false) {
    const found = rangesOf(this.values);
    if (this.mode === "own" || ($("hold").checked && !asked)) {
      const own = (id, other) => ($(id).value === "" || Number.isNaN(Number($(id).value)) ? other : Number($(id).value));
      [this.low, this.high] = [own("low", found.low), own("high", found.high)];
    } else if (this.limits && this.mode === "99") [this.low, this.high] = this.limits;
    else [this.low, this.high] = [found.low, this.mode === "99" ? found.high : found.top];
    $("low").value = round(this.low);
    $("high").value = round(this.high);
    $("range-99").textContent = this.limits ? "Whole scale" : "99th percentile";
    $("range-99").title = this.limits ? "All values that there may be" : "From the smallest value to the 99th percentile";
    $("range-99").setAttribute("aria-pressed", String(this.mode === "99"));
    $("range-full").setAttribute("aria-pressed", String(this.mode === "full"));
  }

  paint() {
    const steps = Int16Array.from(this.values, (value) => stepOf(value, this.low, this.high));
    this.slide.paint(steps, this.colours);
    drawLegend($("legend"), this.values, this.low, this.high, this.colours);
    const what = this.view === "gene" ? `${this.held.genes[this.place].name}, ${NAMES[this.layer].toLowerCase()}`
      : this.held.views.find((view) => view.key === this.view).label;
    $("legend-title").textContent = what;
    $("legend").setAttribute("aria-label", `Colour scale: ${what}, from ${say(round(this.low))} to ${say(round(this.high))}`);
    $("slide").setAttribute("aria-label", `Slide with its spots, coloured by ${what}`);
  }

  tellSpot(spot, spoken) {
    $("no-spot").hidden = spot >= 0;
    const rows = spot < 0 ? [] : spotRows(this.spots, spot, this.held, this.held.genes[this.place], this.gene);
    terms($("spot-facts"), rows);
    if (spoken) $("spoken").textContent = rows.map(([name, value]) => `${name} ${value}`).join("; ");
  }

  // The genes with the clearest patterns, small, each a button.
  multiples() {
    const known = this.picker.order.filter((place) => this.held.genes[place].moran !== null).slice(0, MULTIPLES);
    if (!known.length) return;
    $("patterns").hidden = false;
    $("multiples").replaceChildren(...known.map((place) => multiple(this.held.genes[place], place, this.spots, (chosen) => {
      this.choose(chosen);
      $("slide").scrollIntoView({ block: "center" });
    })));
  }

  async drawMultiples() {
    for (const button of $("multiples").children) {
      const { counts } = await this.store.gene(Number(button.dataset.place));
      const { low, high } = rangesOf(counts);
      const steps = Int16Array.from(counts, (value) => stepOf(value, low, high));
      drawSmall(button.firstChild, this.spots, this.slide.radius, steps, this.colours);
    }
  }
}

async function begin() {
  const held = JSON.parse($("data").textContent);
  const store = new Store(held);
  const [spots] = await Promise.all([store.spots(), $("image").decode()]);
  const page = new Page(held, spots, store);
  page.multiples();
  await page.show();
  document.body.dataset.ready = String(Math.round(performance.now()));
  await page.drawMultiples();
  document.body.dataset.complete = "true";
}

begin().catch((error) => {
  const text = `This page cannot be shown: it needs a browser of 2023 or later (${error.message}).`;
  document.querySelector("main").prepend(element("p", { className: "warnings", textContent: text }));
  throw error;
});
