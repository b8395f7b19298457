// Cases that need a look can be read without this script. It draws the others when somebody looks at them, hides, sorts
// and reorders all of them, and keeps the choice in the URL.
"use strict";
{
  const tools = document.getElementById("tools");
  const list = document.getElementById("list");
  const groups = [...list.querySelectorAll(".group")];
  const names = ["q", "outcome", "change", "tag", "grader", "variant", "flaky", "sort"];
  const sorted = document.createElement("div");
  let openBefore = null; // which groups were open when a filter began

  // Elements. Texts of others become text nodes and values of attributes, nothing else.

  const inSvg = (tag) => tag === "svg" || tag === "path";
  const element = (tag, attributes, ...children) => {
    const made = inSvg(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(name, "");
      else if (value !== undefined && value !== false) made.setAttribute(name, value);
    }
    made.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== false && child !== ""));
    return made;
  };
  const span = (name, ...children) => element("span", { class: name }, ...children);
  const facts = (...children) => element("p", { class: "facts" }, ...children);
  const pre = (text, name) => element("pre", { dir: "auto", class: name }, text);
  const fold = (name, title, ...children) => element("details", { class: name }, element("summary", {}, title), ...children);

  // A case. The same elements as in report_case.html.j2: what changes here changes there.

  const marks = { "passed": "✓", "flaky": "~", "failed": "✗", "errored": "!", "not run": "–" };
  const mark = (status) => element("span", { class: `mark ${status.replace(" ", "-")}`, role: "img", "aria-label": status }, marks[status]);
  const finding = (holds, good, bad) => element("span", { class: "mark", role: "img", "aria-label": holds ? good : bad }, holds ? "✓" : "✗");
  const chip = (cell) => element("span", {
    "class": cell.tenths === undefined ? "chip" : `chip r${cell.tenths}`,
    "data-v": cell.column,
    "data-o": cell.outcome,
    "data-c": cell.change,
    "data-p": cell.rate,
    "data-cost": cell.cost,
    "data-s": cell.latency,
    "data-g": cell.details?.failed_graders?.join("\n"),
  },
  cell.variant && [element("bdi", { class: "on" }, cell.variant), " "], cell.tally,
  cell.spark && element("svg", { "class": "spark", "viewBox": "0 0 36 12", "role": "img", "aria-label": `earlier reports and this one: ${cell.spark.text}` },
    element("path", { d: cell.spark.before }), element("path", { class: "here", d: cell.spark.here })));
  const columns = (cells) => {
    const shown = [];
    for (const cell of cells) {
      while (shown.length < cell.column) shown.push(span("gap"));
      shown.push(chip(cell));
    }
    return shown;
  };
  const row = (data) => element("details", { class: "case", id: data.address, open: data.unfolded },
    element("summary", {}, mark(data.outcome),
      span("what", element("bdi", { class: "id" }, data.id),
        data.critical && [" ", element("b", { class: "critical" }, "critical")],
        data.tags?.map((tag) => [" ", element("bdi", { class: "tag" }, tag)]),
        data.renamed_from && [" ", span("facts", "was ", element("bdi", {}, data.renamed_from))],
        data.finding && [" ", span("why", data.finding)],
        data.reason && [" ", span("why", data.reason)]),
      span("chips", columns(data.cells))));

  // What unfolds.

  const asked = (title, text) => text.length < 1000
    ? [element("h4", {}, title), pre(text, "input")]
    : fold("asked", title, pre(text, "input"));
  const expectations = (list) => element("ul", { class: "expected" }, list.map((each) => element("li", {},
    element("b", {}, element("bdi", {}, each.name)), " ", element("bdi", {}, each.options), each.parts && expectations(each.parts))));
  const statements = (list) => element("ul", { class: "grades statements" }, list.map(([holds, text]) =>
    element("li", { class: holds ? "good" : "bad" }, finding(holds, "holds", "does not hold"), " ", span("said", text))));
  const grades = (list) => element("ul", { class: "grades" }, list.map(({ grader, passed, score, reason, statements: found, parts }) =>
    element("li", { class: passed ? "good" : "bad" }, finding(passed, "passed", "failed"), " ", element("b", { dir: "auto" }, grader), " ",
      span("score", score), " ", span("said", reason), found && statements(found), parts && grades(parts))));
  const steps = (list) => element("ol", { class: "steps" }, list.map((step) =>
    element("li", { class: step.error && "bad" }, span("kind", step.kind), " ", element("bdi", {}, step.name),
      step.agent && [" ", span("facts", "of ", element("bdi", {}, step.agent))], " ", span("facts", step.facts),
      step.path && element("svg", { "class": "span", "viewBox": "0 0 100 2", "preserveAspectRatio": "none", "aria-hidden": "true" },
        element("path", { d: step.path })),
      step.arguments && pre(step.arguments), step.result && pre(step.result, "result"),
      step.error && element("p", { class: "reason" }, step.error))));
  const turns = (list) => element("ol", { class: "turns" }, list.map((turn) => [
    element("li", {}, element("p", { class: "who" }, "user"), pre(turn.user)),
    element("li", {}, element("p", { class: "who" }, "assistant ", span("facts", turn.facts)), pre(turn.answer || "(empty)", "said"), turn.steps && steps(turn.steps)),
  ]));
  const nodes = (list) => list.map((node) => typeof node === "string" ? node : element(node[0], {}, nodes(node.slice(1))));
  const table = ([titles, ...rows]) => element("div", { "class": "wide", "tabindex": 0, "role": "region", "aria-label": "the answer as a table" },
    element("table", {},
      element("thead", {}, element("tr", {}, titles.map((title) => element("th", { scope: "col" }, title)))),
      element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map((cell) => element("td", { dir: "auto" }, cell)))))));
  const answer = (shown) => [
    pre(shown.text || "(empty)", "answer"),
    shown.markdown && fold("pretty", "as Markdown", element("div", { class: "rendered" }, nodes(shown.markdown))),
    shown.json && fold("pretty", "as JSON", pre(shown.json)),
    shown.table && fold("pretty", "as a table", table(shown.table)),
    shown.steps && [element("h5", {}, "Steps"), steps(shown.steps)],
  ];
  const runs = (run, address) => element("details", { class: `run ${run.status}`, id: `${address}&run=${run.numbers[0]}`, open: run.unfolded },
    element("summary", {}, element("span", { "class": `mark ${run.status}`, "aria-hidden": "true" }, marks[run.status]),
      run.numbers.slice(1).map((number) => element("span", { id: `${address}&run=${number}` })), " ",
      span("title", run.title), " ", span("facts", run.facts)),
    run.error && element("p", { class: "reason" }, run.error),
    run.frames?.map((frame) => facts(element("code", {}, frame))),
    run.grades && grades(run.grades),
    run.turns && turns(run.turns),
    run.answer && answer(run.answer),
    run.files?.map((file) => facts(element("a", { href: file }, "The whole answer"), " is in a file beside this page.")),
    run.context && [element("h5", {}, "Context"), element("ul", { class: "context" },
      run.context.map(([text, found]) => element("li", {}, pre(text), found.length > 0 && statements(found))))],
    run.metadata && [element("h5", {}, "Metadata"), pre(run.metadata, "beside")],
    run.detail && pre(run.detail, "detail"));
  const button = (name, title) => element("button", { type: "button", class: name }, title);
  const commands = (list) => element("p", {},
    list.map(([does, command]) => [`${does}: `, element("code", {}, command), " ", button("copy", "copy"), "\n"]), button("copy json", "copy all as JSON"));
  const difference = ({ diff, before, compared_run: run }) => {
    const base = element("bdi", {}, shared.base);
    const tags = { old: "del", new: "ins" };
    if (diff) return [element("h5", {}, `Run ${run} against `, base), pre(diff.map(([kind, text]) => tags[kind] ? element(tags[kind], {}, text) : text), "diff")];
    if (before) return [element("h5", {}, "Answer on ", base), pre(before, "before")];
    return undefined;
  };
  const cell = ({ column, outcome, variant, address, details }, ofCase) => element("section", { "class": "cell", "id": address, "data-v": column },
    variant && element("h4", { class: "on" }, mark(outcome), " ", element("bdi", {}, variant)),
    details.asked && asked("Asked", details.asked),
    element("p", { class: "finding" }, details.finding),
    details.strip && element("p", { "class": "strip", "aria-hidden": "true" }, details.strip.map((status) => element("i", { class: status }, marks[status]))),
    difference(details),
    details.runs?.map((run) => runs(run, address ?? ofCase)),
    details.more_runs && facts(details.more_runs),
    variant ? fold("commands", "Look closer", commands(details.commands)) : element("div", { class: "commands" }, commands(details.commands)));
  const inside = (data) => {
    const worstFirst = [...data.cells].sort((a, b) => Boolean(b.is_worst) - Boolean(a.is_worst));
    const known = worstFirst.filter((each) => each.details);
    return element("div", { class: "inside" },
      facts(data.description && `${data.description} · `, data.place && element("bdi", {}, data.place)),
      data.quarantine && element("p", {}, data.quarantine),
      data.input && asked("Input", data.input),
      data.asked && asked("Asked", data.asked),
      data.expected && fold("asked", "Expected", expectations(data.expected)),
      known.map((each) => cell(each, data.address)),
      known.length === 0 && facts("What was answered is in report.json and results.jsonl."));
  };

  // Drawing: rows when their group is opened or anything is searched, what unfolds when a case is opened.

  let shared = null; // what all cases share; null until anything is drawn
  let data = [];
  const dataOf = new WeakMap(); // of a case whose details are not drawn yet
  const drawRows = (container) => {
    if (shared === null) [shared, ...data] = JSON.parse(document.getElementById("data").textContent);
    const drawn = data.slice(container.dataset.first, container.dataset.end).map((each) => {
      const made = row(each);
      dataOf.set(made, each);
      if (each.unfolded) drawDetails(made);
      return made;
    });
    container.replaceWith(...inBatches(drawn));
  };
  const inBatches = (rows) => {
    const batches = [];
    for (let start = 0; start < rows.length; start += 40) {
      batches.push(element("div", { class: "rows" }, rows.slice(start, start + 40)));
    }
    return batches;
  };
  const drawDetails = (each) => {
    if (!dataOf.has(each)) return;
    each.append(inside(dataOf.get(each)));
    dataOf.delete(each);
  };
  const drawIn = (opened) => {
    if (opened.matches(".case")) drawDetails(opened);
    else if (opened.matches(".group, .alike")) {
      for (const container of opened.querySelectorAll(".drawn")) {
        if (container.closest("details") === opened || container.closest("details").open) drawRows(container);
      }
    }
  };
  list.addEventListener("toggle", (event) => { if (event.target.open) drawIn(event.target); }, true);

  let every = null; // all cases in the order of the page, with the places where they belong
  const everyCase = () => {
    if (every === null) {
      list.querySelectorAll(".drawn").forEach(drawRows);
      every = [...list.querySelectorAll(".case")];
      every.places = every.map((each) => each.parentNode);
      listGraders();
    }
    return every;
  };
  const listGraders = () => {
    const field = tools.elements.grader;
    const known = new Set([...field.options].map((option) => option.value));
    for (const each of list.querySelectorAll("[data-g]")) {
      for (const grader of each.dataset.g.split("\n")) {
        if (!known.has(grader)) field.append(element("option", { value: grader }, grader));
        known.add(grader);
      }
    }
    field.parentElement.hidden = known.size < 3;
  };

  // The URL: `#case=refund&on=gpt&outcome=failed`.

  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const inUrl = () => new Map(location.hash.slice(1).split("&").filter(Boolean).map((pair) => {
    const [name, ...value] = pair.split("=");
    return [name, decoded(value.join("="))];
  }));
  const asFragment = (pairs) => pairs.filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  const chosen = () => names.map((name) => [name, new FormData(tools).get(name) ?? ""]);
  const go = (address, push) => {
    const fragment = [address, asFragment(chosen())].filter(Boolean).join("&");
    history[push ? "pushState" : "replaceState"](null, "", `#${fragment}`);
  };

  // Filters.

  const texts = new Map(); // what is searched, by case
  const textsIn = (value) => typeof value === "object" ? Object.values(value).map(textsIn).join("\n") : typeof value === "string" ? value : "";
  const textOfCase = (each) => {
    if (!texts.has(each)) {
      const undrawn = dataOf.has(each) ? textsIn(dataOf.get(each)) : "";
      texts.set(each, `${each.textContent}\n${undrawn}`.toLowerCase());
    }
    return texts.get(each);
  };
  const filter = () => {
    const { q, outcome, change, variant, flaky, tag, grader } = Object.fromEntries(chosen());
    const words = (q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const column = variant && String(tools.elements.variant.selectedIndex - 1);
    const fits = (chip) => (!outcome || chip.dataset.o === outcome) && (!change || chip.dataset.c === change)
      && (!column || chip.dataset.v === column) && (!grader || chip.dataset.g?.split("\n").includes(grader))
      && (!flaky || (chip.dataset.p > 0 && chip.dataset.p < 1));
    const byCell = outcome || change || variant || grader || flaky;
    const filtered = Boolean(byCell || tag || words.length);
    const cases = filtered ? everyCase() : every ?? [];
    let shown = 0;
    for (const each of cases) {
      each.hidden = filtered && !((!tag || [...each.querySelectorAll(".tag")].some((one) => one.textContent === tag))
        && words.every((word) => textOfCase(each).includes(word))
        && (!byCell || [...each.querySelectorAll(".chip")].some(fits)));
      shown += !each.hidden;
    }
    tools.querySelector("output").value = filtered ? `${shown.toLocaleString("en")} of ${cases.length.toLocaleString("en")} cases` : "";
    tools.querySelector("button").hidden = !filtered;
    if (filtered && openBefore === null) openBefore = groups.map((each) => each.open);
    groups.forEach((group, number) => {
      for (const part of group.querySelectorAll(".alike")) {
        part.hidden = filtered && !part.querySelector(".case:not([hidden])");
      }
      const found = group.querySelector(".case:not([hidden])");
      group.hidden = sorted.isConnected || (filtered && !found);
      if (filtered) group.open = Boolean(found);
      else if (openBefore !== null) group.open = openBefore[number];
    });
    if (!filtered) openBefore = null;
  };

  // Order.

  const least = (each, name) => Math.min(...[...each.querySelectorAll(".chip")].map((chip) => Number(chip.dataset[name] ?? Infinity)));
  const most = (each, name) => Math.max(...[...each.querySelectorAll(".chip")].map((chip) => Number(chip.dataset[name] ?? -Infinity)));
  const title = (each) => each.querySelector(".id").textContent;
  const orders = {
    "name": (a, b) => a.localeCompare(b),
    "pass rate": (a, b) => a - b,
    "cost": (a, b) => b - a,
    "latency": (a, b) => b - a,
  };
  const values = {
    "name": title,
    "pass rate": (each) => least(each, "p"),
    "cost": (each) => most(each, "cost"),
    "latency": (each) => most(each, "s"),
  };
  let order = "";
  const sort = () => {
    const by = tools.elements.sort.value;
    if (by === order) return;
    order = by;
    const cases = everyCase();
    sorted.replaceChildren();
    if (orders[by]) {
      const keyed = cases.map((each) => [values[by](each), each]);
      keyed.sort(([a], [b]) => orders[by](a, b));
      sorted.append(...inBatches(keyed.map(([, each]) => each)));
      list.append(sorted);
    } else {
      cases.forEach((each, number) => cases.places[number].append(each));
      sorted.remove();
    }
  };

  const show = () => { sort(); filter(); };

  // A case that the URL names is opened.

  const reveal = (address) => {
    const ofCase = address.split("&", 1)[0];
    if (!document.getElementById(ofCase)) everyCase();
    const row = document.getElementById(ofCase);
    if (row) drawDetails(row);
    const found = document.getElementById(address);
    if (!found) return;
    if (found.closest(".case")?.hidden) { tools.reset(); show(); }
    for (let each = found; each; each = each.parentElement) if (each.matches("details")) each.open = true;
    document.querySelector(".target")?.classList.remove("target");
    const target = found.closest(".run")?.querySelector("summary") ?? found.querySelector("summary, .on") ?? found;
    target.classList.add("target");
    found.closest(".case")?.querySelector("summary").focus({ preventScroll: true });
    target.scrollIntoView({ block: "start" });
  };
  const follow = () => {
    const url = inUrl();
    for (const name of names) {
      const field = tools.elements[name];
      if (!field) continue;
      if (field.type === "checkbox") field.checked = url.has(name);
      else field.value = url.get(name) ?? "";
      if (field.selectedIndex === -1) field.value = "";
    }
    show();
    if (url.has("case")) reveal(asFragment(["case", "on", "run"].map((name) => [name, url.get(name)])));
  };

  tools.addEventListener("input", () => { show(); go(""); });
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("reset", () => setTimeout(() => { show(); go(""); }));
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);

  list.addEventListener("click", (event) => {
    const summary = event.target.closest(".case > summary");
    if (summary) {
      const row = summary.parentElement;
      const column = event.target.closest(".chip")?.dataset.v;
      if (column !== undefined) drawDetails(row);
      const cell = row.querySelector(`.cell[data-v="${column}"][id]`);
      if (cell) {
        event.preventDefault();
        go(cell.id, true);
        reveal(cell.id);
      } else if (!row.open) go(row.id, true);
    }
    const run = event.target.closest(".run > summary");
    if (run) go(run.parentElement.id);
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });

  // Copying.

  const textOf = (from, selector) => from.querySelector(selector)?.textContent;
  const asJson = (cell) => JSON.stringify({
    case: title(cell.closest(".case")),
    variant: textOf(cell, "h4.on bdi"),
    finding: textOf(cell, ".finding"),
    input: textOf(cell.closest(".case"), ".input"),
    runs: [...cell.querySelectorAll(".run")].map((run) => ({
      title: textOf(run, ".title"),
      facts: textOf(run, ".facts"),
      error: textOf(run, ":scope > .reason"),
      grades: [...run.querySelectorAll(".grades > li")].map((grade) => ({
        grader: textOf(grade, "b"),
        passed: grade.classList.contains("good"),
        score: parseFloat(textOf(grade, ".score")),
        reason: textOf(grade, ".said"),
      })),
      answer: textOf(run, ".answer"),
    })),
  }, null, 2);
  const copy = async (button) => {
    const cell = button.closest(".cell");
    await navigator.clipboard.writeText(button.matches(".json") ? asJson(cell) : button.previousElementSibling.textContent);
    const label = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  };

  // Keys.

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && event.target === tools.elements.q) { tools.reset(); return; }
    if (typing) return;
    if (event.key === "/") {
      event.preventDefault();
      tools.elements.q.focus();
    } else if (event.key === "j" || event.key === "k") {
      const rows = [...list.querySelectorAll(".case:not([hidden]) > summary")].filter((each) => !each.parentElement.parentElement.closest("details:not([open])"));
      const here = rows.indexOf(document.activeElement);
      rows[event.key === "j" ? Math.min(here + 1, rows.length - 1) : Math.max(here - 1, 0)]?.focus();
    }
  });

  // A page of a server is loaded anew when there is more, unless somebody types or marks text, and looks as it did.

  const version = document.body.dataset.version;
  const look = version && JSON.parse(sessionStorage.getItem("look"));
  const titleOf = (group) => group.querySelector("h3").firstChild.textContent;
  let typedAt = -Infinity;
  const keepLook = () => {
    const cases = [...list.querySelectorAll(".case")];
    const anchor = document.elementFromPoint(innerWidth / 2, innerHeight / 3)?.closest(".case");
    sessionStorage.setItem("look", JSON.stringify({
      cases: Object.fromEntries(cases.map((each) => [each.id, each.open])),
      groups: Object.fromEntries(groups.map((each) => [titleOf(each), each.open])),
      anchor: anchor?.id,
      top: anchor?.getBoundingClientRect().top,
      scrolled: scrollY,
      focus: document.activeElement.closest(".case")?.id ?? document.activeElement.name,
    }));
  };
  const restoreLook = () => {
    if (!look) return;
    for (const each of groups) each.open = look.groups[titleOf(each)] ?? each.open;
    groups.filter((each) => each.open).forEach(drawIn);
    for (const each of list.querySelectorAll(".case")) {
      each.open = look.cases[each.id] ?? each.open;
      if (each.open) drawDetails(each);
    }
    (tools.elements[look.focus] ?? document.getElementById(look.focus)?.querySelector("summary"))?.focus({ preventScroll: true });
    const anchor = document.getElementById(look.anchor);
    if (anchor) scrollBy(0, anchor.getBoundingClientRect().top - look.top);
    else scrollTo(0, look.scrolled);
    sessionStorage.removeItem("look");
  };
  if (version) {
    let newest = version;
    new EventSource("changes").addEventListener("message", (event) => { newest = event.data; });
    addEventListener("input", () => { typedAt = performance.now(); });
    setInterval(() => {
      if (newest === version || performance.now() - typedAt < 3000 || !getSelection().isCollapsed) return;
      keepLook();
      location.reload();
    }, 250);
  }

  for (const each of document.querySelectorAll("#tools, .keys, button.copy")) each.hidden = false;
  listGraders();
  groups.filter((each) => each.open).forEach(drawIn);
  follow();
  // Once more: until then the browser itself goes to the fragment, and takes the focus.
  addEventListener("load", () => { follow(); restoreLook(); });
}
