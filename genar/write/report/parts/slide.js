// The slide with its spots: drawing, moving, and which spot is where.

const ZOOM_STEP = 1.4;
const FREE = { top: 46, bottom: 40, side: 8 }; // CSS pixels that a fitted slide leaves to buttons and the scale bar
const BAR_UM = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000];
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

class Slide {
  constructor(canvas, image, spots, held, onSpot, onHide) {
    Object.assign(this, { canvas, image, spots, onSpot, onHide });
    this.radius = held.diameter / 2;
    this.drawn = this.radius;
    this.umPerPx = held.um_per_px;
    this.steps = new Int16Array(held.n).fill(-1);
    this.colours = [];
    this.opacity = 0.8;
    this.hidden = false;
    this.marked = -1;
    this.grid = this.bins();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.fit();
  }

  // Spots by squares of the image, so that the one under the pointer is found at once.
  bins() {
    const { x, y } = this.spots;
    const side = Math.max(this.radius * 4, Math.sqrt((this.image.naturalWidth * this.image.naturalHeight) / x.length));
    const squares = new Map();
    for (let i = 0; i < x.length; i++) {
      const key = `${Math.floor(x[i] / side)},${Math.floor(y[i] / side)}`;
      if (!squares.has(key)) squares.set(key, []);
      squares.get(key).push(i);
    }
    return { side, squares };
  }

  paint(steps, colours) {
    this.steps = steps;
    this.colours = colours;
    this.draw();
  }

  // The part of the slide that has spots, with some room, fills the canvas.
  fit() {
    const { x, y } = this.spots;
    const room = this.radius * 1.5;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      left = Math.min(left, x[i] - room);
      right = Math.max(right, x[i] + room);
      top = Math.min(top, y[i] - room);
      bottom = Math.max(bottom, y[i] + room);
    }
    const width = this.canvas.clientWidth - 2 * FREE.side;
    const height = this.canvas.clientHeight - FREE.top - FREE.bottom;
    this.scale = Math.max(1e-6, Math.min(width / (right - left), height / (bottom - top)));
    this.smallest = this.scale / 4;
    this.dx = FREE.side + width / 2 - (this.scale * (left + right)) / 2;
    this.dy = FREE.top + height / 2 - (this.scale * (top + bottom)) / 2;
    this.fitted = true;
    this.draw();
  }

  resize() {
    if (this.fitted) this.fit();
    else this.draw();
  }

  zoom(factor, atX = this.canvas.clientWidth / 2, atY = this.canvas.clientHeight / 2) {
    const scale = Math.max(this.smallest, Math.min(this.scale * factor, 200 / this.radius));
    this.dx = atX - ((atX - this.dx) * scale) / this.scale;
    this.dy = atY - ((atY - this.dy) * scale) / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.draw();
  }

  move(dx, dy) {
    this.dx += dx;
    this.dy += dy;
    this.fitted = false;
    this.draw();
  }

  hide(hidden) {
    this.hidden = hidden;
    this.draw();
  }

  draw() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => {
      this.due = 0;
      this.drawNow();
    });
  }

  drawNow() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const context = sharp(this.canvas, width, height);
    context.save();
    context.translate(this.dx, this.dy);
    context.scale(this.scale, this.scale);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.image, 0, 0);
    if (!this.hidden) {
      context.globalAlpha = this.opacity;
      fillSpots(context, this.spots.x, this.spots.y, this.drawn, this.steps, this.colours);
      context.globalAlpha = 1;
    }
    if (this.marked >= 0) this.ring(context);
    context.restore();
    this.bar(context, width, height);
  }

  ring(context) {
    for (const [colour, thick] of [["#fff", 5], ["#000", 2.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = thick / this.scale;
      context.beginPath();
      context.arc(this.spots.x[this.marked], this.spots.y[this.marked], this.drawn + 2 / this.scale, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  bar(context, width, height) {
    if (!this.umPerPx) return;
    const px = (um) => (um / this.umPerPx) * this.scale;
    const um = BAR_UM.findLast((length) => px(length) < 0.22 * width) ?? BAR_UM[0];
    const [x, y, text] = [20, height - 18, um >= 1000 ? `${um / 1000} mm` : `${um} µm`];
    context.fillStyle = "rgba(255,255,255,0.85)";
    context.fillRect(x - 8, y - 24, Math.max(px(um), context.measureText(text).width) + 16, 34);
    context.fillStyle = "#1a1a1a";
    context.fillRect(x, y, px(um), 4);
    context.font = "13px system-ui, sans-serif";
    context.fillText(text, x, y - 6);
  }

  // The spot at a place of the canvas; -1 where there is none.
  at(px, py) {
    const [x, y] = [(px - this.dx) / this.scale, (py - this.dy) / this.scale];
    const { side, squares } = this.grid;
    const [column, row] = [Math.floor(x / side), Math.floor(y / side)];
    let [found, nearest] = [-1, Math.max(this.radius, 4 / this.scale) ** 2];
    for (let i = column - 1; i <= column + 1; i++) {
      for (let j = row - 1; j <= row + 1; j++) {
        for (const spot of squares.get(`${i},${j}`) ?? []) {
          const distance = (this.spots.x[spot] - x) ** 2 + (this.spots.y[spot] - y) ** 2;
          if (distance <= nearest) [found, nearest] = [spot, distance];
        }
      }
    }
    return found;
  }

  // The nearest spot in a direction, sideways steps counting double; from nowhere, the one nearest the middle.
  next(way) {
    const { x, y } = this.spots;
    const [fromX, fromY] = this.marked >= 0
      ? [x[this.marked], y[this.marked]]
      : [(this.canvas.clientWidth / 2 - this.dx) / this.scale, (this.canvas.clientHeight / 2 - this.dy) / this.scale];
    let [found, best] = [this.marked, Infinity];
    for (let i = 0; i < x.length; i++) {
      const [ahead, aside] = [(x[i] - fromX) * way[0] + (y[i] - fromY) * way[1],
        Math.abs((x[i] - fromX) * way[1]) + Math.abs((y[i] - fromY) * way[0])];
      const far = this.marked < 0 ? Math.hypot(ahead, aside) : ahead + 2 * aside;
      if (i === this.marked || far >= best || (this.marked >= 0 && ahead <= Math.max(aside / 2, 1e-3))) continue;
      [found, best] = [i, far];
    }
    return found;
  }

  mark(spot, spoken = false) {
    if (spot === this.marked) return;
    this.marked = spot;
    this.draw();
    this.onSpot(spot, spoken);
  }

  // Move so that the marked spot is in sight.
  follow() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const [x, y] = [this.dx + this.scale * this.spots.x[this.marked], this.dy + this.scale * this.spots.y[this.marked]];
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) this.move(width / 2 - x, height / 2 - y);
  }

  listen() {
    let from = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = [event.offsetX, event.offsetY];
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (from) {
        this.move(event.offsetX - from[0], event.offsetY - from[1]);
        from = [event.offsetX, event.offsetY];
      } else {
        const spot = this.at(event.offsetX, event.offsetY);
        if (spot >= 0) this.mark(spot);
      }
    });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => (from = null));
    this.canvas.addEventListener("click", (event) => this.mark(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== this.canvas) return; // else the page scrolls
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = WAYS[event.key];
    if (way && event.shiftKey) this.move(-60 * way[0], -60 * way[1]);
    else if (way) {
      this.mark(this.next(way), true);
      if (this.marked >= 0) this.follow();
    } else if (event.key === "+" || event.key === "=") this.zoom(ZOOM_STEP);
    else if (event.key === "-") this.zoom(1 / ZOOM_STEP);
    else if (event.key === "0") this.fit();
    else if (event.key.toLowerCase() === "h") this.onHide();
    else if (event.key === "Escape") this.mark(-1, true);
    else return;
    event.preventDefault();
  }
}
