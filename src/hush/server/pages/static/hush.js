// What the page does by itself: paints SQL, completes names, moves the slider without asking, asks without leaving.
// Nothing here is needed: without it every form and link leads to the same places.
"use strict";
document.documentElement.classList.add("js");

const KEYWORDS = new Set(("SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS AND OR NOT IN IS NULL BETWEEN LIKE CASE WHEN THEN " +
  "ELSE END JOIN LEFT INNER CROSS ON USING WITH UNION ALL DISTINCT ASC DESC NULLS FIRST LAST FILTER INTERVAL DATE TRUE FALSE CAST").split(" "));
const FUNCTIONS = ("COUNT SUM AVG MEDIAN STDDEV VARIANCE QUANTILE_CONT MIN MAX CLIP ROUND FLOOR CEIL ABS COALESCE NULLIF LOWER UPPER " +
  "CONTAINS STARTS_WITH DATE_TRUNC DATE_DIFF EXTRACT YEAR MONTH WIDTH_BUCKET").split(" ");
const WORDS = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d+(?:\.\d+)?\b)|([A-Za-z_]\w*)/g;
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function paint(code, text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(WORDS)) {
    const [word, comment, string, , number, name] = match;
    const upper = name && name.toUpperCase();
    const kind = comment ? "c" : string ? "t" : number ? "n" : KEYWORDS.has(upper) ? "k" : FUNCTIONS.includes(upper) ? "f" : "";
    if (!kind) continue;
    parts.push(text.slice(last, match.index));
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = word;
    parts.push(span);
    last = match.index + word.length;
  }
  code.replaceChildren(...parts, text.slice(last), "\n");
}

function get(address, then, { method = "GET", body = null } = {}) {
  const request = new XMLHttpRequest();
  request.open(method, address);
  request.responseType = "document";
  request.onload = () => then(request.responseXML, request);
  request.onerror = () => then(null, request);
  request.send(body);
  return request;
}

function swap(selector, from) {
  const old = find(selector), fresh = from && find(selector, from);
  if (!old || !fresh) return null;
  const taken = document.importNode(fresh, true);
  old.replaceWith(taken);
  return taken;
}

// on a phone the places scroll: the one that is shown is in view

function head(page) { if (swap("#head", page)) tab(); }

function tab() {
  const here = find("#head [aria-current]"), row = find("#head nav");
  if (here) row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
}

// the slider: 25 prices came with the page

let known = null;

function prepare() {
  const before = find("#before");
  known = before && before.dataset.prices ? JSON.parse(before.dataset.prices) : null;
  if (!known) return;
  const slider = find("#slider");
  slider.addEventListener("input", () => move(Number(slider.value)));
  const rows = find("#rows");
  rows.addEventListener("change", refresh);
  const wanted = find("#wanted");
  if (wanted) wanted.addEventListener("input", () => aim(Number(wanted.value.replace(/,/g, ""))));
  move(Number(slider.value));
}

function move(index) {
  const price = known.prices[index], slider = find("#slider");
  slider.value = index;
  slider.setAttribute("aria-valuetext", `ε ${price}`);
  find("#epsilon").value = price;
  find("#before output").textContent = `ε ${price}`;
  for (const place of all("[data-price]")) place.textContent = price;
  find("#odds").textContent = known.odds[index];
  find("#share").textContent = known.takes[index];
  find("[data-more]").textContent = known.more[index];
  find("[data-like]").textContent = known.more[index] === 1 ? "question like it fits" : "questions like it fit";
  known.outputs.forEach((output, number) => {
    find(`[data-error="${number}"]`).textContent = output.words[index];
    find(`[data-part="${number}"]`).textContent = output.parts[index];
  });
  const drawn = known.outputs.find(output => output.errors[index] !== null);
  if (drawn) for (const svg of all("#before svg[data-scale]")) whiskers(svg, drawn.errors[index]);
  all("#head .cost").forEach((piece, account) => {
    if (!known.bars[account]) return;
    const share = 100 * known.bars[account][0], cost = Math.min(100 * known.bars[account][index + 1], share);
    piece.setAttribute("x", share - cost);
    piece.setAttribute("width", cost);
  });
}

function whiskers(svg, error) {
  const [low, high, start, end] = svg.dataset.scale.split(" ").map(Number);
  const place = value => start + Math.min(Math.max((value - low) / (high - low), 0), 1) * (end - start);
  for (const path of all("path.whisker", svg)) {
    const x = Number(path.dataset.x), cap = Number(path.dataset.cap), value = Number(path.dataset.value);
    const bottom = place(value - error).toFixed(1), top = place(value + error).toFixed(1);
    path.setAttribute("d", `M${x - cap} ${bottom}h${2 * cap}M${x - cap} ${top}h${2 * cap}M${x} ${bottom}V${top}`);
    path.dataset.error = error;
  }
}

function aim(error) {
  const output = known.outputs.find(candidate => candidate.errors[0] !== null), note = find("#wanted-note");
  if (!output || !(error > 0)) { note.textContent = ""; return; }
  const index = output.errors.findIndex(value => value !== null && value <= error);
  note.textContent = index < 0 ? "not for what is left" : `ε ${known.prices[index]} gives it`;
  move(index < 0 ? known.prices.length - 1 : index);
}

// the question: painted, completed, explained while it is written

let waiting = 0, looking = null;

function address() {
  const form = find("#asking"), query = new URLSearchParams({ q: form.q.value });
  if (form.data) query.set("data", form.data.value);
  if (form.rows) query.set("rows", form.rows.value);
  return `/ask?${query}`;
}

function refresh() {
  clearTimeout(waiting);
  if (looking) looking.abort();
  const asked = known && find("#epsilon") ? Number(find("#slider").value) : null, place = address();
  looking = get(place, page => {
    looking = null;
    const focus = document.activeElement && document.activeElement.id;
    if (!swap("#before", page)) return;
    head(page);
    history.replaceState(null, "", place);
    prepare();
    if (known && asked !== null && asked < known.prices.length) move(asked);
    if (focus && focus !== "question" && find(`#${focus}`)) find(`#${focus}`).focus();
  });
}

function edit() {
  const field = find("#question"), editor = field.closest(".editor"), code = find("code", editor), list = document.createElement("ul");
  editor.classList.add("painted");
  list.className = "complete";
  list.hidden = true;
  list.id = "completions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  editor.append(list);
  field.setAttribute("aria-controls", "completions");
  const show = () => {
    paint(code, field.value);
    field.rows = Math.max(5, field.value.split("\n").length + 1);
  };
  const known = () => [
    ...all("[data-word]").map(word => [word.textContent, word.nextElementSibling.textContent.split(/[ ,]/)[0]]),
    ...all("aside summary").map(word => [word.firstChild.textContent.trim(), "table"]),
    ...FUNCTIONS.map(word => [word, "function"]), ...[...KEYWORDS].map(word => [word, ""]),
  ];
  const begun = () => /[A-Za-z_]\w*$/.exec(field.value.slice(0, field.selectionStart));
  const close = () => { list.hidden = true; field.removeAttribute("aria-activedescendant"); };
  const choose = word => {
    const start = begun() ? begun().index : field.selectionStart;
    field.setRangeText(word, start, field.selectionStart, "end");
    close();
    field.focus();
    field.dispatchEvent(new Event("input"));
    close();
  };
  const open = asked => {
    const start = begun(), prefix = start ? start[0].toLowerCase() : "";
    const matches = known().filter(([word]) => word.toLowerCase().startsWith(prefix) && word.toLowerCase() !== prefix).slice(0, 12);
    if (!matches.length || (!asked && prefix.length < 2)) return close();
    list.replaceChildren(...matches.map(([word, kind], index) => {
      const item = document.createElement("li"), note = document.createElement("span");
      item.id = `completion-${index}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", index === 0);
      note.textContent = kind;
      item.append(word, note);
      item.addEventListener("mousedown", event => { event.preventDefault(); choose(word); });
      return item;
    }));
    const lines = field.value.slice(0, field.selectionStart - prefix.length).split("\n"), style = getComputedStyle(field);
    const height = parseFloat(style.lineHeight), left = Math.min(lines.at(-1).length * 8.65, field.clientWidth - 220);
    list.style.top = `${parseFloat(style.paddingTop) + height * lines.length + 2}px`;
    list.style.left = `${Math.max(left, 0) + 12}px`;
    list.hidden = false;
    field.setAttribute("aria-activedescendant", "completion-0");
  };
  const step = by => {
    const items = all("li", list), at = items.findIndex(item => item.getAttribute("aria-selected") === "true");
    const next = (at + by + items.length) % items.length;
    items.forEach((item, index) => item.setAttribute("aria-selected", index === next));
    items[next].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", items[next].id);
  };
  field.addEventListener("input", () => {
    show();
    open(false);
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 400);
  });
  field.addEventListener("scroll", () => { code.parentElement.scrollTop = field.scrollTop; });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); const button = find("[data-ask]"); if (button) button.click(); }
    else if (event.key === " " && event.ctrlKey) { event.preventDefault(); open(true); }
    else if (list.hidden) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); step(event.key === "ArrowDown" ? 1 : -1); }
    else if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); choose(find('[aria-selected="true"]', list).firstChild.textContent); }
    else if (event.key === "Escape") close();
  });
  for (const word of all("[data-word]")) word.addEventListener("click", () => choose(word.textContent));
  show();
}

// whatever takes longer shows how long, and can be cancelled; how far it got is told to nobody

function waited(button, form, word, paid) {
  const begun = performance.now(), text = button.textContent, cancel = document.createElement("button");
  cancel.type = "button";
  cancel.textContent = "Cancel";
  cancel.addEventListener("click", () => fetch(`/api/v1/questions/${encodeURIComponent(form.request.value)}`, {
    method: "DELETE", headers: { "Hush-Form-Token": form.form_token.value } }));
  button.disabled = true;
  const timer = setInterval(() => {
    const seconds = (performance.now() - begun) / 1000;
    if (seconds > 0.3) button.textContent = `${word}… ${seconds.toFixed(1)} s`;
    if (seconds > 1 && paid && !cancel.isConnected) button.after(cancel);
  }, 100);
  return () => {
    clearInterval(timer);
    button.disabled = false;
    button.textContent = text;
    cancel.remove();
  };
}

function making() {
  const form = find("#releasing"), button = form && find("[data-make]", form);
  if (!button) return;
  form.addEventListener("submit", event => { if (event.submitter === button) setTimeout(() => waited(button, form, "Releasing", true)); });
}

// asking: the answer appears under the question, at an address of its own

function ask(event) {
  const button = event.target.closest("[data-ask], [formaction='/try']");
  if (!button) return;
  event.preventDefault();
  const form = find("#asking"), paid = button.hasAttribute("data-ask"), rest = waited(button, form, "Asking", paid);
  get(button.getAttribute("formaction"), (page, request) => {
    rest();
    form.request.value = crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2);
    if (!page) return;
    if (request.status >= 400 || !paid) swap("#before", page);
    const answer = request.status < 400 && swap("#answer", page);
    head(page);
    if (answer && paid) {
      const heading = find("h2", answer), link = document.createElement("a");
      link.href = new URL(request.responseURL).pathname;
      link.textContent = "its own page";
      find(".note", heading).append(" · ", link);
      refresh();
    } else prepare();
    if (answer) answer.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }, { method: "POST", body: new URLSearchParams(new FormData(form)) });
}

// a chart is drawn anew in its place: as it was chosen last

let drawing = null;

function choose(event) {
  const form = event.target.closest("figure form.choose");
  if (!form) return;
  if (drawing) drawing.abort();
  drawing = get(`${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`, (page, request) => {
    const fresh = page && request.status === 200 && find("figure:has(form.choose)", page), focus = event.target.name;
    if (!fresh) return;
    const taken = document.importNode(fresh, true);
    form.closest("figure").replaceWith(taken);
    find(`[name=${focus}]`, taken).focus();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  tab();
  document.addEventListener("change", choose);
  for (const pre of all("[data-paint]")) paint(pre, pre.textContent);
  document.addEventListener("click", event => { for (const menu of all("details.me[open]")) if (!menu.contains(event.target)) menu.open = false; });
  making();
  if (!find("#asking")) return;
  edit();
  prepare();
  find("#asking").addEventListener("click", ask);
});
