// The page can be read without this script. It hides, sorts and reorders what is there, and keeps the choice in the URL.
"use strict";
{
  const tools = document.getElementById("tools");
  const list = document.getElementById("list");
  const cases = [...list.querySelectorAll(".case")];
  const groups = [...list.querySelectorAll(".group")];
  const places = cases.map((each) => each.parentNode);
  const names = ["q", "outcome", "change", "tag", "grader", "variant", "flaky", "sort"];
  const sorted = document.createElement("div");
  let openBefore = null; // which groups were open when a filter began
  let texts = null; // what is searched, made when it is first needed

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

  const has = (keys, key) => keys !== undefined && keys.split(" ").includes(key);
  const key = (name) => tools.elements[name]?.selectedOptions?.[0]?.dataset.key;
  const filter = () => {
    const { q, outcome, change, variant, flaky, tag, grader } = Object.fromEntries(chosen());
    const words = (q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && texts === null) texts = new Map(cases.map((each) => [each, each.textContent.toLowerCase()]));
    const fits = (chip) => (!outcome || chip.dataset.o === outcome) && (!change || chip.dataset.c === change)
      && (!variant || chip.dataset.v === key("variant")) && (!grader || has(chip.dataset.g, key("grader")))
      && (!flaky || (chip.dataset.p > 0 && chip.dataset.p < 1));
    const byCell = outcome || change || variant || grader || flaky;
    const filtered = Boolean(byCell || tag || words.length);
    let shown = 0;
    for (const each of cases) {
      each.hidden = filtered && !((!tag || has(each.dataset.tags, key("tag")))
        && words.every((word) => texts.get(each).includes(word))
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
    sorted.replaceChildren();
    if (orders[by]) {
      const keyed = cases.map((each) => [values[by](each), each]);
      keyed.sort(([a], [b]) => orders[by](a, b));
      for (let start = 0; start < keyed.length; start += 40) {
        const rows = sorted.appendChild(document.createElement("div"));
        rows.className = "rows";
        rows.append(...keyed.slice(start, start + 40).map(([, each]) => each));
      }
      list.append(sorted);
    } else {
      cases.forEach((each, number) => places[number].append(each));
      sorted.remove();
    }
  };

  const show = () => { sort(); filter(); };

  // A case that the URL names is opened.

  const reveal = (address) => {
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
    for (const each of cases) each.open = look.cases[each.id] ?? each.open;
    for (const each of groups) each.open = look.groups[titleOf(each)] ?? each.open;
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
  follow();
  // Once more: until then the browser itself goes to the fragment, and takes the focus.
  addEventListener("load", () => { follow(); restoreLook(); });
}
