"use strict";
/* The map: points on a canvas, and above them the names of regions, the chosen node, its edges and its neighbours.
   Drawn by hand instead of by a library, so that the page needs neither eval nor megabytes of script. */

const COLOURS = [
  "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
  "#dd8452", "#8172b3", "#44aa99", "#937860", "#da8bc3", "#999933",
];
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const CELLS = 96; // the points are found again by a grid of this many cells a side
const REACH = 10; // pixels around the pointer in which a point is meant
const EDGES_SHOWN = 500;

const cssValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class MapView {
  /* Points at x, y (n,); `named(place)` is what a node is called, `chosen(place)` is called with the node of a click. */
  constructor(box, x, y, named, chosen) {
    Object.assign(this, { box, x, y, named, chosen });
    this.points = box.querySelector("#points");
    this.above = box.querySelector("#above");
    this.tip = box.querySelector("#tip");
    this.groups = [];
    this.regions = [];
    this.shown = { place: null, joined: [], near: [] };
    this.star = null;
    this.size = x.length > 50000 ? 2 : x.length > 5000 ? 3 : 5;
    this.bounds = [Math.min, Math.max].map((best) => [x, y].map((values) => values.reduce((a, b) => best(a, b), values[0])));
    this.index();
    this.home();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(box);
    this.resize();
  }
  index() {
    const cells = this.cells = Array.from({ length: CELLS * CELLS }, () => []);
    for (let place = 0; place < this.x.length; place++) cells[this.cell(this.x[place], this.y[place])].push(place);
  }
  cell(x, y) {
    const [low, high] = this.bounds;
    const at = [x, y].map((value, side) => {
      const share = (value - low[side]) / (high[side] - low[side] || 1);
      return Math.min(CELLS - 1, Math.max(0, Math.floor(CELLS * share)));
    });
    return at[1] * CELLS + at[0];
  }
  home() {
    const [low, high] = this.bounds;
    this.center = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    this.zoom = 1;
    this.redraw();
  }
  resize() {
    const ratio = window.devicePixelRatio || 1;
    [this.width, this.height] = [this.box.clientWidth, this.box.clientHeight];
    for (const canvas of [this.points, this.above]) {
      canvas.width = this.width * ratio;
      canvas.height = this.height * ratio;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.redraw();
  }
  scale() {
    const [low, high] = this.bounds;
    const fit = Math.min((this.width - 60) / (high[0] - low[0] || 1), (this.height - 60) / (high[1] - low[1] || 1));
    return Math.max(fit, 1e-9) * this.zoom;
  }
  onScreen(x, y) {
    const scale = this.scale();
    return [this.width / 2 + scale * (x - this.center[0]), this.height / 2 - scale * (y - this.center[1])];
  }
  at(place) { return this.onScreen(this.x[place], this.y[place]); }
  redraw() {
    if (this.waiting || !this.width) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }
  draw() {
    const paint = this.points.getContext("2d"), scale = this.scale();
    const [left, top] = [this.width / 2 - scale * this.center[0], this.height / 2 + scale * this.center[1]];
    const size = this.size * Math.min(3, Math.max(1, Math.sqrt(this.zoom)));
    paint.clearRect(0, 0, this.width, this.height);
    paint.globalAlpha = this.x.length > 20000 ? .75 : .85;
    for (const group of this.groups) {
      paint.fillStyle = group.colour;
      for (const place of group.places) {
        const px = left + scale * this.x[place], py = top - scale * this.y[place];
        if (px < -9 || py < -9 || px > this.width + 9 || py > this.height + 9) continue;
        if (size < 3) { paint.fillRect(px - size / 2, py - size / 2, size, size); continue; }
        paint.beginPath();
        paint.arc(px, py, size / 2, 0, 7);
        paint.fill();
      }
    }
    this.drawAbove();
  }
  drawAbove() {
    const paint = this.above.getContext("2d"), { place, joined, near } = this.shown;
    paint.clearRect(0, 0, this.width, this.height);
    const taken = [], text = cssValue("--text");
    if (place !== null) {
      const own = this.at(place);
      paint.strokeStyle = text;
      paint.globalAlpha = .45;
      paint.beginPath();
      for (const other of joined.slice(0, EDGES_SHOWN)) { paint.moveTo(...own); paint.lineTo(...this.at(other)); }
      paint.stroke();
      paint.globalAlpha = 1;
      for (const other of near) this.ring(paint, this.at(other), 5, cssValue("--distance"));
      this.ring(paint, own, 8, text);
      this.write(paint, taken, this.named(place), own, true);
      for (const other of near) this.write(paint, taken, this.named(other), this.at(other), false, 12);
    }
    if (this.star) this.drawStar(paint, this.onScreen(...this.star));
    for (const region of this.regions) {
      this.write(paint, taken, region.name, this.onScreen(region.x, region.y), true, 14, region.colour);
    }
  }
  ring(paint, [x, y], radius, colour) {
    paint.strokeStyle = colour;
    paint.lineWidth = 2;
    paint.beginPath();
    paint.arc(x, y, radius, 0, 7);
    paint.stroke();
    paint.lineWidth = 1;
  }
  drawStar(paint, [x, y]) {
    paint.fillStyle = cssValue("--spread");
    paint.strokeStyle = cssValue("--text");
    paint.beginPath();
    for (let corner = 0; corner < 10; corner++) {
      const radius = corner % 2 ? 5 : 11, angle = Math.PI * corner / 5 - Math.PI / 2;
      paint.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    }
    paint.closePath();
    paint.fill();
    paint.stroke();
  }
  write(paint, taken, name, [x, y], bold, size = 13) {
    /* A name beside its place, with a halo, unless it would cover another one. */
    if (x < 0 || y < 0 || x > this.width || y > this.height) return;
    const shown = name.length > 32 ? `${name.slice(0, 31)}…` : name;
    paint.font = `${bold ? "600 " : ""}${size}px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
    const width = paint.measureText(shown).width;
    const left = Math.max(4, Math.min(x - width / 2, this.width - width - 4)), top = Math.max(size + 4, y - 12);
    const box = [left - 4, top - size - 2, left + width + 4, top + 6];
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) return;
    taken.push(box);
    paint.lineWidth = 4;
    paint.lineJoin = "round";
    paint.strokeStyle = cssValue("--back");
    paint.strokeText(shown, left, top);
    paint.lineWidth = 1;
    paint.fillStyle = cssValue("--text");
    paint.fillText(shown, left, top);
  }
  near([px, py]) {
    /* The point that is meant by a place on the screen, or null. */
    const scale = this.scale(), reach = REACH / scale;
    const x = this.center[0] + (px - this.width / 2) / scale, y = this.center[1] - (py - this.height / 2) / scale;
    const first = this.cell(x - reach, y - reach), last = this.cell(x + reach, y + reach);
    let best = null, least = reach * reach;
    for (let row = Math.floor(first / CELLS); row <= Math.floor(last / CELLS); row++) {
      for (let column = first % CELLS; column <= last % CELLS; column++) {
        for (const place of this.cells[row * CELLS + column]) {
          const gap = (this.x[place] - x) ** 2 + (this.y[place] - y) ** 2;
          if (gap < least) [best, least] = [place, gap];
        }
      }
    }
    return best;
  }
  zoomBy(factor, [px, py] = [this.width / 2, this.height / 2]) {
    const before = this.scale();
    this.zoom = Math.min(400, Math.max(.5, this.zoom * factor));
    const shift = 1 / before - 1 / this.scale();
    this.center = [this.center[0] + (px - this.width / 2) * shift, this.center[1] - (py - this.height / 2) * shift];
    this.redraw();
  }
  panBy(dx, dy) {
    const scale = this.scale();
    this.center = [this.center[0] - dx / scale, this.center[1] + dy / scale];
    this.redraw();
  }
  listen() {
    const fingers = new Map(), canvas = this.above;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      if (!fingers.size) moved = 0;
      fingers.set(event.pointerId, place(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event), before = fingers.get(event.pointerId);
      if (!before) { this.hint(now); return; }
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      if (others.length) {
        const gap = (one, other) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
        this.zoomBy(gap(now, others[0]) / gap(before, others[0]), others[0]);
        moved += 9;
      } else {
        this.panBy(now[0] - before[0], now[1] - before[1]);
        moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      }
      fingers.set(event.pointerId, now);
    });
    const end = (event) => {
      if (!fingers.delete(event.pointerId) || fingers.size || moved > 5 || event.type === "pointercancel") return;
      const found = this.near(place(event));
      if (found !== null) this.chosen(found);
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY / 400), place(event));
    }, { passive: false });
    this.box.addEventListener("keydown", (event) => this.key(event));
  }
  key(event) {
    if (event.target !== this.above || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (steps[event.key]) this.panBy(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoomBy(1.4);
    else if (event.key === "-") this.zoomBy(1 / 1.4);
    else if (event.key === "0") this.home();
    else if (event.key === "Enter") {
      const found = this.near([this.width / 2, this.height / 2]);
      if (found !== null) this.chosen(found);
    } else return;
    event.preventDefault();
  }
  hint(at) {
    const found = this.near(at);
    this.tip.hidden = found === null;
    this.above.classList.toggle("over", found !== null);
    if (found === null) return;
    const [x, y] = this.at(found);
    this.tip.textContent = this.named(found);
    this.tip.style.left = `${Math.min(x + 10, this.width - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = `${Math.max(y - 30, 2)}px`;
  }
  colour(groups, regions) {
    /* `groups`: {colour, places}; `regions`: the same with a name, which is written where most of its points are. */
    this.groups = groups;
    this.regions = regions.map((region) => ({ name: region.name, ...this.densest(region.places) }));
    this.redraw();
  }
  densest(places) {
    /* The mean of the points in the block of 5 x 5 coarse cells that holds most of them. */
    const cells = new Map(), side = CELLS / 4;
    for (const place of places) {
      const cell = this.cell(this.x[place], this.y[place]);
      const coarse = Math.floor(cell / CELLS / 4) * side + Math.floor((cell % CELLS) / 4);
      if (!cells.has(coarse)) cells.set(coarse, []);
      cells.get(coarse).push(place);
    }
    const around = (cell) => [-2, -1, 0, 1, 2].flatMap((row) => [-2, -1, 0, 1, 2].map((column) =>
      cells.get(cell + row * side + column) || []));
    const count = (cell) => around(cell).reduce((sum, found) => sum + found.length, 0);
    const best = [...cells.keys()].reduce((one, other) => (count(other) > count(one) ? other : one));
    const most = around(best).flat();
    const mean = (values) => most.reduce((sum, place) => sum + values[place], 0) / most.length;
    return { x: mean(this.x), y: mean(this.y) };
  }
  show(place, joined, near) {
    this.shown = { place, joined, near };
    if (place !== null) {
      const [x, y] = this.at(place);
      if (x < 20 || y < 20 || x > this.width - 20 || y > this.height - 20) this.center = [this.x[place], this.y[place]];
    }
    this.redraw();
  }
  land(neighbors) {
    /* A new node has no place of its own on the map: it is drawn at the mean of its neighbours, the first counting most. */
    let total = 0, x = 0, y = 0;
    for (const [rank, place] of neighbors.slice(0, 5).entries()) {
      const weight = 1 / (rank + 1);
      total += weight;
      x += weight * this.x[place];
      y += weight * this.y[place];
    }
    this.star = total ? [x / total, y / total] : null;
    this.redraw();
  }
  picture() {
    const whole = document.createElement("canvas"), paint = whole.getContext("2d");
    [whole.width, whole.height] = [this.points.width, this.points.height];
    paint.fillStyle = cssValue("--back");
    paint.fillRect(0, 0, whole.width, whole.height);
    paint.drawImage(this.points, 0, 0);
    paint.drawImage(this.above, 0, 0);
    return whole.toDataURL("image/png");
  }
}
