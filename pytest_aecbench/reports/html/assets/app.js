"use strict";
/* The page's own script: filters, the table of trials, pages of trials and tasks, keys.
   It computes no statistics. Foreign text enters as text alone. */
(() => {
  const ALL_COLUMNS = [
    ["task", "w-task", "text"], ["agent", "w-agent", "text"], ["repetition", "w-tiny", "number", "rep."],
    ["attempt", "w-tiny", "number", "att."], ["outcome", "w-mid", "text"], ["reward", "w-small", "number"],
    ["why", "w-why", "text"], ["usd", "w-small", "number", "USD"], ["tokens_out", "w-small", "number", "tok. out"],
    ["seconds", "w-mid", "number", "time"], ["turns", "w-tiny", "number"], ["status", "w-mid", "text"],
    ["warnings", "w-tiny", "number", "warn."],
  ];
  let COLUMNS = ALL_COLUMNS;
  const CHOICES = ["agent", "outcome", "domain", "difficulty", "status", "backend", "cause", "experiment"];
  const PHASES = ["wait", "build", "launch", "agent", "collect", "verify"];
  const FOLD_LINES = 40, FOLD_CHARS = 6000, TURNS = 50, MIN_ID = 4, STEP = 4, SHORT = 16;
  const $ = (id) => document.getElementById(id), every = (selector) => document.querySelectorAll(selector);
  const html = document.documentElement;
  const BLOCK = 8;
  const live = window.aecView;
  let data, ids, places, rows = [], shownRows = [], table, tasksData;

  /** Make an element; strings become text, never markup. */
  function el(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
      else made.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined && child !== "") made.append(child);
    return made;
  }
  const button = (text, click, more) => el("button", { type: "button", ...more, on: { click } }, text);
  const warned = (...texts) => el("p", { class: "note warn" }, texts), meta = (...texts) => el("p", { class: "meta" }, texts);
  const small = (text, click, name) => button(text, click, { class: "small", "aria-label": name });
  async function unpack(id) {
    if (live) return live.read(id);
    const text = $(id) && $(id).textContent;
    if (!text) return null;
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  const say = (text) => { $("live").textContent = text; };
  const number = (value) => value === null ? "" : value.toLocaleString("en", { maximumFractionDigits: 0 });
  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const all = Math.round(seconds), pad = (value) => String(value).padStart(2, "0");
    return all < 3600 ? `${Math.floor(all / 60)} min ${pad(all % 60)} s` : `${Math.floor(all / 3600)} h ${pad(Math.floor(all / 60) % 60)} min`;
  }
  const size = (bytes) => bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

  /* ---- the fragment: everything that a view is, so that a link brings it back ---- */
  function parameters() {
    const found = {};
    const text = location.hash.slice(1);
    if (!text.includes("=")) return found;
    for (const part of text.split("&")) {
      const at = part.indexOf("=");
      try { if (at > 0) found[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1)); } catch { /* a bad escape */ }
    }
    return found;
  }
  function fragment(changes, base = parameters()) {
    const merged = { ...base, ...changes };
    return "#" + Object.entries(merged).filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  }
  const KEPT = [...CHOICES, "task", "final", "sort"];
  const filters = () => Object.fromEntries(Object.entries(parameters()).filter(([key]) => KEPT.includes(key)));
  const back = () => Object.keys(filters()).length ? fragment({}, filters()) : "#trials";
  const go = (changes, base) => { location.hash = fragment(changes, base); };

  /* ---- columns ---- */
  const value = (row, name) => {
    const found = data.columns[name][row];
    return data.names[name] ? data.names[name][found] : found;
  };
  const byName = (name) => data.columns[name];
  function idOf(row) {
    let hex = "";
    for (let i = row * 16; i < row * 16 + 16; i++) hex += ids[i].toString(16).padStart(2, "0");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
  function rowOf(id) {
    if (!id || id.length < MIN_ID) return -1;
    const found = rows.find((row) => idOf(row).startsWith(id));
    return found === undefined ? -1 : found;
  }
  function matcher(pattern) {
    if (/[*?]/.test(pattern)) {
      const source = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
      const regex = new RegExp(`^${source}$`, "s");
      return (text) => regex.test(text);
    }
    if (data.names.task.includes(pattern)) return (text) => text === pattern;
    const lower = pattern.toLowerCase();
    return (text) => text.toLowerCase().includes(lower);
  }
  /** Return the rows that are asked for, in the order of the data. */
  function chosen(wanted) {
    let found = rows;
    const keep = (name, isGood) => { const column = byName(name); found = found.filter((row) => isGood(column[row])); };
    for (const name of CHOICES) {
      if (!wanted[name]) continue;
      if (name === "outcome" && wanted[name] === "different") { keep("different", Boolean); continue; }
      const index = data.names[name].indexOf(wanted[name]);
      keep(name, (one) => one === index);
    }
    if (wanted.task) { const good = data.names.task.map(matcher(wanted.task)); keep("task", (one) => good[one]); }
    if (wanted.final) keep("final", Boolean);
    return found;
  }
  const select = (wanted) => data.n ? ordered(chosen(wanted), wanted.sort || "task") : [];
  function ordered(found, sort) {
    const down = sort.startsWith("-"), name = down ? sort.slice(1) : sort;
    const known = COLUMNS.find(([key]) => key === name);
    if (!known && name !== "started") return found;
    const column = byName(name), names = data.names[name];
    let keys = column;
    if (names) {
      const rank = new Map([...names].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)).map((text, index) => [text, index]));
      const ranks = names.map((text) => rank.get(text));
      keys = column.map((index) => ranks[index]);
    }
    const sign = down ? -1 : 1;
    return [...found].sort((a, b) => {
      const x = keys[a], y = keys[b];
      if (x === y) return a - b;
      /* unknown is last */
      if (x === null) return 1;
      if (y === null) return -1;
      return sign * (x < y ? -1 : 1);
    });
  }

  /* ---- the table of trials ---- */
  function shownValue(row, name) {
    const found = value(row, name);
    if (found === null || found === undefined) return "";
    if (name === "reward") return String(Number(found.toPrecision(4)));
    if (name === "usd") return found.toFixed(4);
    if (name === "tokens_out") return number(found);
    if (name === "seconds") return duration(found);
    if (name === "warnings") return found ? String(found) : "";
    if (name === "why") return found.replace(/^reward [^,]+, /, "");
    return String(found);
  }
  function tag(outcome) { return el("span", { class: `tag ${outcome}` }, outcome); }
  class Trials {
    constructor(host) {
      this.above = this.pad(); this.below = this.pad(); this.lines = [];
      this.body = el("tbody", {}, this.above, this.below);
      this.heads = el("tr", { "aria-rowindex": 1 });
      for (const [name, width, kind, label] of COLUMNS) {
        this.heads.append(el("th", { scope: "col", class: `${width} ${kind === "number" ? "n" : ""}`, "data-key": name },
          button(label || name, () => this.sort(name))));
      }
      this.table = el("table", { "data-name": "trials" }, el("caption", { class: "unseen" }, "Attempts"), el("thead", {}, this.heads), this.body);
      this.scroller = el("div", { class: "virtual", tabindex: 0, role: "region", "aria-label": "Attempts" }, this.table);
      this.count = el("p", { class: "count" });
      this.form = this.filters();
      host.append(this.form, this.count, this.scroller);
      this.height = 0;
      let waiting = false;
      this.scroller.addEventListener("scroll", () => {
        if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; this.draw(); }); }
      }, { passive: true });
    }
    filters() {
      const change = (name) => (event) => go({ [name]: event.target.value }, filters());
      const form = el("form", { class: "filters", role: "search", "aria-label": "Filter trials", on: { submit: (event) => event.preventDefault() } });
      this.task = el("input", { type: "search", placeholder: "electrical/*", autocomplete: "off" });
      let timer;
      this.task.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => change("task")({ target: this.task }), 150); });
      form.append(el("label", {}, "task", this.task));
      this.choices = {};
      for (const name of CHOICES) {
        const options = name === "outcome" ? [...data.names[name], "different"] : [...data.names[name]].filter(Boolean);
        if (options.length < 2 && name !== "agent") continue;
        if (name !== "agent" && name !== "difficulty") options.sort();
        const choice = el("select", { on: { change: change(name) } }, el("option", { value: "" }, "all"),
          options.map((option) => el("option", { value: option }, option)));
        this.choices[name] = choice;
        form.append(el("label", {}, name, choice));
      }
      this.final = el("input", { type: "checkbox", on: { change: (event) => go({ final: event.target.checked ? "1" : "" }, filters()) } });
      form.append(el("label", { class: "check" }, this.final, "only final attempts"));
      form.append(button("Clear", () => { location.hash = "#trials"; }));
      return form;
    }
    sort(name) {
      const now = parameters().sort || "task";
      go({ sort: now === name ? `-${name}` : name }, filters());
    }
    show(wanted) {
      if (document.activeElement !== this.task) this.task.value = wanted.task || "";
      for (const [name, choice] of Object.entries(this.choices)) choice.value = wanted[name] || "";
      this.final.checked = Boolean(wanted.final);
      const sort = wanted.sort || "task";
      for (const head of this.heads.children) {
        const key = head.dataset.key;
        head.ariaSort = sort === key ? "ascending" : sort === `-${key}` ? "descending" : null;
      }
      const total = data.n, text = shownRows.length === total ? `${number(total)} attempts` : `${number(shownRows.length)} of ${number(total)} attempts`;
      this.count.replaceChildren(text, csvButton("trials", () => [COLUMNS.map(([, , , label], i) => label || COLUMNS[i][0]),
        ...shownRows.map((row) => COLUMNS.map(([name]) => { const found = value(row, name); return found === null ? "" : String(found); }))]));
      say(text);
      this.table.ariaRowCount = shownRows.length + 1;
      this.scroller.classList.toggle("short", shownRows.length <= SHORT);
      this.scroller.scrollTop = 0;
      this.drawn = "";
      this.draw();
    }
    /** Draw the rows in sight. Lines are filled again and not made anew, and at whole steps only. */
    draw() {
      const height = this.height || 32, seen = Math.ceil((this.scroller.clientHeight || 600) / height);
      const top = Math.min(this.scroller.scrollTop / height, shownRows.length - seen), first = Math.max(0, (Math.floor(top / STEP) - 1) * STEP);
      const last = Math.min(shownRows.length, first + Math.max(SHORT, seen + 3 * STEP)), drawn = `${first} ${last} ${height}`;
      if (drawn === this.drawn) return;
      this.drawn = drawn;
      const active = document.activeElement, held = this.body.contains(active) ? active.dataset.row : null, base = filters();
      while (this.lines.length > last - first) this.lines.pop().remove();
      while (this.lines.length < last - first) { this.lines.push(this.line()); this.below.before(this.lines.at(-1)); }
      this.lines.forEach((line, at) => this.fill(line, shownRows[first + at], first + at, base));
      this.above.firstChild.style.height = `${first * height}px`;
      this.below.firstChild.style.height = `${(shownRows.length - last) * height}px`;
      if (held !== null && active.dataset.row !== held) {
        const link = this.body.querySelector(`a[data-row="${held}"]`);
        if (link) link.focus({ preventScroll: true }); else active.blur();
      }
      if (!this.height && this.lines.length) { this.height = this.lines[0].getBoundingClientRect().height; this.draw(); }
    }
    pad() { return el("tr", { class: "pad", "aria-hidden": "true" }, el("td", { colspan: COLUMNS.length })); }
    /** Make a row without contents. */
    line() {
      return el("tr", {}, COLUMNS.map(([name, , kind]) => {
        if (name === "task") return el("th", { scope: "row" }, el("a", {}, new Text()), el("small", { class: "under" }, new Text()));
        return el("td", { class: kind === "number" ? "n" : null }, name === "outcome" ? el("span", {}, new Text()) : new Text());
      }));
    }
    fill(line, row, index, base) {
      line.ariaRowIndex = index + 2;
      COLUMNS.forEach(([name], at) => {
        const cell = line.cells[at], text = shownValue(row, name), inner = cell.firstChild;
        if (name === "task") {
          inner.href = fragment({ trial: idOf(row) }, base);
          inner.dataset.row = row;
          cell.lastChild.firstChild.data = `${value(row, "agent")}, rep. ${value(row, "repetition")}`;
        }
        if (name === "outcome") inner.className = `tag ${text}`;
        const words = inner.firstChild || inner;
        if (words.data === text) return;
        words.data = text;
        if (name === "task" || name === "agent" || name === "why") cell.title = text;
      });
    }
  }
  const headText = (cell) => cell.dataset.label || cell.textContent;
  /** Make links of the matrix: a task leads to its page, a number to its trials. */
  function linkMatrix() {
    for (const one of every("table.matrix")) {
      const agents = [...one.tHead.rows[0].cells].map(headText);
      const link = (cell, changes) => { const text = cell.textContent; if (text) cell.replaceChildren(el("a", { href: fragment(changes, {}) }, text)); };
      for (const row of one.tBodies[0].rows) {
        const task = row.cells[0].textContent;
        link(row.cells[0], { page: "task", task });
        for (let at = 5; at < row.cells.length; at++) link(row.cells[at], { task, agent: agents[at] });
      }
    }
  }
  function narrowMatrix({ agent, task, domain, difficulty, outcome }) {
    const found = chosen({ task, domain, difficulty, outcome: outcome === "different" && outcome });
    const names = new Set(found.map((row) => value(row, "task"))), isAll = names.size === data.names.task.length;
    for (const one of every("table.matrix")) {
      const [head, ...lines] = one.rows;
      for (const line of lines) line.hidden = !isAll && !names.has(line.cells[0].textContent);
      [...head.cells].forEach((cell, at) => {
        const hidden = at > 4 && Boolean(agent) && headText(cell) !== agent;
        if (cell.hidden !== hidden) for (const line of one.rows) line.cells[at].hidden = hidden;
      });
    }
  }

  /* ---- texts that may be long ---- */
  function folded(text, kind) {
    const lines = text.split("\n");
    const made = el(kind === "said" ? "div" : "pre", { class: kind === "pre" ? null : kind });
    if (lines.length <= FOLD_LINES && text.length <= FOLD_CHARS) { made.textContent = text; return made; }
    const short = lines.slice(0, FOLD_LINES).join("\n").slice(0, FOLD_CHARS);
    made.textContent = short;
    const all = small(`Show all: ${number(lines.length)} lines, ${size(text.length)}`, () => { made.textContent = text; all.remove(); });
    return el("div", {}, made, all);
  }
  const titled = (title, ...children) => [el("h3", {}, title), ...children.flat(Infinity).filter(Boolean)];
  function simpleTable(caption, head, body, texts = 1) {
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, el("table", {},
      el("caption", {}, el("span", {}, caption)),
      el("thead", {}, el("tr", {}, head.map((text, at) => el("th", { scope: "col", class: at >= texts ? "n" : null }, text)))),
      el("tbody", {}, body.map((line) => el("tr", {}, line.map((cell, at) => el(at ? "td" : "th", { scope: at ? null : "row", class: at >= texts ? "n" : null }, cell)))))));
  }
  function facts(pairs) {
    return el("dl", { class: "facts" }, pairs.filter(([, text]) => text !== "" && text !== null && text !== undefined)
      .map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
  }
  function copyable(text) {
    const code = el("code", {}, text);
    const copy = small("copy", async () => {
      try { await navigator.clipboard.writeText(text); say("copied"); copy.textContent = "copied"; }
      catch { const range = document.createRange(); range.selectNodeContents(code); getSelection().removeAllRanges(); getSelection().addRange(range); }
    }, `Copy ${text}`);
    return el("span", {}, code, " ", copy);
  }

  /* ---- a trial ---- */
  async function detailOf(row) {
    if (live) return live.detail(value(row, "experiment"), idOf(row));
    const place = places[row];
    if (place === undefined || place < 0) return null;
    const block = await unpack(`b-${Math.floor(place / BLOCK)}`);
    return block && block[place % BLOCK];
  }
  const label = (row) => `${value(row, "agent")}, repetition ${value(row, "repetition")}`;
  function trialLink(row, text) { return el("a", { href: fragment({ trial: idOf(row) }, filters()) }, text); }
  function phaseBar(row) {
    const parts = PHASES.map((name) => [name, data.columns[`${name}_sec`][row] || 0]);
    const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
    if (!total) return null;
    const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", "0 0 1000 14"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
    let at = 0;
    for (const [name, seconds] of parts) {
      const rect = document.createElementNS(ns, "rect");
      for (const [key, found] of Object.entries({ x: at, y: 0, height: 14, width: 1000 * seconds / total, class: `p-${name}` })) rect.setAttribute(key, found);
      at += 1000 * seconds / total;
      svg.append(rect);
    }
    return [el("div", { class: "phases" }, svg),
      meta(parts.filter(([, seconds]) => seconds).map(([name, seconds]) => `${name} ${duration(seconds)}`).join(", "))];
  }
  function breakdown(found) {
    const fields = found && found.fields;
    if (fields && typeof fields === "object" && !Array.isArray(fields) && Object.values(fields).every((one) => one && typeof one === "object")) {
      const keys = [...new Set(Object.values(fields).flatMap((one) => Object.keys(one)))];
      const text = (one) => one === null || one === undefined ? "" : typeof one === "object" ? JSON.stringify(one) : String(one);
      const rest = Object.entries(found).filter(([key, one]) => key !== "fields" && one !== null && one !== "");
      return [marked(simpleTable("Breakdown", ["field", ...keys], Object.entries(fields).map(([name, one]) => [name, ...keys.map((key) => text(one[key]))]), 1 + keys.length), (at) => Object.values(fields)[at].ok === false),
        rest.length ? folded(JSON.stringify(Object.fromEntries(rest), null, 2), "pre") : null];
    }
    return titled("Breakdown", folded(JSON.stringify(found, null, 2), "pre"));
  }
  /** Mark the rows of what was missed. */
  function marked(made, isMissed) {
    [...made.querySelectorAll("tbody tr")].forEach((line, at) => line.classList.toggle("worse", isMissed(at)));
    return made;
  }
  async function trialPanel(row, wanted, isFirst) {
    const detail = await detailOf(row), outcome = value(row, "outcome");
    const panel = el("article", { class: "panel", "aria-label": label(row) });
    const task = value(row, "task"), reward = value(row, "reward");
    panel.append(el("div", { class: "headline" }, el("h2", { tabindex: -1 }, task), tag(outcome),
      reward === null ? null : el("span", { class: "reward" }, `${shownValue(row, "reward")}`),
      reward === null ? null : el("span", { class: "meta" }, `needed ${value(row, "threshold")}`)));
    panel.append(el("p", { class: "note" }, value(row, "why")));
    const id = idOf(row), status = value(row, "status"), usage = [["in", "tokens_in"], ["out", "tokens_out"]]
      .filter(([, name]) => value(row, name) !== null).map(([word, name]) => `${number(value(row, name))} ${word}`).join(", ");
    panel.append(facts([
      ["agent", value(row, "agent")], ["repetition", `${value(row, "repetition")}, attempt ${value(row, "attempt")}${byName("final")[row] ? "" : " (not the one that counts)"}`],
      ["status", status], ["turns", value(row, "turns")],
      ["tokens", usage], ["cost", shownValue(row, "usd") && `${shownValue(row, "usd")} USD`],
      ["started", new Date(value(row, "started") * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC"],
      ["time", shownValue(row, "seconds")], ["backend", `${value(row, "backend")}${value(row, "image") ? `, ${value(row, "image")}` : ""}`],
      ["experiment", value(row, "experiment")], ["trial", copyable(id)],
      ["run it again", copyable(`pytest '${data.tasks_root}/${task}/task.toml::trial[${value(row, "agent")}-${value(row, "repetition")}]'`)],
      ...evaluations(row),
    ]));
    const bar = phaseBar(row);
    if (bar) panel.append(...titled("Phases", ...bar));
    if (!detail) {
      const why = data.include === "figures" ? "This report has figures only." : "The details of this trial are not in this file, to keep it small.";
      panel.append(warned(why, " ", el("code", {}, `aec-bench view ${id.slice(0, 8)}`), " shows them."));
    } else await fill(panel, row, detail, wanted, isFirst);
    panel.append(others(row));
    return panel;
  }
  function evaluations(row) {
    const found = [], own = data.evaluates[row], id = idOf(row);
    if (own) { const other = rowOf(own[1]); found.push(["evaluates", other < 0 ? `${own[1]} of ${own[0]}` : trialLink(other, own[1])]); }
    for (const [index, [, other]] of Object.entries(data.evaluates)) if (other === id) found.push(["evaluated by", trialLink(Number(index), idOf(Number(index)))]);
    return found;
  }
  function others(row) {
    const task = byName("task")[row];
    const found = ordered(rows.filter((other) => other !== row && byName("task")[other] === task), "agent");
    if (!found.length) return el("p", { class: "note" }, "There are no other trials of this task.");
    const shown = found.slice(0, 60);
    return el("div", {}, simpleTable("Other trials of this task", ["agent", "outcome", "reward", "turns", "time", "compare"], shown.map((other) => [
      trialLink(other, label(other)), tag(value(other, "outcome")), shownValue(other, "reward"), shownValue(other, "turns"), shownValue(other, "seconds"),
      el("a", { href: fragment({ trial: idOf(row), with: idOf(other) }, filters()) }, "side by side")])),
      found.length > shown.length ? el("p", {}, el("a", { href: fragment({ task: value(row, "task") }, {}) }, `All ${found.length + 1}`)) : null);
  }
  async function fill(panel, row, detail, wanted, isFirst) {
    const add = (...nodes) => panel.append(...nodes.flat(Infinity).filter(Boolean));
    if (detail.error) add(titled("Error", facts([["cause", detail.error.cause], ["type", detail.error.type], ["phase", detail.error.phase]]), folded(detail.error.message, "pre")));
    if (detail.cause) add(warned(detail.cause));
    if (detail.agent_error) add(titled("The agent's error", folded(detail.agent_error, "pre")));
    for (const warning of detail.warnings || []) add(warned(warning));
    if (detail.parts) add(marked(simpleTable("Parts of the reward", ["part", "score"], Object.entries(detail.parts).map(([name, score]) => [name, String(Number(score.toPrecision(4)))])), (at) => Object.values(detail.parts)[at] < 1));
    if (detail.breakdown !== undefined) add(breakdown(detail.breakdown));
    if (data.include === "all") {
      const text = !detail.instruction ? null : live ? detail.instruction : await unpack(`i-${detail.instruction}`);
      const note = detail.instruction_from && detail.instruction_from !== "stored" ? ` (from ${detail.instruction_from})` : "";
      add(titled(`Instruction${note}`, text === null ? el("p", { class: "note" }, "not stored") : folded(text, "pre")));
    }
    if (detail.excerpt) add(titled(`Output${detail.output_path ? `: ${detail.output_path}` : ""}`, folded(detail.excerpt, "pre")));
    if (detail.verifier_output) add(titled(`Verifier${detail.verifier_returncode === undefined ? "" : `, exit ${detail.verifier_returncode}`}`, folded(detail.verifier_output, "pre")));
    for (const problem of detail.problems || []) add(warned(problem));
    if (detail.entries) add(titled("Trajectory", trajectory(row, detail.entries, isFirst ? Number(wanted.turn) || 0 : 0, isFirst)));
    if (live) add(titled("Files", live.files(value(row, "experiment"), idOf(row), detail.listed || [])));
    else if (detail.files) add(titled("Files", detail.files.map(([path, bytes, text]) => text === null
      ? meta(el("code", {}, path), ` ${size(bytes)}`)
      : el("details", {}, el("summary", {}, el("code", {}, path), ` ${size(bytes)}`), folded(text, "pre")))));
  }

  /* ---- a trajectory ---- */
  function turnsOf(entries) {
    const turns = [];
    let turn = 0;
    for (const entry of entries) {
      if (entry.role === "assistant") { turn = entry.turn === undefined ? turn + 1 : entry.turn; turns.push({ turn, entries: [] }); }
      else if (!turns.length) turns.push({ turn: 0, entries: [] });
      turns[turns.length - 1].entries.push(entry);
    }
    return turns;
  }
  const ROLES = [["reasoning", ".reasoning"], ["tool calls", ".e-tool_call"], ["results", ".e-tool_result"], ["system", ".e-system"]];
  const hasFailed = (entry) => Boolean(entry.failed) || (entry.role === "tool_result" && Boolean(entry.exit));
  function trajectory(row, entries, target, isFirst) {
    const host = el("div"), list = el("div"), hidden = new Set();
    let turns = turnsOf(entries), drawn = 0;
    const more = button("", () => draw(drawn + TURNS));
    const draw = (until) => {
      for (; drawn < Math.min(until, turns.length); drawn++) list.append(turnElement(turns[drawn], row, isFirst));
      more.hidden = drawn >= turns.length;
      more.textContent = `Show ${Math.min(TURNS, turns.length - drawn)} more of ${number(turns.length)} turns`;
    };
    const switches = el("div", { class: "switches", role: "group", "aria-label": "Shown parts" });
    for (const [name, roles] of ROLES) {
      const box = el("input", { type: "checkbox", checked: true, on: { change: () => { box.checked ? hidden.delete(roles) : hidden.add(roles); apply(); } } });
      switches.append(el("label", {}, box, ` ${name}`));
    }
    const apply = () => { for (const [, roles] of ROLES) for (const one of list.querySelectorAll(roles)) one.hidden = hidden.has(roles); };
    const bad = turns.find((one) => one.entries.some(hasFailed));
    if (bad && isFirst) switches.append(el("a", { href: fragment({ turn: bad.turn }) }, `first failed command: turn ${bad.turn}`));
    switches.append(el("span", { class: "meta" }, `turns: ${number(turns.filter((one) => one.turn).length)}`));
    const at = target ? turns.findIndex((one) => one.turn === target) : -1;
    draw(Math.max(TURNS, at + 10));
    more.addEventListener("click", apply);
    host.append(switches, list, more);
    host.drawTo = (turn) => { draw(turns.findIndex((one) => one.turn === turn) + 10); apply(); };
    host.grow = (added) => {
      const isWhole = drawn >= turns.length;
      entries = [...entries, ...added]; turns = turnsOf(entries);
      if (drawn) { list.lastChild.remove(); drawn--; }
      draw(isWhole ? turns.length : drawn + 1); apply();
    };
    if (isFirst) host.id = "trajectory";
    return host;
  }
  function turnElement({ turn, entries }, row, isFirst) {
    const head = entries.find((entry) => entry.role === "assistant") || entries[0];
    const about = [head.model, head.tokens_in && `${number(head.tokens_in)} in`, head.tokens_cache_read && `${number(head.tokens_cache_read)} from cache`,
      head.tokens_out && `${number(head.tokens_out)} out`, head.cost_usd && `${head.cost_usd.toFixed(4)} USD`, head.ms > 50 && duration(head.ms / 1000),
      head.waited_sec > 0.05 && `waited ${duration(head.waited_sec)}`].filter(Boolean).join(", ");
    const made = el("div", { class: `turn${entries.some(hasFailed) ? " bad" : ""}`, id: isFirst ? `turn-${turn}` : null, "data-turn": turn, tabindex: -1 });
    made.append(el("h4", {}, turn && isFirst ? el("a", { href: fragment({ turn }) }, `Turn ${turn}`) : turn ? `Turn ${turn}` : "Task", el("small", {}, about)));
    for (const entry of entries) made.append(entryElement(entry));
    return made;
  }
  function entryElement(entry) {
    const made = el("div", { class: `e-${entry.role}` });
    if (entry.reasoning) made.append(el("div", { class: "reasoning" }, folded(entry.reasoning, "said")));
    if (entry.role === "tool_call") {
      const given = { ...(entry.arguments || {}) };
      const command = entry.command || (Object.keys(given).length === 1 && typeof given.command === "string" ? given.command : null);
      if (command) made.append(folded(`$ ${command}`, "call"));
      else made.append(folded([entry.tool || "a tool without a name", ...Object.entries(given).map(([name, text]) => `${name}: ${typeof text === "string" ? text : JSON.stringify(text)}`), entry.text].filter(Boolean).join("\n"), "call"));
    } else if (entry.role === "tool_result") {
      const failed = hasFailed(entry);
      const about = [entry.exit !== undefined ? `exit ${entry.exit}` : failed ? "error" : "", entry.ms > 50 ? duration(entry.ms / 1000) : ""].filter(Boolean).join(", ");
      if (about) made.append(el("p", { class: `meta ${failed ? "bad" : ""}` }, about));
      for (const text of [entry.text, entry.out]) if (text) made.append(folded(text, failed ? "failed-result" : "pre"));
      if (entry.err) made.append(meta("stderr"), folded(entry.err, failed ? "failed-result" : "pre"));
      if (!entry.text && !entry.out && !entry.err) made.append(meta("no output"));
    } else if (entry.text) made.append(entry.role === "assistant" ? folded(entry.text, "said") : el("div", {}, meta(entry.role), folded(entry.text, "pre")));
    if (entry.link) made.append(meta(entry.link));
    return made;
  }

  /* ---- views ---- */
  function crumbs(row) {
    const at = shownRows.indexOf(row), previous = shownRows[at - 1], next = shownRows[at + 1];
    const step = (other, text, rel) => other === undefined || at < 0 ? el("span", { class: "meta" }, text) : el("a", { href: fragment({ trial: idOf(other) }, filters()), rel }, text);
    return el("div", { class: "crumbs" }, el("a", { href: back() }, "All trials"),
      el("a", { href: fragment({ page: "task", task: value(row, "task") }, {}) }, "This task"),
      el("span", { class: "push crumbs" }, el("span", { class: "meta" }, at < 0 ? "not among the filtered trials" : `${number(at + 1)} of ${number(shownRows.length)}`), step(previous, "← Previous", "prev"), step(next, "Next →", "next")));
  }
  let opened = "";
  async function openTrial(wanted) {
    const row = rowOf(wanted.trial), key = `${wanted.trial}|${wanted.with || ""}`;
    if (row < 0 && live && await live.underWay(wanted.trial)) { opened = ""; return; }
    if (row < 0) { single(warned(`No trial of this report has an id that starts with '${wanted.trial}'.`), el("a", { href: "#trials" }, "All trials")); return; }
    if (opened !== key || $("single").hidden) {
      const second = wanted.with ? rowOf(wanted.with) : -1;
      const panels = [await trialPanel(row, wanted, true)];
      if (second >= 0) panels.push(await trialPanel(second, wanted, false));
      opened = key;
      single(crumbs(row), el("div", { class: second >= 0 ? "pair" : null }, panels));
      document.querySelector("#single h2").focus({ preventScroll: true });
    }
    if (wanted.turn && $("trajectory")) {
      const turn = Number(wanted.turn);
      if (!$(`turn-${turn}`)) $("trajectory").drawTo(turn);
      for (const one of every(".turn.current")) one.classList.remove("current");
      const found = $(`turn-${turn}`);
      if (found) { found.classList.add("current"); found.scrollIntoView({ block: "start" }); found.focus({ preventScroll: true }); }
    }
  }
  async function openTask(wanted) {
    tasksData = tasksData || await unpack("tasks-data");
    const found = tasksData[wanted.task];
    if (!found) { single(warned(`No task of this report is called '${wanted.task}'.`)); return; }
    const numbers = [...Array(Math.max(0, ...found.agents.map((one) => one.trials.length))).keys()];
    const panel = el("article", { class: "panel" }, el("div", { class: "headline" }, el("h2", { tabindex: -1 }, wanted.task), found.verdict ? el("span", { class: "tag unverified" }, found.verdict) : null), facts(found.facts));
    panel.append(simpleTable("Rewards by agent and trial", ["agent", "mean", "median time", "median USD", ...numbers.map((i) => `trial ${i + 1}`)],
      found.agents.map((one) => [one.agent, one.mean, one.time, one.usd, ...numbers.map((i) => one.trials[i] ? el("a", { href: fragment({ trial: idOf(one.trials[i][0]), task: wanted.task }, {}) }, one.trials[i][1]) : "")])));
    if (found.parts && found.parts.length) panel.append(simpleTable("Mean score by part of the reward and agent, those missed most first", ["part", ...found.agents.map((one) => one.agent)], found.parts));
    opened = "";
    single(el("div", { class: "crumbs" }, el("a", { href: "#matrix" }, "All tasks"), el("a", { href: fragment({ task: wanted.task }, {}) }, "Trials of this task")), panel);
    panel.querySelector("h2").focus({ preventScroll: true });
  }
  function single(...nodes) {
    $("single").replaceChildren(...nodes);
    $("single").hidden = false; $("report").hidden = true;
    addTools($("single"));
    if (!parameters().turn) scrollTo(0, 0);
  }
  let before = null;
  async function route() {
    const wanted = parameters(), anchor = location.hash.slice(1);
    const chosen = filters(), key = JSON.stringify(chosen);
    const isSingle = Boolean(wanted.trial) || wanted.page === "task";
    const listed = wanted.page === "task" ? {} : chosen;
    if (key !== before) { shownRows = select(listed); before = key; if (wanted.page !== "task") narrowMatrix(listed); if (table) table.stale = true; }
    if (isSingle) {
      if (wanted.trial) await openTrial(wanted); else await openTask(wanted);
    } else {
      const was = $("single").hidden;
      $("single").hidden = true; $("report").hidden = false;
      if (table && table.stale) { table.stale = false; table.show(chosen); } else if (table) table.draw();
      if (!anchor.includes("=")) { if (anchor && $(anchor) && (!was || anchor !== "main")) $(anchor).scrollIntoView(); }
      else if (anchor && table && document.activeElement !== table.task && !table.form.contains(document.activeElement) && !table.heads.contains(document.activeElement)) $("trials").scrollIntoView();
    }
    mark(isSingle || anchor.includes("=") ? "trials" : anchor || "overview");
  }
  function mark(name) {
    for (const link of every("nav a[href^='#']")) {
      const isNow = link.hash === `#${name}`, was = link.ariaCurrent;
      link.ariaCurrent = isNow ? "true" : null;
      const list = link.closest("ul"), x = link.offsetLeft - list.scrollLeft;
      if (isNow && !was && (x < 0 || x + link.offsetWidth > list.clientWidth)) list.scrollLeft += x - 40;
    }
  }
  /** Mark the page that is being read. */
  function spy() {
    const found = [...every("#report:not([hidden]) > section")], isEnd = scrollY + innerHeight >= html.scrollHeight - 2;
    const now = isEnd ? found.at(-1) : found.findLast((one) => one.getBoundingClientRect().top < innerHeight / 3);
    if (now && scrollY) mark(now.id);
  }

  /* ---- files to take away ---- */
  function save(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = el("a", { href: url, download: name });
    document.body.append(link); link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
  function csvCell(text) {
    /* A spreadsheet must not take foreign text for a formula. */
    const safe = /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.,]+( to [+-]?[\d.]+)?$/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }
  const csv = (lines) => lines.map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
  function csvButton(name, lines) {
    return small("CSV", () => save(`${name}.csv`, "text/csv", csv(lines())), `Save ${name} as CSV`);
  }
  function svgText(svg) {
    const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((one, at) => {
      const style = getComputedStyle(one);
      for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family"]) to[at].setAttribute(name, style.getPropertyValue(name));
      to[at].removeAttribute("class");
    });
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}`;
  }
  function addTools(root) {
    for (const one of root.querySelectorAll("table")) {
      if (one.dataset.name === "trials" || one.caption.querySelector("button")) continue;
      const name = one.dataset.name || one.caption.textContent;
      (one.caption.firstElementChild || one.caption).append(el("span", { class: "bar-tools" }, csvButton(name, () => [...one.rows].filter((line) => !line.hidden).map((line) => [...line.cells].filter((cell) => !cell.hidden).map(headText)))));
      if (one.tBodies[0].rows.length > 2) makeSortable(one);
    }
    for (const one of root.querySelectorAll("figure.chart:not(:has(button))")) {
      one.querySelector("figcaption").append(small("SVG", () => save(`${one.dataset.name}.svg`, "image/svg+xml", svgText([...one.querySelectorAll("svg")].find((svg) => svg.getBoundingClientRect().width))), `Save ${one.dataset.name} as SVG`));
    }
  }
  function makeSortable(one) {
    [...one.tHead.rows[0].cells].forEach((head, at) => {
      const text = head.textContent;
      head.dataset.label = text;
      head.replaceChildren(button(text, () => {
        const down = head.ariaSort === "ascending";
        for (const other of one.tHead.rows[0].cells) other.ariaSort = null;
        head.ariaSort = down ? "descending" : "ascending";
        const body = one.tBodies[0], sign = down ? -1 : 1;
        const keyed = [...body.rows].map((line) => { const shown = line.cells[at] ? line.cells[at].textContent : ""; const found = Number.parseFloat(shown.replaceAll(",", "")); return [Number.isNaN(found) ? null : found, shown, line]; });
        const numeric = keyed.some(([found]) => found !== null) && head.classList.contains("n");
        keyed.sort(([a, x], [b, y]) => numeric ? (a === null ? 1 : b === null ? -1 : sign * (a - b)) : sign * (x < y ? -1 : x > y ? 1 : 0));
        body.append(...keyed.map(([, , line]) => line));
      }));
    });
  }

  /* ---- keys and tools ---- */
  const HELP = [["/", "filter tasks"], ["j k", "next and previous trial"], ["[ ]", "previous and next turn"], ["Esc", "back"], ["?", "this help"]];
  const help = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"), el("dl", { class: "facts" }, HELP.map(([key, text]) => el("div", {}, el("dt", {}, key.split(" ").map((one) => el("kbd", {}, one))), el("dd", {}, text)))),
    el("form", { method: "dialog", on: { submit: (event) => { event.preventDefault(); help.close(); } } }, el("button", {}, "Close")));
  function follow(rel) { const link = document.querySelector(`#single a[rel="${rel}"]`); if (link) link.click(); }
  function turnBy(step) {
    const turns = [...every("#trajectory .turn")].map((one) => Number(one.dataset.turn)).filter(Boolean);
    if (!turns.length) return;
    const now = turns.indexOf(Number(parameters().turn) || -1), next = turns[Math.min(Math.max(now + step, 0), turns.length - 1)];
    if (next !== undefined) go({ turn: next });
  }
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const inTrial = Boolean(parameters().trial);
    const actions = {
      "/": () => { if (!$("single").hidden) location.hash = fragment({}, filters()) || "#trials"; setTimeout(() => { $("trials").scrollIntoView(); table.task.focus(); }, 50); },
      "?": () => help.showModal(),
      "Escape": () => { if (!$("single").hidden) location.hash = back(); },
      "[": () => turnBy(-1), "]": () => turnBy(1),
      ...(inTrial ? { j: () => follow("next"), k: () => follow("prev"), ArrowRight: () => follow("next"), ArrowLeft: () => follow("prev") } : {}),
    };
    if (actions[event.key] && !help.open) { event.preventDefault(); actions[event.key](); }
  }
  function theme() {
    const stored = (() => { try { return localStorage.getItem("aec-theme"); } catch { return null; } })();
    const set = (name) => {
      name ? html.setAttribute("data-theme", name) : html.removeAttribute("data-theme");
      scheme.textContent = isDark() ? "Light" : "Dark";
    };
    const isDark = () => (html.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    const scheme = button("Dark", () => { const name = isDark() ? "light" : "dark"; set(name); try { localStorage.setItem("aec-theme", name); } catch { /* not kept */ } });
    set(stored === "dark" || stored === "light" ? stored : "");
    return scheme;
  }

  /** Show these attempts. */
  async function take(found) {
    data = found; tasksData = null;
    ids = Uint8Array.from(atob(data.ids), (char) => char.charCodeAt(0));
    rows = [...Array(data.n).keys()];
    /* A column that says the same of every trial says nothing. */
    const dull = { attempt: 1, warnings: 0, usd: null, tokens_out: null, turns: null };
    COLUMNS = ALL_COLUMNS.filter(([name]) => !(name in dull) || byName(name)?.some((found) => found !== dull[name]));
    $("trials-app").replaceChildren();
    table = data.n ? new Trials($("trials-app")) : null;
    await renew();
  }
  async function renew() {
    before = null;
    linkMatrix();
    addTools($("report"));
    if (table || live) await route();
  }
  function begin() {
    $("tools").append(theme(), button("Keys", () => help.showModal()));
    document.body.append(help);
    document.addEventListener("keydown", key);
  }
  async function start() {
    begin();
    places = (await unpack("places")) || [];
    addEventListener("hashchange", route);
    addEventListener("resize", () => { if (table) { table.height = 0; table.draw(); } });
    addEventListener("scroll", spy, { passive: true });
    addEventListener("beforeprint", () => { for (const one of every("#report details")) one.open = true; });
    await take(await unpack("columns"));
    html.setAttribute("data-ready", "");
  }
  if (live) live.begin({ el, begin, start, take, renew, single, titled, facts, simpleTable, trajectory, tag, duration, size, say, save, addTools, parameters, table: () => table });
  else start();
})();
