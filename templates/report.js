// Unfolds, hides and sorts cases, and keeps the choices in the URL. Cases that need a look can be read without scripts.
"use strict";
{
  const tools = document.getElementById("tools");
  const list = document.getElementById("list");
  const sides = document.getElementById("sides"); // absent where no case has two answers
  const keys = document.getElementById("keys");
  const groups = [...list.querySelectorAll(".group")];
  const parts = [...document.querySelectorAll(".parts a:not([href^='#case=']), .broken .tag, .outcomes a")];
  const names = ["q", "outcome", "tag", "grader", "variant", "prompt", "provider", "sort",
    "marks", "view", "left", "right", "differ"];
  const total = tools.querySelector("output").value; // `40 cases`
  const sorted = document.createElement("div");
  const ROWS = "script[type='text/html']";
  // Prompts and providers only sum up the variants, so on a phone they are folded to leave room for the cases.
  if (matchMedia("(max-width: 46rem)").matches) {
    for (const part of document.querySelectorAll(".fold")) part.open = false;
  }
  let openBefore = null; // which groups were open when a filter began

  // Details are text until they are needed, in the case's noscript element; folded rows are text in script elements.

  const unpack = async (packed) => {
    const bytes = Uint8Array.from(atob(packed.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    packed.textContent = await new Response(stream).text();
    packed.type = "text/html";
  };
  const rowsToElements = (text) => {
    const rows = document.createElement("div");
    rows.className = "rows";
    rows.innerHTML = text.textContent;
    text.replaceWith(rows);
    return rows;
  };
  const toElements = (text) => {
    text.insertAdjacentHTML("afterend", text.textContent); // a template would make elements of the noscript inside, too
    const made = text.nextElementSibling;
    text.remove();
    return made;
  };
  const makeButton = (name, title) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = name;
    button.textContent = title;
    return button;
  };
  const linkButton = () => {
    const button = makeButton("copy link", "🔗");
    button.title = "copy the link";
    button.ariaLabel = button.title;
    return button;
  };
  const addButtons = (commands) => {
    for (const command of commands.querySelectorAll("code")) command.after(" ", makeButton("copy", "copy"));
    commands.append("\n", makeButton("copy json", "copy all as JSON"));
  };
  const unfold = (each) => {
    const text = each.querySelector(":scope > noscript");
    if (text === null) return;
    const inside = toElements(text);
    inside.querySelectorAll(".commands p").forEach(addButtons);
    for (const command of inside.querySelectorAll(".lacks code")) command.after(" ", makeButton("copy", "copy"));
    for (const each of inside.querySelectorAll(".question > .facts:first-child, .cell > .on")) each.append(" ", linkButton());
    for (const each of inside.querySelectorAll(".run > summary")) each.after(linkButton());
    inside.querySelectorAll(".run").forEach(addMarkButtons);
  };
  const unfoldRows = (text) => rowsToElements(text).querySelectorAll(".case[open]").forEach(unfold);
  const unfoldIn = (opened) => {
    if (opened.matches(".case")) unfold(opened);
    else if (opened.matches(".group, .alike")) {
      for (const text of opened.querySelectorAll(ROWS)) {
        if (text.closest("details").open) unfoldRows(text);
      }
    }
  };
  list.addEventListener("toggle", (event) => { if (event.target.open) unfoldIn(event.target); }, true);

  let every = null; // all cases in the order of the page, with the places where they belong
  const everyCase = () => {
    if (every === null) {
      list.querySelectorAll(ROWS).forEach(unfoldRows);
      every = [...list.querySelectorAll(".case")];
      every.places = every.map((each) => each.parentNode.parentNode);
      listGraders();
    }
    return every;
  };
  const listGraders = () => {
    const field = tools.elements.grader;
    const known = new Set([...field.options].map((option) => option.value));
    for (const each of list.querySelectorAll("[data-g]")) {
      for (const grader of each.dataset.g.split("\n")) {
        if (!known.has(grader)) field.append(new Option(grader));
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
  const fieldOf = (name) => tools.elements[name] ?? sides?.elements[name];
  const chosen = () => {
    const values = new Map([tools, sides].filter(Boolean).flatMap((form) => [...new FormData(form)]));
    return names.map((name) => [name, values.get(name) ?? ""]);
  };
  const clearFilters = () => {
    for (const name of names) {
      const field = fieldOf(name);
      if (!field || ["view", "left", "right"].includes(name)) continue;
      if (field.type === "checkbox") field.checked = false;
      else field.value = "";
    }
  };
  const go = (address, push) => {
    const fragment = [address, asFragment(chosen())].filter(Boolean).join("&");
    history[push ? "pushState" : "replaceState"](null, "", `#${fragment}`);
  };

  // Filters.

  const chipsOf = (each) => [...each.nextElementSibling.querySelectorAll(".chip")];
  const texts = new Map(); // what is searched, by case
  const characters = { amp: "&", lt: "<", gt: ">", "#34": '"', "#39": "'" };
  const withoutTags = (html) => html.replace(/<[^>]*>/g, "").replace(/&(amp|lt|gt|#34|#39);/g, (_, name) => characters[name]);
  const textWithoutControls = (element) => {
    const copied = element.cloneNode(true);
    for (const each of copied.querySelectorAll("button, .people")) each.remove();
    return copied.textContent;
  };
  const textOfCase = (each) => {
    if (!texts.has(each)) {
      const [name, inside] = each.children;
      const folded = inside.matches("noscript");
      const text = folded ? withoutTags(inside.textContent) : textWithoutControls(inside);
      texts.set(each, [name.textContent, each.nextElementSibling.textContent, text].join("\n").toLowerCase());
    }
    return texts.get(each);
  };
  const filter = () => {
    const { q, outcome, variant, prompt, provider, tag, grader, differ, marks: ofMarks } = Object.fromEntries(chosen());
    const words = (q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const columns = new Set();
    [...tools.elements.variant?.options ?? []].forEach((option, number) => {
      const isColumn = (!variant || option.value === variant) && (!prompt || option.dataset.prompt === prompt)
        && (!provider || option.dataset.provider === provider);
      if (isColumn) columns.add(String(number - 1));
    });
    const byVariant = variant || prompt || provider;
    const isChosen = (chip) => (!byVariant || columns.has(chip.dataset.v)) && (!grader || chip.dataset.g?.split("\n").includes(grader));
    const hasOutcome = (chip) => !outcome || chip.dataset.o === outcome || chip.dataset.c === outcome;
    const fits = (each) => {
      const chips = chipsOf(each).filter(isChosen);
      if (outcome === "passed") return chips.length > 0 && chips.every(hasOutcome); // no other variant failed it
      return chips.some(hasOutcome);
    };
    const byCell = outcome || byVariant || grader;
    const filtered = Boolean(byCell || tag || words.length || differ || ofMarks);
    const marked = casesMarked(ofMarks === "against");
    const cases = filtered ? everyCase() : every ?? [];
    let shown = 0;
    for (const each of cases) {
      each.hidden = filtered && !((!tag || [...each.querySelectorAll(".tag")].some((one) => one.textContent === tag))
        && words.every((word) => textOfCase(each).includes(word)) && (!differ || differs(each.parentNode))
        && (!ofMarks || marked.has(each.id))
        && (!byCell || fits(each)));
      shown += !each.hidden;
    }
    tools.querySelector("output").value = filtered ? `${shown.toLocaleString("en")} of ${total}` : total;
    tools.querySelector("[type=reset]").hidden = !filtered;
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
    const inUse = chosen().map(([name, value]) => `#${name}=${encodeURIComponent(value)}`);
    for (const link of parts) link.ariaCurrent = inUse.includes(link.getAttribute("href")) ? "true" : null;
  };

  // Order.

  const least = (each, name) => Math.min(...chipsOf(each).map((chip) => Number(chip.dataset[name] ?? Infinity)));
  const most = (each, name) => Math.max(...chipsOf(each).map((chip) => Number(chip.dataset[name] ?? -Infinity)));
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
  const inBatches = (rows) => {
    const batches = [];
    for (let start = 0; start < rows.length; start += 40) {
      const batch = document.createElement("div");
      batch.className = "rows";
      batch.append(...rows.slice(start, start + 40));
      batches.push(batch);
    }
    return batches;
  };
  const sort = () => {
    const by = tools.elements.sort.value;
    if (by === order) return;
    order = by;
    const cases = everyCase();
    sorted.replaceChildren();
    if (orders[by]) {
      const keyed = cases.map((each) => [values[by](each), each]);
      keyed.sort(([a], [b]) => orders[by](a, b));
      sorted.append(...inBatches(keyed.map(([, each]) => each.parentNode)));
      list.append(sorted);
    } else {
      cases.forEach((each, number) => cases.places[number].append(each.parentNode));
      sorted.remove();
    }
  };

  // Side by side: two answers of a case in columns, with differing words marked. A pair is made when its case comes near
  // the viewport, and is hidden while the case is open.

  const MOST_WORDS = 1000;
  const LEAST_COMMON = 0.3; // of the words: fewer, and marks explain nothing
  const columnOf = (name) => sides.elements[name].selectedOptions[0].dataset.v;
  const chipOf = (row, column) => row.querySelector(`.chip[data-v="${column}"]`);
  const differs = (row) => {
    const [left, right] = [columnOf("left"), columnOf("right")];
    const now = chipOf(row, right)?.dataset;
    const old = left === "base" ? now?.b : chipOf(row, left)?.dataset.a;
    return Boolean(now?.a && old && now.a !== old);
  };
  const wordsOf = (answer) => {
    const nodes = document.createTreeWalker(answer, NodeFilter.SHOW_TEXT);
    const words = [];
    while (nodes.nextNode()) {
      const node = nodes.currentNode;
      for (const [text] of node.data.matchAll(/[\p{L}\p{N}_]+|\s+|./gu)) words.push({ text, node, common: false });
    }
    return words;
  };
  const findCommon = (old, now) => { // their longest common subsequence; returns its length
    const longest = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
    for (let i = old.length - 1; i >= 0; i--) {
      for (let j = now.length - 1; j >= 0; j--) {
        if (old[i].text === now[j].text) longest[i][j] = longest[i + 1][j + 1] + 1;
        else longest[i][j] = Math.max(longest[i + 1][j], longest[i][j + 1]);
      }
    }
    let i = 0;
    let j = 0;
    while (i < old.length && j < now.length) {
      if (old[i].text === now[j].text) old[i++].common = now[j++].common = true;
      else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
      else j++;
    }
    return longest[0][0];
  };
  const wrapOthers = (words, tag) => {
    let mark = null;
    const marks = [];
    words.forEach(({ text, node, common }, number) => {
      const isBetween = !text.trim() && words[number - 1]?.common === false && words[number + 1]?.common === false;
      if (node !== words[number - 1]?.node) mark = null;
      if (common && !isBetween) {
        node.before(text);
        mark = null;
        return;
      }
      if (mark === null) {
        mark = document.createElement(tag);
        node.before(mark);
        marks.push(mark);
      }
      mark.append(text);
    });
    for (const { lastChild, childNodes } of marks) {
      if (childNodes.length > 1 && !lastChild.data.trim()) lastChild.parentNode.after(lastChild);
    }
    for (const node of new Set(words.map((each) => each.node))) node.remove();
  };
  const markDifference = (left, right) => {
    const [old, now] = [wordsOf(left), wordsOf(right)];
    if (Math.max(old.length, now.length) > MOST_WORDS) return;
    if (2 * findCommon(old, now) < LEAST_COMMON * (old.length + now.length)) return;
    wrapOthers(old, "del");
    wrapOthers(now, "ins");
  };
  const copyOf = (element) => {
    const copied = element.cloneNode(true);
    for (const each of copied.querySelectorAll("del, ins")) each.replaceWith(...each.childNodes);
    copied.normalize();
    return copied;
  };
  const lack = (row, column) => {
    if (column === "base") return "The base's answers are kept only for cases that changed or failed.";
    if (!chipOf(row, column)) return "This variant does not have the case.";
    return "No answer.";
  };
  const sideOf = (row, name) => {
    const column = columnOf(name);
    const isBase = column === "base";
    const cell = row.querySelector(`.cell[data-v="${isBase ? columnOf("right") : column}"]`);
    const run = cell?.querySelector(".run");
    const before = isBase ? cell?.querySelector(".before") : null;
    const answer = isBase ? before?.querySelector(":scope > .answer") : run?.querySelector(".here > .answer, .turns");
    const side = document.createElement("div");
    side.className = "side";
    const head = document.createElement("h5");
    const source = before?.querySelector(":scope > h5") ?? sides.elements[name].selectedOptions[0]; // main may have run now
    head.textContent = source.textContent;
    side.append(head);
    if (answer) side.append(copyOf(answer));
    const others = isBase ? [before?.querySelector(":scope > .reason")] : [run?.querySelector(":scope > .reason"), run?.querySelector(":scope > .grades")];
    side.append(...others.filter(Boolean).map(copyOf));
    if (side.children.length === 1) {
      const why = document.createElement("p");
      why.className = "facts";
      why.textContent = lack(row, column);
      side.append(why);
    }
    return side;
  };
  const showPair = (row) => {
    unfold(row.querySelector(".case"));
    const pair = document.createElement("div");
    pair.className = "sides pair";
    pair.append(sideOf(row, "left"), sideOf(row, "right"));
    const [left, right] = [...pair.children].map((side) => side.querySelector(":scope > .answer, :scope > .turns"));
    if (left && right) markDifference(left, right);
    row.append(pair);
  };
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && !target.querySelector(":scope > .pair")) showPair(target);
    }
  }, { rootMargin: "100%" });
  let pairs = ""; // which two are shown
  const showSides = () => {
    if (!sides) return;
    const { view, left, right, differ } = sides.elements;
    for (const field of [left, right, differ]) field.disabled = !view.checked;
    sides.hidden = !view.checked;
    const wanted = view.checked ? `${columnOf("left")} ${columnOf("right")}` : "";
    if (wanted === pairs) return;
    pairs = wanted;
    near.disconnect();
    for (const each of list.querySelectorAll(".pair")) each.remove();
    if (!wanted) return;
    for (const each of everyCase()) {
      each.open = false;
      near.observe(each.parentNode);
    }
  };

  const show = () => { showSides(); sort(); filter(); };

  // Marks: people label an answer right or wrong, with a note. The browser stores them as lines of labels.jsonl.

  const MARKABLE = ".run:has(> .people > input)"; // a run with buttons
  const marksBar = document.getElementById("marks");
  const storedUnder = `ci-evals labels ${marksBar.dataset.suite} ${marksBar.dataset.runId} `;
  const marks = new Map(); // by the address of the run
  const sayMarksAreNotKept = () => { marksBar.querySelector(".facts").hidden = false; }; // of a file, or in a frame
  const loadMarks = () => {
    try {
      for (const name of Object.keys(localStorage)) {
        if (name.startsWith(storedUnder)) marks.set(name.slice(storedUnder.length), JSON.parse(localStorage[name]));
      }
    } catch {
      sayMarksAreNotKept();
    }
  };
  const keepMark = (address) => {
    try {
      if (marks.has(address)) localStorage.setItem(storedUnder + address, JSON.stringify(marks.get(address)));
      else localStorage.removeItem(storedUnder + address);
    } catch {
      sayMarksAreNotKept();
    }
  };
  const isAgainst = ({ label, judge }) => Boolean(judge) && judge !== label;
  const casesMarked = (onlyAgainst) => {
    const addresses = [...marks.keys()].filter((address) => !onlyAgainst || isAgainst(marks.get(address)));
    return new Set(addresses.map((address) => address.split("&", 1)[0]));
  };
  const showCount = () => {
    const against = [...marks.values()].filter(isAgainst).length;
    let text = marks.size === 1 ? "1 run marked" : `${marks.size.toLocaleString("en")} runs marked`;
    if (against) text += `, the judge disagrees with ${against.toLocaleString("en")}`;
    marksBar.querySelector("output").value = text;
    marksBar.hidden = marks.size === 0;
  };

  const turnsOf = (run) => [...run.querySelectorAll(":scope > .turns > li")]; // of the user and of the assistant
  const sideWithAnswer = (run) => {
    const last = turnsOf(run).at(-1);
    return last ? last.querySelector(":scope > .side") : run.querySelector(".here");
  };
  const answerIn = (side) => {
    const text = textOf(side, ".raw") ?? textOf(side, ".answer");
    const { characters } = side.dataset; // of the text, which tool calls follow
    return characters ? [...text].slice(0, Number(characters)).join("") : text;
  };
  const inputOf = (run) => {
    const before = turnsOf(run).slice(0, -1);
    if (before.length) {
      return before.map((turn) => {
        const user = turn.querySelector(":scope > pre");
        if (user) return { role: "user", content: user.textContent };
        const side = turn.querySelector(":scope > .side");
        return { role: "assistant", content: side ? answerIn(side) : "" };
      });
    }
    const ofCell = run.closest(".cell").querySelector(":scope > .input, :scope > .asked > .input");
    const ofCase = [...run.closest(".inside").querySelectorAll(".question .input")].at(-1);
    return (ofCell ?? ofCase)?.textContent;
  };
  const retrievedFor = (run) => {
    const passages = [...run.querySelectorAll(":scope > .context .passage")];
    return passages.length ? passages.map((passage) => passage.textContent) : undefined;
  };
  const verdictOfJudges = (run) => {
    const verdicts = [...run.querySelectorAll("[data-judge]")].map((grade) => grade.dataset.judge);
    if (!verdicts.length) return undefined;
    return verdicts.includes("fail") ? "fail" : "pass";
  };
  const labelOf = (run, label) => ({
    suite: marksBar.dataset.suite,
    case: decoded(run.closest(".case").id.slice("case=".length)),
    variant: textOf(run.closest(".cell"), "h4.on bdi"),
    run: Number(run.id.split("run=").at(-1)),
    run_id: marksBar.dataset.runId,
    address: run.id,
    input: inputOf(run),
    output: answerIn(sideWithAnswer(run)),
    retrieved: retrievedFor(run),
    label,
    judge: verdictOfJudges(run),
    note: "",
  });
  const saying = (mark) => {
    const said = document.createElement("span");
    said.className = isAgainst(mark) ? "people against" : "people";
    said.textContent = mark.label === "pass" ? "people: right" : "people: wrong";
    return said;
  };
  const markOf = (run) => { // none if it was of another answer, as before a run was repeated
    const mark = marks.get(run.id);
    return mark && mark.output === answerIn(sideWithAnswer(run)) ? mark : undefined;
  };
  const showMark = (run) => {
    const mark = markOf(run);
    const note = run.querySelector(":scope > .people > input");
    note.hidden = !mark;
    note.value = mark?.note ?? "";
    for (const button of run.querySelectorAll(":scope > .people > button")) {
      button.ariaPressed = String(button.value === mark?.label);
    }
    for (const each of run.querySelectorAll("span.people")) each.remove();
    if (!mark) return;
    run.querySelector("summary").append(" ", saying(mark));
    if (!isAgainst(mark)) return;
    for (const grade of run.querySelectorAll(`[data-judge="${mark.judge}"]`)) {
      const said = saying(mark);
      said.append(", the judge disagrees");
      grade.querySelector(".said").after(" ", said);
    }
  };
  const toggleMark = (run, label) => {
    if (markOf(run)?.label === label) marks.delete(run.id);
    else marks.set(run.id, { ...labelOf(run, label), note: markOf(run)?.note ?? "" });
    keepMark(run.id);
    showMark(run);
    showCount();
  };
  const addMarkButtons = (run) => {
    const side = sideWithAnswer(run);
    if (!side) return;
    const controls = document.createElement("div");
    controls.className = "people";
    (run.querySelector(":scope > .grades") ?? run.querySelector(":scope > .sides, :scope > .side, :scope > .turns")).after(controls);
    if (side.querySelector(".answer.cut")) {
      controls.textContent = "The answer is too long to be marked here: the page has only its beginning.";
      return;
    }
    const note = document.createElement("input");
    note.placeholder = "note";
    note.ariaLabel = "note";
    note.addEventListener("input", () => {
      marks.get(run.id).note = note.value;
      keepMark(run.id);
    });
    note.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); // Enter would close the run
      run.querySelector("summary").focus();
    });
    controls.append("Is the answer right?");
    for (const [label, name] of [["pass", "right"], ["fail", "wrong"]]) {
      const button = makeButton("", name);
      button.value = label;
      button.addEventListener("click", () => toggleMark(run, label));
      controls.append(button);
    }
    controls.append(note);
    showMark(run);
  };
  const showEveryMark = () => {
    list.querySelectorAll(MARKABLE).forEach(showMark);
    showCount();
  };
  const saveMarks = () => {
    const lines = [...marks.keys()].sort().map((address) => `${JSON.stringify(marks.get(address))}\n`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    link.download = "labels.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  };
  const clearMarks = () => {
    if (!confirm(`Remove the marks of ${marks.size.toLocaleString("en")} runs?`)) return;
    const addresses = [...marks.keys()];
    marks.clear();
    addresses.forEach(keepMark);
    showEveryMark();
    tools.elements.marks.value = "";
    show();
    go("");
  };
  const parsed = (text) => { try { return JSON.parse(text); } catch { return null; } };
  const isVerdict = (value) => value === "pass" || value === "fail";
  const isOfThisReport = (line) => typeof line?.address === "string" && isVerdict(line.label)
    && line.suite === marksBar.dataset.suite && line.run_id === marksBar.dataset.runId;
  const loadFile = async (file) => {
    const texts = (await file.text()).split("\n").filter((text) => text.trim());
    const lines = texts.map(parsed).filter(isOfThisReport);
    for (const line of lines) {
      const judge = isVerdict(line.judge) ? line.judge : undefined;
      marks.set(line.address, { ...line, judge, note: String(line.note ?? "") });
      keepMark(line.address);
    }
    showEveryMark();
    const said = lines.length === 1 ? "1 mark" : `${lines.length.toLocaleString("en")} marks`;
    document.getElementById("loaded").value = `${said} of this report in ${texts.length.toLocaleString("en")} lines`;
  };
  const runWithFocus = () => {
    const place = document.activeElement;
    const opened = place.closest(".case[open]");
    if (!opened) return null;
    unfold(opened);
    return place.closest(MARKABLE) ?? opened.querySelector(MARKABLE);
  };
  const markByKey = (key) => {
    const run = runWithFocus();
    if (!run) return;
    run.open = true;
    run.querySelector("summary").focus();
    if (key === "r") toggleMark(run, "pass");
    else if (key === "w") toggleMark(run, "fail");
    else if (markOf(run)) run.querySelector(":scope > .people > input").focus();
  };
  marksBar.querySelector(".save").addEventListener("click", saveMarks);
  document.getElementById("labels").addEventListener("change", (event) => {
    if (event.target.files.length) loadFile(event.target.files[0]);
  });
  marksBar.querySelector(".clear").addEventListener("click", clearMarks);

  // Open the case that the URL names.

  const reveal = (address) => {
    const ofCase = address.split("&", 1)[0];
    if (!document.getElementById(ofCase)) everyCase();
    const row = document.getElementById(ofCase);
    if (row) unfold(row);
    const found = document.getElementById(address);
    if (!found) return;
    if (found.closest(".case")?.hidden) {
      clearFilters();
      show();
      go(address);
    }
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
      const field = fieldOf(name);
      if (!field) continue;
      if (field.type === "checkbox") field.checked = url.has(name);
      else field.value = url.get(name) ?? "";
      if (field.selectedIndex === -1) field.value = "";
    }
    show();
    if (url.has("case")) reveal(asFragment(["case", "on", "run"].map((name) => [name, url.get(name)])));
  };

  for (const form of [tools, sides, marksBar]) form?.addEventListener("input", () => { show(); go(""); });
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("reset", () => {
    if (sides) sides.elements.differ.checked = false;
    setTimeout(() => { show(); go(""); });
  });
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);

  list.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    const chip = event.target.closest("a.chip");
    if (chip) {
      event.preventDefault();
      const address = chip.getAttribute("href").slice(1);
      go(address, true);
      reveal(address);
    }
    const summary = event.target.closest(".case > summary");
    if (summary && !summary.parentElement.open) go(summary.parentElement.id, true);
    const run = event.target.closest(".run > summary");
    if (run) go(run.parentElement.id);
  });

  // A click on an outcome or a part of the matrix shows only its cases; a second click shows all cases again.

  const choose = (event) => {
    event.preventDefault();
    const [name, value] = event.currentTarget.getAttribute("href").slice(1).split("=").map(decoded);
    const field = tools.elements[name];
    field.value = field.value === value ? "" : value;
    show();
    go("", true);
    if (!tools.contains(event.currentTarget) && tools.getBoundingClientRect().top > innerHeight / 2) document.getElementById("cases").scrollIntoView();
  };
  for (const link of parts) link.addEventListener("click", choose);

  // Copying.

  addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  const showKeys = () => {
    keys.showModal();
    keys.querySelector("form button").focus();
  };
  tools.querySelector(".help").addEventListener("click", showKeys);

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
      answer: textOf(run, ".here .raw") ?? textOf(run, ".here .answer"),
    })),
  }, null, 2);
  const copiedBy = (button) => {
    if (button.matches(".json")) return asJson(button.closest(".cell"));
    if (button.matches(".link")) return `${location.href.split("#", 1)[0]}#${button.closest("[id^='case=']").id}`;
    return button.previousElementSibling.textContent;
  };
  const copy = async (button) => {
    await navigator.clipboard.writeText(copiedBy(button));
    const label = button.dataset.label ??= button.textContent; // a second click comes before the label is back
    button.textContent = "copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  };

  // Keys.

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && event.target === tools.elements.q) { tools.reset(); return; }
    if (typing) return;
    if (event.key === "?") {
      showKeys();
    } else if (event.key === "/") {
      event.preventDefault();
      tools.elements.q.focus();
    } else if (["r", "w", "n"].includes(event.key)) {
      event.preventDefault();
      markByKey(event.key);
    } else if (event.key === "j" || event.key === "k") {
      const rows = [...list.querySelectorAll(".case:not([hidden]) > summary")].filter((each) => !each.parentElement.parentElement.closest("details:not([open])"));
      const here = rows.indexOf(document.activeElement.closest(".case")?.querySelector("summary"));
      rows[event.key === "j" ? Math.min(here + 1, rows.length - 1) : Math.max(here - 1, 0)]?.focus();
    }
  });

  // A served page reloads when there are new results, unless somebody types or selects text, and keeps its state.

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
    groups.filter((each) => each.open).forEach(unfoldIn);
    for (const each of list.querySelectorAll(".case")) {
      each.open = look.cases[each.id] ?? each.open;
      if (each.open) unfold(each);
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

  const bar = tools.parentElement;
  new ResizeObserver(() => document.documentElement.style.setProperty("--bar", `${bar.offsetHeight}px`)).observe(bar);
  for (const command of document.querySelectorAll(".next code")) command.after(" ", makeButton("copy", "copy"));
  const start = () => {
    tools.hidden = false;
    loadMarks();
    showCount();
    listGraders();
    list.querySelectorAll(".case[open]").forEach(unfold);
    groups.filter((each) => each.open).forEach(unfoldIn);
    follow();
  };
  const loaded = new Promise((resolve) => { addEventListener("load", resolve); });
  const packed = [...list.querySelectorAll("script[type='application/zlib']")];
  const ready = packed.length ? Promise.all(packed.map(unpack)).then(start) : start();
  // Again after loading: until then, the browser itself scrolls to the fragment and takes the focus.
  Promise.all([ready, loaded]).then(() => { follow(); restoreLook(); });
}
