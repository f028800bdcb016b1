"use strict";
/* The viewer's own script: the token, what each address shows, and news while a run goes on.
   The page's script (app.js) shows reports and trials; this one asks the server for them.
   Markup comes from the server's own templates alone; foreign text in it is escaped there, and the
   page's policy lets no script of others run. Everything else enters as text. */
(() => {
  const STORED = "aec-token", RUNS_MS = 1000, IDLE_MS = 2000, HIDDEN_MS = 15000, SPARING = 1;
  const MAX_IMAGE = 10e6, MAX_SAVED = 64e6;
  const $ = (id) => document.getElementById(id);
  let app, el;

  /* ---- the token: from the fragment, which no server sees, to where only this origin reads it ---- */
  function takeToken() {
    const parts = location.hash.slice(1).split("&");
    const found = parts.find((part) => part.startsWith("token="));
    if (!found) return false;
    try { localStorage.setItem(STORED, found.slice(6)); } catch { kept = found.slice(6); }
    const rest = parts.filter((part) => part !== found).join("&");
    history.replaceState(null, "", location.pathname + (rest ? `#${rest}` : ""));
    return true;
  }
  let kept = "";
  const token = () => { try { return localStorage.getItem(STORED) || kept; } catch { return kept; } };

  class Refused extends Error { constructor(status, text) { super(text); this.status = status; } }
  async function fetched(path) {
    let answer;
    try { answer = await fetch(path, { headers: { Authorization: `Bearer ${token()}` }, cache: "no-store" }); }
    catch { throw new Refused(0, "The viewer cannot be reached; it may have ended. Start it with: aec-bench view"); }
    if (!answer.ok) {
      let text = "";
      try { text = (await answer.json()).problem; } catch { /* not ours */ }
      throw new Refused(answer.status, text || `The viewer answered ${answer.status}.`);
    }
    return answer;
  }
  const ask = async (path) => (await fetched(path)).json();
  const at = (...parts) => parts.map(encodeURIComponent).join("/");

  /* ---- the frame of every page ---- */
  function title(text) { document.querySelector("h1").textContent = text; document.title = `${text} · aec-bench`; }
  function navigation(links) {
    const items = [["/", "Experiments"], ["/history", "History"], ...links];
    document.querySelector("nav ul").replaceChildren(...items.map(([href, text]) => el("li", {}, el("a", { href, "aria-current": href === location.pathname ? "page" : null }, text))));
  }
  function plain(...nodes) {
    $("single").hidden = true; $("report").hidden = false;
    $("report").replaceChildren(...nodes);
    app.addTools($("report"));
  }
  const section = (id, text, ...nodes) => el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, text), nodes);
  function fail(error) {
    navigation([]);
    if (error.status !== 401) { plain(section("problem", "Not available", el("p", { class: "note warn" }, error.message), el("p", {}, el("a", { href: "/" }, "All experiments")))); return; }
    title("aec-bench");
    plain(section("token", "This page needs the viewer's token", el("p", {}, "The viewer shows answers and outputs of trials, so it tells them only to the user who started it."),
      el("p", {}, "Run ", el("code", {}, "aec-bench view"), " in the project and open the address that it prints: the token is in that address.")));
  }
  const notice = (text) => {
    let found = $("notice");
    if (!text) { if (found) found.remove(); return; }
    if (!found) { found = el("p", { id: "notice", class: "note warn", role: "status" }); $("main").prepend(found); }
    if (found.textContent !== text) found.textContent = text;
  };

  /* ---- sections that the server has made ---- */
  const pristine = new Map();
  /** Put the sections of a page into this one; those that are the same stay as they are. */
  function put(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const found = [...page.querySelectorAll("#report > section")].filter((one) => one.id !== "trials");
    const names = new Set(found.map((one) => one.id));
    for (const one of [...$("report").children]) if (pristine.has(one.id) && !names.has(one.id)) { pristine.delete(one.id); one.remove(); }
    const end = $("trials");
    for (const one of found) {
      const old = $(one.id), known = pristine.get(one.id);
      if (old && known && known.isEqualNode(one)) continue;
      pristine.set(one.id, one.cloneNode(true));
      const own = document.adoptNode(one);
      if (old) old.replaceWith(own); else $("report").insertBefore(own, end);
    }
    return { page, links: found.map((one) => [`#${one.id}`, one.querySelector("h2").textContent]) };
  }

  /* ---- all experiments ---- */
  const few = (names) => names.length < 4 ? names.join(", ") : `${names.slice(0, 2).join(", ")} and ${names.length - 2} more`;
  const when = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16);
  async function listExperiments() {
    title("Experiments");
    navigation([]);
    let shown = "", chosen = [];
    const host = el("div"), compare = el("button", { type: "button", disabled: true, on: { click: () => { location.assign(`/c/${at(...chosen)}`); } } }, "Compare two");
    const draw = (found) => {
      const order = new Map(found.experiments.map((one, index) => [one.name, index]));
      const choose = (name) => (event) => {
        chosen = event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name);
        chosen.sort((a, b) => order.get(b) - order.get(a));  // the earlier one is the baseline
        compare.disabled = chosen.length !== 2;
      };
      const rows = found.experiments.map((one) => [
        el("a", { href: `/e/${at(one.name)}` }, one.name),
        el("input", { type: "checkbox", "aria-label": `Compare ${one.name}`, checked: chosen.includes(one.name), on: { change: choose(one.name) } }),
        when(one.started), few(one.agents),
        one.running ? `${one.running} under way` : "", String(Object.values(one.outcomes).reduce((sum, count) => sum + count, 0)),
        ...["passed", "failed", "error"].map((name) => String(one.outcomes[name] || ""))]);
      const head = ["experiment", "compare", "started (UTC)", "agents", "now", "attempts", "passed", "failed", "errors"];
      host.replaceChildren(found.experiments.length ? app.simpleTable("Experiments, the latest first", head, rows, 5)
        : el("p", { class: "note" }, found.reading ? "Reading the ledger." : `No records in ${found.ledger} yet; a run of pytest with tasks makes some.`),
        found.reading && found.experiments.length ? el("p", { class: "note" }, "More of the ledger is being read.") : "");
      app.addTools(host);
    };
    plain(section("experiments", "Experiments", el("p", {}, compare), host));
    await repeat(async () => {
      const found = await ask("/api/experiments"), text = JSON.stringify(found);
      if (text !== shown && !host.matches(":hover") && !host.contains(document.activeElement) || !shown) { shown = text; draw(found); }
      return found.reading || found.experiments.some((one) => one.running);
    });
  }
  async function showHistory() {
    title("History");
    const { html } = await ask("/api/history");
    $("report").replaceChildren($("trials"));
    const { links } = put(html);
    $("trials").remove();
    navigation(links);
    app.addTools($("report"));
  }

  /* ---- asking again and again ---- */
  let wake = null;
  /** Do something now and later, at a pace that fits; it returns true while something runs. */
  async function repeat(act) {
    let first = true;
    for (;;) {
      let runs = false;
      try { runs = await act(); notice(""); }
      catch (error) { if (first || error.status === 401) throw error; notice(error.message); }
      first = false;
      document.documentElement.setAttribute("data-ready", "");
      await new Promise((done) => { wake = done; setTimeout(done, document.hidden ? HIDDEN_MS : runs ? RUNS_MS : IDLE_MS); });
    }
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && wake) wake(); });

  /* ---- one experiment ---- */
  let experiment, baseline, columns = null, drawn = "", last = { under_way: [] }, notBefore = 0;
  const pageAddress = () => `/api/e/${at(experiment)}/page${baseline ? `?baseline=${encodeURIComponent(baseline)}` : ""}`;
  const loadRows = async () => { columns = await ask(`/api/e/${at(experiment)}/columns`); };
  /** Put new figures in; the longer the server works on them, the longer they last. */
  async function loadFigures() {
    const began = performance.now(), page = await ask(pageAddress());
    const { links } = put(page.html);
    navigation([...($("under-way") ? [["#under-way", "Under way"]] : []), ...links, ["#trials", "Trials"]]);
    drawn = page.mark;
    notBefore = performance.now() + SPARING * (performance.now() - began);
  }
  async function showExperiment() {
    title(baseline ? `${experiment} compared with ${baseline}` : experiment);
    await Promise.all([loadFigures(), loadRows()]);
    await app.start();
    await repeat(async () => {
      last = await ask(`/api/e/${at(experiment)}/changes`);
      drawUnderWay();
      if (isCalm()) { if (last.mark !== columns.mark || last.mark !== drawn) await takeNews(); }
      else if (last.mark !== columns.mark) announce();
      return last.under_way.some((one) => !one.dead) || last.runs.some((one) => one.state === "running");
    });
  }
  /** Tell whether rows may move: not under the pointer, and not where somebody reads or types. */
  function isCalm() {
    if ($("report").hidden) return true;
    const table = app.table();
    if (!table) return true;
    const { scroller, form } = table, active = document.activeElement;
    return scroller.scrollTop === 0 && !scroller.matches(":hover") && !scroller.contains(active) && !form.contains(active) && getSelection().isCollapsed;
  }
  /** Take in new rows at once, and new figures as often as they are not too dear. */
  async function takeNews() {
    if (last.mark !== columns.mark) { await loadRows(); await app.take(columns); }
    const button = $("news");
    if (button) button.remove();
    if (performance.now() < notBefore) return;
    await loadFigures();
    await app.renew();
  }
  function announce() {
    const count = Math.max(0, last.n - columns.n), text = count ? `${count} new` : "Changes";
    let button = $("news");
    if (!button) {
      button = el("button", { type: "button", id: "news", class: "news", on: { click: () => { document.activeElement.blur(); takeNews().catch(fail); } } });
      document.body.append(button);
    }
    if (button.textContent !== text) { button.textContent = text; app.say(`${text} attempts`); }
  }

  /* ---- trials under way ---- */
  const told = { running: "running", dead: "dead: its process is gone", over: "over" };
  function drawUnderWay() {
    const runs = last.runs.filter((one, index) => one.state !== "over" || (index === 0 && one.done < one.of));
    let host = $("under-way");
    if (!last.under_way.length && !runs.length) { if (host && !host.matches(":hover")) host.remove(); return; }
    if (!host) {
      host = section("under-way", "Under way", el("div", { class: "runs" }), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Trials under way" },
        el("table", { "data-name": "under-way" }, el("caption", { class: "unseen" }, "Trials under way"),
          el("thead", {}, el("tr", {}, ["task", "agent", "repetition", "phase", "time"].map((text) => el("th", { scope: "col" }, text)))), el("tbody"))));
      $("report").prepend(host);
    }
    const lines = runs.map((one) => [`${one.done} of ${one.of} trials, run ${one.run} is ${told[one.state]}`, one.state === "dead" ? "note bad" : "note"]);
    const own = host.querySelector(".runs");
    if (own.textContent !== lines.map(([text]) => text).join("")) own.replaceChildren(...lines.map(([text, kind]) => el("p", { class: kind }, text)));
    const body = host.querySelector("tbody"), held = host.matches(":hover") || host.contains(document.activeElement);
    const rows = new Map([...body.rows].map((row) => [row.dataset.trial, row]));
    for (const one of last.under_way) {
      const texts = [one.agent, String(one.repetition), one.dead ? `dead in ${one.phase}: its process is gone` : one.phase, app.duration(one.seconds)];
      let row = rows.get(one.trial);
      if (!row) {
        row = el("tr", { "data-trial": one.trial }, el("th", { scope: "row" }, el("a", { href: `#trial=${one.trial}` }, one.task)), texts.map(() => el("td", {})));
        body.append(row);
      }
      rows.delete(one.trial);
      row.className = one.dead ? "dead" : "";
      texts.forEach((text, index) => { const cell = row.cells[index + 1]; if (cell.textContent !== text) cell.textContent = text; });
    }
    for (const row of rows.values()) { if (held) row.cells[3].textContent = "ended"; else row.remove(); }
    host.querySelector(".scroll").hidden = !body.rows.length;
  }
  /** Show a trial that has no record yet, and let its trajectory grow; false if there is none. */
  async function showUnderWay(prefix) {
    if (!last.runs) last = await ask(`/api/e/${at(experiment)}/changes`);
    const known = last.under_way.find((one) => one.trial.startsWith(prefix));
    if (!known) return false;
    const id = known.trial, path = `/api/t/${at(experiment, id)}`, facts = el("div"), host = el("div");
    const panel = el("article", { class: "panel" }, el("div", { class: "headline" }, el("h2", { tabindex: -1 }, known.task), el("span", { class: "tag unverified" }, known.dead ? "dead" : "running")), facts, app.titled("Trajectory", host));
    const isOpen = () => app.parameters().trial === prefix && panel.isConnected;
    let offset = 0, drawn = null;
    const step = async () => {
      const now = last.under_way.find((one) => one.trial === id);
      if (now) {
        facts.replaceChildren(app.facts([["agent", now.agent], ["repetition", String(now.repetition)], ["phase", now.phase], ["time", app.duration(now.seconds)], ["trial", id], ["run", now.run]]),
          now.dead ? el("p", { class: "note bad" }, "The process of this trial is gone. The next run, or aec-bench reap, records it as an error.") : "");
        panel.querySelector(".tag").textContent = now.dead ? "dead" : "running";
      }
      for (;;) {
        const more = await ask(`${path}/trajectory?from=${offset}`);
        if (more.next === offset) break;
        offset = more.next;
        if (more.entries.length) {
          if (drawn) drawn.grow(more.entries);
          else { drawn = app.trajectory(-1, more.entries, 0, true); host.replaceChildren(drawn); }
        }
      }
      if (!drawn) host.replaceChildren(el("p", { class: "note" }, "Nothing yet."));
      return Boolean(now);
    };
    app.single(el("div", { class: "crumbs" }, el("a", { href: "#under-way" }, "All trials under way")), panel);
    panel.querySelector("h2").focus({ preventScroll: true });
    await step();
    (async () => {
      while (isOpen()) {
        await new Promise((done) => setTimeout(done, document.hidden ? HIDDEN_MS : RUNS_MS));
        if (!isOpen()) return;
        try { if (await step()) continue; } catch { continue; }
        if (!isOpen()) return;
        await takeNews();  // it has a record by now
        return;
      }
    })();
    return true;
  }

  /* ---- files of a trial ---- */
  const CODES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
  const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const visible = (text) => text.replaceAll("\r\n", "\n").replace(CODES, "").replace(HIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const KINDS = [["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]], ["image/jpeg", [0xff, 0xd8, 0xff]], ["image/gif", [0x47, 0x49, 0x46, 0x38]]];
  function imageKind(bytes) {
    const found = KINDS.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte));
    if (found) return found[0];
    const word = (from) => String.fromCharCode(...bytes.slice(from, from + 4));
    return word(0) === "RIFF" && word(8) === "WEBP" ? "image/webp" : null;
  }
  async function slice(path, offset) {
    const answer = await fetched(`${path}?from=${offset}`);
    return { bytes: new Uint8Array(await answer.arrayBuffer()), size: Number(answer.headers.get("Aec-Size")) };
  }
  async function all(path, most) {
    const parts = [];
    for (let offset = 0; ;) {
      const { bytes, size } = await slice(path, offset);
      if (size > most) throw new Refused(0, `It has ${app.size(size)}, which is too much; copy it from the trial's directory.`);
      parts.push(bytes); offset += bytes.length;
      if (!bytes.length || offset >= size) return parts;
    }
  }
  async function openFile(path, name, host) {
    const decoder = new TextDecoder(), text = el("pre"), more = el("button", { type: "button", class: "small" });
    let offset = 0;
    const problem = (error) => host.append(el("p", { class: "note warn" }, error.message));
    const next = async () => {
      const { bytes, size } = await slice(path, offset);
      if (!offset) {
        const kind = imageKind(bytes);
        if (kind && size <= MAX_IMAGE) {
          const url = URL.createObjectURL(new Blob(await all(path, MAX_IMAGE), { type: kind }));
          host.append(el("img", { src: url, alt: name, class: "preview", on: { load: () => URL.revokeObjectURL(url), error: () => URL.revokeObjectURL(url) } }));
          return;
        }
        host.append(text, more);
      }
      offset += bytes.length;
      text.append(visible(decoder.decode(bytes, { stream: offset < size })));
      more.hidden = !bytes.length || offset >= size;
      more.textContent = `Show more: ${app.size(offset)} of ${app.size(size)}`;
    };
    more.addEventListener("click", () => next().catch(problem));
    const save = el("button", { type: "button", class: "small", on: { click: async () => {
      try { app.save(name.split("/").pop(), "application/octet-stream", new Blob(await all(path, MAX_SAVED))); } catch (error) { problem(error); }
    } } }, "Download");
    host.replaceChildren(save);
    try { await next(); } catch (error) { problem(error); }
  }
  function listFiles(of, id, listed) {
    return listed.map(([name, bytes, address, target]) => {
      if (target !== null) return el("p", { class: "meta" }, el("code", {}, name), ` is a link to ${target}, which is not followed`);
      const host = el("div");
      const made = el("details", { on: { toggle: () => { if (made.open && !host.firstChild) openFile(`/api/f/${at(of, id)}/${address}`, name, host); } } },
        el("summary", {}, el("code", {}, name), ` ${app.size(bytes)}`), host);
      return made;
    });
  }

  /* ---- addresses ---- */
  async function findTrial(prefix) {
    const { found } = await ask(`/api/find/${at(prefix)}`);
    if (found.length === 1) { location.replace(`/e/${at(found[0].experiment)}#trial=${found[0].trial}`); return; }
    title(`Trials ${prefix}`);
    navigation([]);
    const rows = found.map((one) => [el("a", { href: `/e/${at(one.experiment)}#trial=${one.trial}` }, one.trial), one.experiment, one.task, one.agent, String(one.repetition), app.tag(one.outcome)]);
    plain(section("choice", found.length ? "Which trial?" : "No trial found", el("p", { class: "note" }, found.length ? `${found.length} ids start with '${prefix}'.` : `No id starts with '${prefix}' in this ledger.`),
      found.length ? app.simpleTable("Trials", ["trial", "experiment", "task", "agent", "repetition", "outcome"], rows, 6) : el("a", { href: "/" }, "All experiments")));
    document.documentElement.setAttribute("data-ready", "");
  }
  async function route() {
    const [, kind, first, second, ...rest] = location.pathname.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
    if (!kind) return listExperiments();
    if (kind === "history") { await showHistory(); document.documentElement.setAttribute("data-ready", ""); return; }
    if (kind === "t" && first) return findTrial(first);
    if (kind === "c" && second) { baseline = first; experiment = second; return showExperiment(); }
    if (kind !== "e" || !first) throw new Refused(404, "There is nothing at this address.");
    experiment = first;
    if (second === "task" && rest.length) history.replaceState(null, "", `/e/${at(first)}#page=task&task=${encodeURIComponent(rest.join("/"))}`);
    return showExperiment();
  }

  window.aecView = {
    async read(name) {
      if (name === "columns") return columns;
      return name === "tasks-data" ? ask(`/api/e/${at(experiment)}/tasks`) : null;
    },
    async detail(of, id) {
      try {
        const found = await ask(`/api/t/${at(of, id)}`);
        return found.problem ? { problems: [found.problem] } : found;
      } catch (error) { return { problems: [error.status === 404 ? "The record is not there any more." : error.message] }; }
    },
    files: listFiles,
    underWay: showUnderWay,
    begin(given) {
      app = given; el = app.el;
      takeToken();
      addEventListener("hashchange", () => { if (takeToken()) location.reload(); });
      const isReport = /^\/[ec]\//.test(location.pathname);
      if (!isReport) app.begin();
      route().catch((error) => { if (isReport && !columns) app.begin(); fail(error); document.documentElement.setAttribute("data-ready", ""); });
    },
  };
})();
