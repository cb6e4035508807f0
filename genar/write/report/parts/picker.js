// A box to type a gene's name into, with a list of those that fit: the ARIA pattern "combobox with list".

const LISTED = 60;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

class Picker {
  constructor(input, list, genes, onPick) {
    Object.assign(this, { input, list, genes, onPick });
    this.order = genes.map((_, i) => i).sort((a, b) => (genes[b].moran ?? -2) - (genes[a].moran ?? -2));
    this.current = 0;
    this.active = -1;
    this.shown = [];
    input.addEventListener("input", () => this.open(input.value));
    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => {
      input.select();
      this.open("");
    });
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => this.close());
    list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the input keeps the focus
      const option = event.target.closest("[role=option]");
      if (option) this.pick(Number(option.dataset.place));
    });
  }

  // Names that begin with what was typed, then those that hold it; those with the clearest pattern first.
  fitting(text) {
    const typed = text.trim().toLowerCase();
    const names = this.order.map((i) => [i, this.genes[i].name.toLowerCase()]);
    const begin = names.filter(([, name]) => name.startsWith(typed));
    const hold = names.filter(([, name]) => name.includes(typed) && !name.startsWith(typed));
    const exact = begin.findIndex(([, name]) => name === typed);
    if (exact > 0) begin.unshift(...begin.splice(exact, 1));
    return [...begin, ...hold].map(([i]) => i);
  }

  open(text) {
    const all = this.fitting(text);
    this.shown = all.slice(0, LISTED);
    this.list.replaceChildren(...this.shown.map((i, k) => this.option(i, k)));
    if (!all.length) this.list.append(element("li", { className: "more", textContent: "No such gene" }));
    if (all.length > LISTED) {
      const more = `${(all.length - LISTED).toLocaleString("en-GB")} more: type to find them`;
      this.list.append(element("li", { className: "more", textContent: more }));
    }
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.choose(text.trim() && this.shown.length ? 0 : this.shown.indexOf(this.current));
  }

  option(place, k) {
    const gene = this.genes[place];
    const note = gene.reliable === undefined ? "" : gene.reliable ? "reliable" : "not reliable";
    const option = element("li", { id: `gene-${k}` }, element("span", { textContent: gene.name }),
      element("small", { textContent: note }));
    option.setAttribute("role", "option");
    option.dataset.place = place;
    return option;
  }

  choose(k) {
    this.active = k;
    [...this.list.querySelectorAll("[role=option]")].forEach((option, i) => {
      option.setAttribute("aria-selected", String(i === k));
      if (i === k) option.scrollIntoView({ block: "nearest" });
    });
    if (k >= 0) this.input.setAttribute("aria-activedescendant", `gene-${k}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.input.value = this.genes[this.current].name;
  }

  pick(place) {
    this.show(place);
    this.onPick(place);
  }

  show(place) {
    this.current = place;
    this.close();
  }

  key(event) {
    const isOpen = !this.list.hidden;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !isOpen) this.open("");
    else if (step) this.choose(Math.max(0, Math.min(this.shown.length - 1, this.active + step)));
    else if (event.key === "Enter" && isOpen && this.active >= 0) this.pick(this.shown[this.active]);
    else if (event.key === "Escape" && isOpen) this.close();
    else return;
    event.preventDefault();
  }
}
