"use strict";
/* The explorer: a map of all nodes, and what the Gaussians say of the one that is chosen.
   Answers come from the server, or stand in the page itself (`Embedded`) if it was exported. */

const $ = (id) => document.getElementById(id);
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = [
  "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#882255", "#44aa99", "#cc6677",
  "#117733", "#88ccee", "#dd8452", "#937860", "#8172b3", "#da8bc3", "#64b5cd", "#b07aa1",
];
const NEIGHBORS = 8, LINKS = 5;

const unpack = (text) =>
  text === null ? null : new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

class Served {
  byType = true;
  async ask(path, parameters, body) {
    const query = new URLSearchParams(parameters);
    const options = body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    };
    const reply = await fetch(`api/${path}?${query}`, options || {});
    const answer = await reply.json();
    if (!reply.ok) throw new Error(answer.error);
    return answer;
  }
  map() { return this.ask("map"); }
  complete(text) { return this.ask("complete", { q: text, k: 12 }); }
  node(id) { return this.ask("node", { id }); }
  neighbors(id, type) { return this.ask("neighbors", { id, k: NEIGHBORS, ...(type ? { node_type: type } : {}) }); }
  async likely(id) {
    const found = await this.ask("links", { id, k: LINKS, why: true });
    return found.map((link) => ({ id: link.target, probability: link.probability, why: link.why }));
  }
  ellipses(id, others) {
    return this.ask("ellipses", [["id", id], ...others.map((other) => ["other", other])]);
  }
  async embed(kind, text) {
    const row = kind === "names" ? text.split(/[\s,]+/).filter(Boolean)
      : kind === "attributes" ? text.split(/[\s,]+/).filter(Boolean).map(Number) : text;
    return (await this.ask("embed", {}, { [kind]: [row], k: NEIGHBORS }))[0];
  }
}

class Embedded {
  constructor(data) {
    this.data = { ...data, takes: null };
    this.byType = false; // it has the neighbours of each node, but not those of each type
    this.places = new Map(data.ids.map((id, place) => [id, place]));
    this.certainty = unpack(data.certainty);
    this.codes = unpack(data.codes);
    this.types = unpack(data.type_codes);
  }
  map() { return this.data; }
  complete(text) {
    const wanted = text.toLowerCase(), starts = [], holds = [];
    for (const id of this.data.ids) {
      const at = String(id).toLowerCase().indexOf(wanted);
      if (at === 0) starts.push(id); else if (at > 0) holds.push(id);
    }
    const shorter = (one, other) => String(one).length - String(other).length;
    return [...starts.sort(shorter), ...holds.sort(shorter)].slice(0, 12);
  }
  named(place) {
    const name = (codes, names) => (codes && codes[place] >= 0 ? names[codes[place]] : null);
    return {
      id: this.data.ids[place], label: name(this.codes, this.data.labels), type: name(this.types, this.data.types),
      certainty: this.certainty ? this.certainty[place] : undefined,
    };
  }
  node(id) {
    const place = this.places.get(id), joined = this.data.joined ? this.data.joined[place] : [];
    return { ...this.named(place), edges: joined.length, joined: joined.map((other) => this.data.ids[other]) };
  }
  neighbors(id) {
    const data = this.data, place = this.places.get(id);
    return data.neighbors[place].map((other, rank) => ({
      ...this.named(other), dissimilarity: data.dissimilarity[place][rank],
      variance_term: data.variance_term[place][rank],
      known: data.joined && data.joined[place].includes(other),
    }));
  }
  likely(id) {
    const { links, link_probability: probability, link_why: why } = this.data, place = this.places.get(id);
    if (!links) return [];
    return links[place].map((other, rank) => ({
      id: this.data.ids[other], probability: probability[place][rank], why: why[place][rank],
    })).filter((answer) => answer.id !== undefined);
  }
  ellipses(id, others) {
    const names = [id, ...others];
    return this.data.ellipses[this.places.get(id)].map(([x, y, long, short, angle], rank) =>
      ({ id: names[rank], x, y, long, short, angle }));
  }
}

class Atlas {
  /* The map: one trace a label or type, or all nodes by certainty; above them the edges and the chosen node. */
  constructor(data, chosen) {
    this.data = data;
    this.x = unpack(data.x);
    this.y = unpack(data.y);
    this.certainty = unpack(data.certainty);
    this.codes = { label: unpack(data.codes), type: unpack(data.type_codes) };
    this.names = { label: data.labels, type: data.types };
    this.places = new Map(data.ids.map((id, place) => [id, place]));
    this.chosen = chosen;
    this.marked = null;
    this.element = $("map");
    this.size = data.ids.length > 50000 ? 2.5 : data.ids.length > 5000 ? 4 : 6;
  }
  async draw(colour) {
    const traces = this.codes[colour] ? this.byCategory(colour) : [this.byCertainty(colour)];
    this.below = traces.length;
    await Plotly.react(this.element, [...traces, this.edges(), this.mark(), this.star()], this.layout(colour), {
      responsive: true, scrollZoom: true, displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    });
    if (!this.listening) {
      this.listening = true;
      this.element.on("plotly_click", (event) => {
        const place = event.points[0].customdata;
        if (place !== undefined) this.chosen(this.data.ids[place]);
      });
    }
  }
  points(places, name, marker) {
    return {
      type: "scattergl", mode: "markers", name, customdata: places, marker: { size: this.size, ...marker },
      x: Float32Array.from(places, (place) => this.x[place]), y: Float32Array.from(places, (place) => this.y[place]),
      text: places.map((place) => escaped(this.data.ids[place])), hovertemplate: "%{text}<extra></extra>",
    };
  }
  byCategory(kind) {
    const groups = new Map();
    for (let place = 0; place < this.x.length; place++) {
      const code = this.codes[kind][place];
      if (!groups.has(code)) groups.set(code, []);
      groups.get(code).push(place);
    }
    return [...groups.entries()].sort((one, other) => one[0] - other[0]).map(([code, places]) =>
      this.points(places, escaped(code < 0 ? `no ${kind}` : this.names[kind][code]),
        { color: code < 0 ? style("--faint") : PALETTE[code % PALETTE.length] }));
  }
  byCertainty(colour) {
    const places = Array.from(this.x.keys());
    if (colour !== "certainty") return this.points(places, "nodes", { color: style("--distance") });
    return this.points(places, "nodes", {
      color: this.certainty, cmin: 0, cmax: 1, colorscale: "Viridis",
      colorbar: { title: { text: "certainty" }, thickness: 12, outlinewidth: 0 },
    });
  }
  layout(colour) {
    const axis = { visible: false, showgrid: false, zeroline: false };
    return {
      paper_bgcolor: style("--back"), plot_bgcolor: style("--back"), font: { color: style("--text"), size: 12 },
      margin: { l: 8, r: 8, t: 34, b: 8 }, xaxis: axis, yaxis: { ...axis, scaleanchor: "x" }, dragmode: "pan",
      hovermode: "closest", showlegend: Boolean(this.codes[colour]), uirevision: "kept",
      legend: { itemsizing: "constant", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } },
    };
  }
  edges() {
    const line = { color: style("--text"), width: 1 };
    return { type: "scattergl", mode: "lines", x: [], y: [], line, opacity: .6, hoverinfo: "skip", showlegend: false };
  }
  mark() {
    const line = { color: style("--text"), width: 2 };
    const marker = { size: 14, color: "rgba(0,0,0,0)", line };
    return { type: "scattergl", mode: "markers", x: [], y: [], marker, hoverinfo: "skip", showlegend: false };
  }
  star() {
    const marker = { size: 16, symbol: "star", color: style("--spread"), line: { color: style("--text"), width: 1 } };
    return {
      type: "scatter", mode: "markers", x: [], y: [], marker, showlegend: false,
      hovertemplate: "the new node<extra></extra>",
    };
  }
  async show(id, joined) {
    const place = this.places.get(id), x = [], y = [];
    for (const other of joined.slice(0, 500)) {
      const end = this.places.get(other);
      x.push(this.x[place], this.x[end], null);
      y.push(this.y[place], this.y[end], null);
    }
    await Plotly.restyle(this.element, { x: [x, [this.x[place]]], y: [y, [this.y[place]]] }, [this.below, this.below + 1]);
  }
  async land(neighbors) {
    /* A new node has no place of its own on the map: it is drawn at the mean of its neighbours, the first counting most. */
    let total = 0, x = 0, y = 0;
    for (const [rank, each] of neighbors.slice(0, 5).entries()) {
      const place = this.places.get(each.id), weight = 1 / (rank + 1);
      total += weight;
      x += weight * this.x[place];
      y += weight * this.y[place];
    }
    await Plotly.restyle(this.element, { x: [[x / total]], y: [[y / total]] }, [this.below + 2]);
  }
}

/* plotly reads some tags in texts. */
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const figure = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2));
const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;
const chance = (value) => percent(value, value > .9 || value < .1 ? value < .001 ? 3 : 1 : 0);

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function listNodes(list, answers, choose, bars) {
  /* Neighbours have a dissimilarity and bars, links a probability and reasons. */
  const most = Math.max(...answers.map((answer) => answer.dissimilarity || 0), 1e-9);
  list.replaceChildren(...answers.map((answer) => {
    const item = element("li"), button = element("button");
    button.type = "button";
    button.append(element("span", answer.id, answer.known ? "id known" : "id"));
    const isLink = answer.probability !== undefined;
    button.append(element("span", isLink ? chance(answer.probability) : figure(answer.dissimilarity), "figure"));
    button.title = isLink ? "probability that the edge is missing"
      : (answer.known ? "joined by an edge; " : "") + "dissimilarity";
    button.addEventListener("click", () => choose(answer.id));
    item.append(button);
    if (answer.why) item.append(element("p", answer.why, "why"));
    if (bars && answer.variance_term !== undefined) item.append(bar(answer, most));
    return item;
  }));
}

function bar(answer, most) {
  const made = element("div", undefined, "bar");
  const parts = { distance: answer.dissimilarity - answer.variance_term, spread: answer.variance_term };
  for (const [name, value] of Object.entries(parts)) {
    const part = element("i", undefined, name);
    part.style.width = `${Math.max(100 * value / most, 0)}%`;
    made.append(part);
  }
  made.title = `dissimilarity ${figure(answer.dissimilarity)}: ${figure(parts.distance)} by distance, `
    + `${figure(parts.spread)} by unequal variance`;
  return made;
}

function drawEllipses(found) {
  const svg = $("ellipses"), space = "http://www.w3.org/2000/svg";
  const xs = found.flatMap((each) => [each.x - each.long, each.x + each.long]);
  const ys = found.flatMap((each) => [each.y - each.long, each.y + each.long]);
  const low = [Math.min(...xs), Math.min(...ys)], high = [Math.max(...xs), Math.max(...ys)];
  const scale = Math.min(280 / (high[0] - low[0] || 1), 180 / (high[1] - low[1] || 1));
  const at = (x, y) => [150 + scale * (x - (low[0] + high[0]) / 2), 100 - scale * (y - (low[1] + high[1]) / 2)];
  svg.replaceChildren(...[...found.keys()].reverse().flatMap((rank) => {
    const each = found[rank], [x, y] = at(each.x, each.y);
    const ellipse = document.createElementNS(space, "ellipse"), text = document.createElementNS(space, "text");
    const values = {
      cx: x, cy: y, rx: Math.max(scale * each.long, 2), ry: Math.max(scale * each.short, 2),
      transform: `rotate(${-each.angle} ${x} ${y})`,
    };
    for (const [name, value] of Object.entries(values)) ellipse.setAttribute(name, value);
    if (rank === 0) ellipse.setAttribute("class", "own");
    text.setAttribute("x", x);
    text.setAttribute("y", y);
    text.setAttribute("text-anchor", "middle");
    text.textContent = rank === 0 ? each.id : "";
    const title = document.createElementNS(space, "title");
    title.textContent = each.id;
    ellipse.append(title);
    return [ellipse, text];
  }));
}

function showMeter(certainty) {
  const meter = $("certainty");
  meter.hidden = certainty === undefined || certainty === null;
  if (meter.hidden) return;
  meter.querySelector("span").textContent = `more certain than ${percent(certainty)} of the nodes`;
  meter.querySelector("b").style.width = `${100 * certainty}%`;
}

class Explorer {
  constructor(source) { this.source = source; }
  async start() {
    const data = await this.source.map();
    this.atlas = new Atlas(data, (id) => this.choose(id));
    this.offerColours(data);
    this.offerTypes(data);
    this.offerDescription(data);
    $("facts").textContent = `${data.nodes.toLocaleString("en")} nodes`
      + (data.edges === null ? "" : `, ${data.edges.toLocaleString("en")} edges`);
    await this.atlas.draw($("colour").value);
    window.glaceDrawnAfter = performance.now();
    $("status").textContent = "Click a node, or find one by its id.";
    $("assumed").textContent = "The probability of an edge, if "
      + `${percent(data.missing_edge_fraction, 1)} of all edges are missing.`;
    new Finder(this.source, (id) => this.choose(id, true));
    const redraw = () => this.redraw();
    $("colour").addEventListener("change", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }
  offerColours(data) {
    const offered = {
      label: data.codes && "label", type: data.type_codes && "type", certainty: data.certainty && "certainty",
      plain: "nothing",
    };
    for (const [value, text] of Object.entries(offered)) {
      if (text) $("colour").append(new Option(text, value));
    }
  }
  offerTypes(data) {
    $("of-type").hidden = !data.types.length || !this.source.byType;
    $("type").append(new Option("all", ""), ...data.types.map((name) => new Option(name, name)));
    $("type").addEventListener("change", () => this.choose(this.now.id));
  }
  offerDescription(data) {
    const hints = {
      texts: "words that describe it", names: "names of its attributes",
      attributes: `${data.width} numbers, its attributes`,
    };
    // Rows of mixed columns do not fit into one line of text.
    $("describe").hidden = !data.takes || data.takes === "rows";
    $("text").placeholder = hints[data.takes] || "";
    $("describe").addEventListener("submit", (event) => {
      event.preventDefault();
      this.place(data.takes, $("text").value);
    });
  }
  async redraw() {
    await this.atlas.draw($("colour").value);
    if (this.now) await this.atlas.show(this.now.id, this.now.joined);
    if (this.landed) await this.atlas.land(this.landed);
  }
  async choose(id, focus) {
    const number = this.asked = (this.asked || 0) + 1;
    try {
      const [node, neighbors, likely] = await Promise.all([
        this.source.node(id), this.source.neighbors(id, $("type").value),
        Promise.resolve().then(() => this.source.likely(id)).catch(() => []),
      ]);
      const ellipses = await this.source.ellipses(id, neighbors.map((each) => each.id));
      if (number !== this.asked) return; // another node was chosen meanwhile
      this.now = node;
      await this.atlas.show(node.id, node.joined);
      this.about(node, neighbors, likely);
      if (focus) $("name").focus();
      drawEllipses(ellipses);
    } catch (problem) {
      $("status").hidden = false;
      $("status").textContent = problem.message;
    }
  }
  about(node, neighbors, likely) {
    $("status").hidden = true;
    $("about").hidden = false;
    $("name").textContent = node.id;
    const facts = { type: node.type, label: node.label, edges: node.edges };
    $("node").replaceChildren(...Object.entries(facts).filter(([, value]) => value !== undefined && value !== null)
      .flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
    showMeter(node.certainty);
    listNodes($("neighbors"), neighbors, (id) => this.choose(id, true), true);
    listNodes($("likely"), likely, (id) => this.choose(id, true), false);
  }
  async place(kind, text) {
    const said = $("placed");
    said.className = "";
    try {
      const answer = await this.source.embed(kind, text);
      this.landed = answer.neighbors;
      await this.atlas.land(answer.neighbors);
      said.textContent = answer.certainty === null ? "Its place is the star on the map."
        : `Its place is the star on the map, more certain than ${percent(answer.certainty)} of the nodes.`;
      if (answer.is_novel) {
        said.className = "warning";
        said.textContent += ` Warning: it is unlike the training graph (${percent(answer.unseen)} of its attributes`
          + " were never seen there). Nothing is known about it: what it seems to be like means nothing, and the"
          + " probability of each link is the density of the graph.";
      }
      const links = answer.links.slice(0, LINKS).map((link) => ({ id: link.target, probability: link.probability }));
      $("placed-lists").hidden = false;
      listNodes($("placed-neighbors"), answer.neighbors, (id) => this.choose(id, true), false);
      listNodes($("placed-links"), links, (id) => this.choose(id, true), false);
    } catch (problem) {
      said.className = "warning";
      said.textContent = problem.message;
      $("placed-lists").hidden = true;
    }
  }
}

class Finder {
  /* The search box: a combobox as keyboards and screen readers know it. */
  constructor(source, choose) {
    this.source = source;
    this.choose = choose;
    this.box = $("search");
    this.list = $("found");
    this.asked = 0;
    this.box.addEventListener("input", () => this.ask());
    this.box.addEventListener("keydown", (event) => this.key(event));
    // Later, as a click on the list takes the focus first; and not if somebody is back in the box by then.
    this.box.addEventListener("blur", () => setTimeout(() => {
      if (document.activeElement !== this.box) this.close();
    }, 150));
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
        event.preventDefault();
        this.box.focus();
      }
    });
  }
  async ask() {
    const number = ++this.asked, text = this.box.value.trim();
    this.pending = true;
    const found = text ? await this.source.complete(text) : [];
    if (number !== this.asked) return;
    this.pending = false;
    this.list.replaceChildren(...found.map((id, rank) => {
      const item = element("li", id);
      item.id = `found-${rank}`;
      item.setAttribute("role", "option");
      item.addEventListener("mousedown", () => this.take(id));
      return item;
    }));
    if (text && !found.length) this.list.append(element("li", "no id holds this", "none"));
    this.found = found;
    this.open(text !== "");
    this.select(0);
    if (this.hurried && found.length) this.take(found[0]);
    this.hurried = false;
  }
  open(is) {
    this.list.hidden = !is;
    this.box.setAttribute("aria-expanded", String(is));
  }
  close() { this.open(false); }
  select(rank) {
    this.at = rank;
    if (this.found.length) {
      [...this.list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === rank)));
      this.box.setAttribute("aria-activedescendant", `found-${rank}`);
      this.list.children[rank].scrollIntoView({ block: "nearest" });
    }
  }
  key(event) {
    const count = this.list.hidden ? 0 : this.found.length;
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && this.pending) this.hurried = true; // who types fast need not wait
    else if (event.key === "Enter" && count) this.take(this.found[this.at]);
    else if (event.key === "ArrowDown" && count) this.select((this.at + 1) % count);
    else if (event.key === "ArrowUp" && count) this.select((this.at + count - 1) % count);
    else return;
    event.preventDefault();
  }
  take(id) {
    this.box.value = id;
    this.close();
    this.choose(id);
  }
}

const embedded = document.getElementById("data");
new Explorer(embedded ? new Embedded(JSON.parse(embedded.textContent)) : new Served()).start().catch((problem) => {
  $("status").textContent = `The map cannot be shown: ${problem.message}`;
});
