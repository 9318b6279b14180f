"use strict";
/* The explorer: what the map shows, and what the Gaussians say of the node that is chosen; map.js draws.
   Answers come from the server, or stand in the page itself (`Embedded`) if it was exported. */

const $ = (id) => document.getElementById(id);
const NEIGHBORS = 8, LINKS = 5;
const DEAD = "The server does not answer. It may have been stopped: start it again with `glace explore`.";

const unpack = (text) =>
  text === null ? null : new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

class Served {
  byType = true;
  async ask(path, parameters, body) {
    const query = new URLSearchParams(parameters);
    const options = body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    };
    let reply;
    try {
      reply = await fetch(`api/${path}?${query}`, options || {});
    } catch {
      this.isDead(true);
      throw new Error(DEAD);
    }
    this.isDead(false);
    const answer = await reply.json();
    if (!reply.ok) throw new Error(answer.error);
    return answer;
  }
  isDead(is) {
    $("dead").hidden = !is;
    $("dead").textContent = is ? DEAD : "";
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
    const wanted = text.toLowerCase(), starts = [], holds = [], titled = [];
    for (const [place, id] of this.data.ids.entries()) {
      const at = id.toLowerCase().indexOf(wanted);
      if (at === 0) starts.push(id);
      else if (at > 0) holds.push(id);
      else if (this.data.titles && this.data.titles[place].toLowerCase().includes(wanted)) titled.push(id);
    }
    const shorter = (one, other) => one.length - other.length;
    return [...starts.sort(shorter), ...holds.sort(shorter), ...titled].slice(0, 12);
  }
  named(place) {
    const name = (codes, names) => (codes && codes[place] >= 0 ? names[codes[place]] : null);
    return {
      id: this.data.ids[place], label: name(this.codes, this.data.labels), type: name(this.types, this.data.types),
      certainty: this.certainty ? this.certainty[place] : undefined,
    };
  }
  node(id) {
    const place = this.places.get(id), { joined: all } = this.data, joined = all ? all[place] : [];
    return { ...this.named(place), edges: all ? joined.length : null, joined: joined.map((other) => this.data.ids[other]) };
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
  /* What the map shows: which nodes are coloured how, what regions are called, and what a node is called. */
  constructor(data, chosen) {
    this.data = data;
    this.places = new Map(data.ids.map((id, place) => [id, place]));
    this.numbers = { certainty: unpack(data.certainty), degree: unpack(data.degree) };
    this.categories = {};
    const offered = [
      ["label", data.labels, data.codes], ["type", data.types, data.type_codes], ["cluster", data.clusters, data.cluster_codes],
      ...data.columns.map((column) => [`column ${column.name}`, column.names, column.codes]),
    ];
    for (const [kind, names, codes] of offered) if (codes) this.categories[kind] = { names, codes: unpack(codes) };
    for (const { name, values } of data.columns) if (values) this.numbers[`column ${name}`] = unpack(values);
    this.view = new MapView($("map"), unpack(data.x), unpack(data.y), (place) => this.named(place),
      (place) => chosen(data.ids[place]));
  }
  named(place) { return (this.data.titles && this.data.titles[place]) || this.data.ids[place]; }
  title(id) {
    const title = this.data.titles && this.data.titles[this.places.get(id)];
    return title && title !== id ? title : "";
  }
  draw(kind) {
    const groups = this.categories[kind] ? this.byCategory(kind) : this.byNumber(kind);
    // Regions have the names of what colours them; numbers colour regions that clusters name.
    const regions = this.categories[kind] ? groups : this.categories.cluster ? this.byCategory("cluster") : [];
    this.kind = kind;
    this.groups = groups;
    this.view.colour([...groups].reverse(), regions.filter((group) => group.isNamed));
    this.legend(kind, groups);
  }
  byCategory(kind) {
    /* The most frequent categories have colours; all others share a grey. The largest comes first. */
    const { names, codes } = this.categories[kind], byCode = new Map();
    for (let place = 0; place < codes.length; place++) {
      if (!byCode.has(codes[place])) byCode.set(codes[place], []);
      byCode.get(codes[place]).push(place);
    }
    const found = [...byCode].filter(([code]) => code >= 0)
      .sort((one, other) => other[1].length - one[1].length || one[0] - other[0]);
    const groups = found.slice(0, COLOURS.length).map(([code, places], rank) =>
      ({ name: names[code], colour: COLOURS[rank], places, isNamed: true }));
    const rest = found.slice(COLOURS.length), grey = cssValue("--other");
    if (rest.length) {
      const places = rest.flatMap(([, each]) => each);
      groups.push({ name: `${rest.length} others`, colour: grey, places });
    }
    if (byCode.has(-1)) groups.push({ name: `no ${kind.replace("column ", "")}`, colour: grey, places: byCode.get(-1) });
    return groups;
  }
  byNumber(kind) {
    const values = this.numbers[kind], count = this.data.ids.length;
    if (!values) return [{ name: "nodes", colour: cssValue("--distance"), places: Array.from({ length: count }, (_, at) => at) }];
    // A few nodes with very many edges would leave one colour for all others: the scale is that of ranks' tenths.
    const sorted = values.filter((value) => !Number.isNaN(value)).sort(), steps = VIRIDIS.length, known = sorted.length;
    const ends = VIRIDIS.map((_, step) => sorted[Math.min(known - 1, Math.floor(known * (step + 1) / steps))]);
    const groups = VIRIDIS.map((colour, step) => ({ colour, places: [], low: step ? ends[step - 1] : sorted[0], high: ends[step] }));
    const missing = { name: `no ${kind.replace("column ", "")}`, colour: cssValue("--other"), places: [] };
    for (let place = 0; place < count; place++) {
      if (Number.isNaN(values[place])) { missing.places.push(place); continue; }
      let step = ends.findIndex((end) => values[place] <= end);
      if (step < 0) step = steps - 1;
      groups[step].places.push(place);
    }
    return [...groups, missing].filter((group) => group.places.length);
  }
  legend(kind, groups) {
    const number = (value) => (kind === "certainty" ? value.toFixed(2) : rounded(value));
    $("legend").hidden = kind === "plain";
    $("legend-title").textContent = this.data.colours[kind] || kind.replace("column ", "");
    $("entries").replaceChildren(...groups.map((group) => {
      const item = element("li"), swatch = element("i", undefined, "swatch");
      swatch.style.background = group.colour;
      const name = group.name || (group.low === group.high ? number(group.high) : `${number(group.low)} to ${number(group.high)}`);
      item.append(swatch, element("span", name), element("span", group.places.length.toLocaleString("en"), "count"));
      return item;
    }));
  }
  numbersOf(place) {
    /* The numbers of a node in the columns of its table, as name and text. */
    return this.data.columns.filter(({ values }) => values)
      .map(({ name }) => [name, this.numbers[`column ${name}`][place]])
      .filter(([, value]) => !Number.isNaN(value)).map(([name, value]) => [name, rounded(value)]);
  }
  show(id, joined, near) {
    const placesOf = (ids) => ids.map((other) => this.places.get(other));
    this.view.show(id === null ? null : this.places.get(id), placesOf(joined), placesOf(near));
  }
  land(neighbors) { this.view.land(neighbors.map((each) => this.places.get(each.id))); }
}

const figure = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2));
const rounded = (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(3)));
const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;
const chance = (value) => percent(value, value > .9 || value < .1 ? value < .001 ? 3 : 1 : 0);

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function listNodes(list, answers, choose, titleOf, bars) {
  /* Neighbours have a dissimilarity and bars, links a probability and reasons. */
  const least = Math.min(...answers.map((answer) => answer.dissimilarity ?? Infinity));
  list.replaceChildren(...answers.map((answer) => {
    const item = element("li"), button = element("button"), name = element("span", answer.id, "id");
    button.type = "button";
    const title = titleOf(answer.id);
    if (title) name.append(element("span", title, "title"));
    button.append(name);
    if (answer.known) button.append(element("span", "linked", "linked"));
    const isLink = answer.probability !== undefined;
    button.append(element("span", isLink ? chance(answer.probability) : figure(answer.dissimilarity), "figure"));
    button.title = isLink ? "probability of an edge" : "dissimilarity: smaller is more alike";
    button.addEventListener("click", () => choose(answer.id));
    item.append(button);
    if (answer.why) item.append(element("p", answer.why, "why"));
    if (bars && answer.variance_term !== undefined) item.append(bar(answer, least));
    return item;
  }));
}

function bar(answer, least) {
  /* The longer, the more alike: full for the nearest, half for twice its dissimilarity. */
  const made = element("div", undefined, "bar"), total = Math.max(answer.dissimilarity, 1e-9);
  const length = Math.min(1, Math.max(least, 1e-9) / total);
  const parts = { distance: answer.dissimilarity - answer.variance_term, spread: answer.variance_term };
  for (const [name, value] of Object.entries(parts)) {
    const part = element("i", undefined, name);
    part.style.width = `${Math.max(100 * length * value / total, 0)}%`;
    made.append(part);
  }
  made.title = `dissimilarity ${figure(answer.dissimilarity)}: ${figure(parts.distance)} from distance, `
    + `${figure(parts.spread)} from unequal variances`;
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

function showMeter({ certainty, expected_error: error, doubt }) {
  const meter = $("certainty");
  meter.hidden = certainty === undefined || certainty === null;
  if (meter.hidden) return;
  meter.querySelector("span").textContent = `more certain than ${percent(certainty)} of the nodes`
    + (error === undefined ? "" : `; about ${percent(error)} of the answers about its edges are wrong`)
    + (doubt ? ` (${doubt})` : "");
  meter.querySelector("b").style.width = `${100 * certainty}%`;
}

class Explorer {
  constructor(source) { this.source = source; }
  async start() {
    const data = await this.source.map();
    document.title = `${data.title} - glace`;
    $("title").textContent = data.title;
    this.atlas = new Atlas(data, (id) => this.go(id));
    window.glaceMap = this.atlas; // for tests, and for whoever opens the console
    this.offerColours(data);
    this.offerTypes(data);
    this.offerDescription(data);
    this.offerTools();
    $("facts").textContent = `${data.nodes.toLocaleString("en")} nodes`
      + (data.edges === null ? "" : `, ${data.edges.toLocaleString("en")} edges`);
    const phone = matchMedia("(max-width: 800px)"), fold = () => { $("legend").open = !phone.matches; };
    phone.addEventListener("change", fold);
    fold();
    this.atlas.draw($("colour").value);
    $("status").textContent = "Click a node, or find one by its name.";
    $("assumed").textContent = "The probability of an edge, if "
      + `${percent(data.missing_edge_fraction, 1)} of all edges are missing.`;
    new Finder(this.source, (id) => this.atlas.title(id), (id) => this.go(id, true));
    $("colour").addEventListener("change", () => this.atlas.draw($("colour").value));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.atlas.draw(this.atlas.kind));
    window.addEventListener("hashchange", () => this.follow());
    await this.follow();
    window.glaceDrawnAfter = performance.now();
  }
  /* The address names the chosen node, so that it can be shared and Back works. */
  go(id, focus) {
    this.focus = focus;
    const wanted = `#node=${encodeURIComponent(id)}`;
    if (location.hash === wanted) return this.follow();
    location.hash = wanted;
    return undefined;
  }
  async follow() {
    const named = location.hash.match(/^#node=(.*)$/), focus = this.focus;
    this.focus = false;
    if (!named) { this.forget(); return; }
    let id = named[1];
    try { id = decodeURIComponent(id); } catch { /* a stray % in an address that somebody typed */ }
    if (!this.atlas.places.has(id)) { this.say(`The map has no node ${id}.`); return; }
    await this.choose(id, focus);
  }
  forget() {
    this.now = null;
    this.asked = (this.asked || 0) + 1;
    $("about").hidden = true;
    this.say("Click a node, or find one by its name.");
    this.atlas.show(null, [], []);
  }
  say(text) {
    $("status").hidden = false;
    $("status").textContent = text;
  }
  offerColours(data) {
    for (const [value, text] of Object.entries(data.colours)) $("colour").append(new Option(text, value));
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
      this.place(data.takes, $("text").value.trim());
    });
  }
  offerTools() {
    const view = this.atlas.view;
    $("closer").addEventListener("click", () => view.zoomBy(1.5));
    $("farther").addEventListener("click", () => view.zoomBy(1 / 1.5));
    $("whole").addEventListener("click", () => view.home());
    $("picture").addEventListener("click", () => {
      const link = element("a");
      link.href = view.picture();
      link.download = "map.png";
      link.click();
    });
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
      this.atlas.show(node.id, node.joined, neighbors.map((each) => each.id));
      this.about(node, neighbors, likely);
      if (focus) $("name").focus();
      drawEllipses(ellipses);
    } catch (problem) {
      this.say(problem.message);
    }
  }
  about(node, neighbors, likely) {
    const title = this.atlas.title(node.id), place = this.atlas.places.get(node.id);
    const { cluster } = this.atlas.categories, titleOf = (id) => this.atlas.title(id);
    $("status").hidden = true;
    $("about").hidden = false;
    $("name").textContent = title || node.id;
    $("id-line").hidden = !title;
    $("id-line").textContent = title ? node.id : "";
    const group = cluster && cluster.codes[place] >= 0 ? cluster.names[cluster.codes[place]] : undefined;
    const facts = { type: node.type, label: node.label, edges: node.edges, cluster: group };
    const known = Object.entries(facts).filter(([, value]) => value !== undefined && value !== null);
    $("node").replaceChildren(...[...known, ...this.atlas.numbersOf(place)]
      .flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
    showMeter(node);
    listNodes($("neighbors"), neighbors, (id) => this.go(id, true), titleOf, true);
    listNodes($("likely"), likely, (id) => this.go(id, true), titleOf, false);
    $("panel").scrollTop = 0;
  }
  async place(kind, text) {
    const said = $("placed"), titleOf = (id) => this.atlas.title(id);
    said.className = "";
    if (!text) {
      said.textContent = "";
      $("placed-lists").hidden = true;
      this.atlas.land([]);
      return;
    }
    try {
      const answer = await this.source.embed(kind, text);
      this.atlas.land(answer.neighbors);
      said.textContent = answer.certainty === undefined || answer.certainty === null ? "Its place is the star on the map."
        : `Its place is the star on the map, more certain than ${percent(answer.certainty)} of the nodes.`;
      if (answer.is_novel) {
        said.className = "warning";
        said.textContent += ` Warning: it is unlike the training graph (${percent(answer.unseen)} of its attributes`
          + " were never seen there). Nothing is known about it: what it seems to be like means nothing, and the"
          + " probability of each link is the density of the graph.";
      }
      const links = answer.links.slice(0, LINKS).map((link) => ({ id: link.target, probability: link.probability }));
      $("placed-lists").hidden = false;
      listNodes($("placed-neighbors"), answer.neighbors, (id) => this.go(id, true), titleOf, false);
      listNodes($("placed-links"), links, (id) => this.go(id, true), titleOf, false);
    } catch (problem) {
      said.className = "warning";
      said.textContent = problem.message;
      $("placed-lists").hidden = true;
    }
    $("placed").scrollIntoView({ block: "start" });
  }
}

class Finder {
  /* The search box: a combobox as keyboards and screen readers know it. */
  constructor(source, titleOf, choose) {
    this.source = source;
    this.titleOf = titleOf;
    this.choose = choose;
    this.found = [];
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
    let found = [];
    try {
      found = text ? await this.source.complete(text) : [];
    } catch { /* the alert above the map says that the server is gone */ }
    if (number !== this.asked) return;
    this.pending = false;
    this.list.replaceChildren(...found.map((id, rank) => {
      const item = element("li", id), title = this.titleOf(id);
      if (title) item.append(element("span", title, "title"));
      item.id = `found-${rank}`;
      item.setAttribute("role", "option");
      item.addEventListener("mousedown", () => this.take(id));
      return item;
    }));
    if (text && !found.length) this.list.append(element("li", "no node is called so", "none"));
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
