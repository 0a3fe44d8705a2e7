// Enhancements of the pages. Every page works without them.
"use strict";

const main = document.getElementById("main");
const live = document.getElementById("live");

function announce(message) {
  live.textContent = message;
}

function isSignIn(response) {
  return response.redirected && new URL(response.url).pathname.endsWith("/signin");
}

/** Fetches a page. The header tells the server that this session has loaded the page before. */
function fetchPage(url) {
  const headers = { accept: "text/html", "reqlore-refresh": document.body.dataset.refresh ?? "" };
  return fetch(url, { headers });
}

async function loadPage(url) {
  const response = await fetchPage(url);
  // A server that is not ready must not replace the content.
  if (response.status >= 500) return null;
  // The session has ended: a link would lead to the sign-in page as well.
  if (isSignIn(response)) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

const UNREACHABLE = "The server can't be reached; try again";

/** Posts a form that changes something. The answer has a message if that failed. */
async function postForm(url, body) {
  try {
    const response = await fetch(url, { method: "POST", body, headers: { accept: "application/json" } });
    return await response.json();
  } catch {
    return { message: UNREACHABLE };
  }
}

/* Live pages */

let shownHtml = main.innerHTML;

function hasChanges(part) {
  for (const input of part.querySelectorAll("textarea, input, select")) {
    const isChanged = input.options
      ? [...input.options].some((option) => option.selected !== option.defaultSelected && input.multiple)
      : input.value !== input.defaultValue || input.checked !== input.defaultChecked;
    if (isChanged) return true;
  }
  return false;
}

function isBusy() {
  if (document.querySelector("#move-menu, .card.dragged, .card[aria-busy]")) return true;
  const field = document.activeElement?.closest("main textarea, main input, main select");
  return (field && field.type !== "hidden") || hasChanges(main);
}

/** Replaces the main column by its current state; keeps focus, scroll position and opened details. */
async function refresh() {
  // The answer to a form is not the page of its address.
  if (!eventsUrl || isBusy()) return false;
  const page = await loadPage(location.href);
  const fresh = page?.getElementById("main");
  if (!fresh || isBusy() || fresh.innerHTML === shownHtml) return Boolean(fresh);
  shownHtml = fresh.innerHTML;
  const focused = document.activeElement?.id;
  const open = new Map([...main.querySelectorAll("details[id]")].map((part) => [part.id, part.open]));
  const scrolls = [...main.querySelectorAll(".board, .table-box")].map((part) => part.scrollLeft);
  main.replaceChildren(...fresh.childNodes);
  for (const part of main.querySelectorAll("details[id]")) part.open = open.get(part.id) ?? part.open;
  main.querySelectorAll(".board, .table-box").forEach((part, index) => (part.scrollLeft = scrolls[index] ?? 0));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  prepare();
  return true;
}

const FIRST_RETRY = 2000;
const LAST_RETRY = 60000;
const eventsUrl = document.body.dataset.events;
let stream = null;
let pending = false;
let hasMissed = false;
const stale = document.getElementById("stale");
let retryDelay = FIRST_RETRY;

/** Says that the page is no longer live, and what to do. */
async function showStale() {
  const response = await fetchPage(location.href).catch(() => null);
  if (!hasMissed) return;
  if (response && isSignIn(response)) {
    const link = document.createElement("a");
    [link.href, link.textContent] = [response.url, "Sign in again"];
    stale.replaceChildren("Your session has ended. This page is not updated. ", link);
  } else {
    stale.textContent = "No connection to the server. This page is not updated.";
  }
  stale.hidden = false;
}

async function refreshSoon() {
  pending = !(await refresh().catch(() => false));
}

function connect() {
  if (stream || document.hidden || !eventsUrl) return;
  const opened = new EventSource(eventsUrl);
  stream = opened;
  opened.addEventListener("change", refreshSoon);
  opened.addEventListener("open", () => {
    retryDelay = FIRST_RETRY;
    // Changes while there was no stream, such as during a restart of the server.
    if (hasMissed) refreshSoon();
    hasMissed = false;
    stale.hidden = true;
  });
  opened.addEventListener("error", () => {
    // A single error may be the end of a stream that the browser opens again at once.
    if (hasMissed || opened.readyState === EventSource.CLOSED) showStale();
    hasMissed = true;
    // The browser itself does not connect again after a response such as 502 of a proxy.
    if (opened.readyState !== EventSource.CLOSED || stream !== opened) return;
    stream = null;
    setTimeout(connect, retryDelay);
    retryDelay = Math.min(2 * retryDelay, LAST_RETRY);
  });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else {
    connect();
    refreshSoon();
  }
});
// A page in the browser's cache must not hold a stream.
addEventListener("pagehide", () => { stream?.close(); stream = null; });
addEventListener("pageshow", (event) => { if (event.persisted) { connect(); refreshSoon(); } });
main.addEventListener("focusout", () => { if (pending) setTimeout(refreshSoon, 200); });

/* Search as you type */

const searchBox = document.getElementById("q");
const suggest = document.getElementById("suggest");
let searchTimer = 0;
let searchNumber = 0;

async function search() {
  const number = ++searchNumber;
  const results = document.getElementById("results");
  const text = searchBox.value.trim();
  if (!text && !results) return closeSuggest();
  const url = `${searchBox.form.action}?${new URLSearchParams({ q: text })}`;
  const page = await loadPage(url).catch(() => null);
  const found = page?.getElementById("results");
  // An answer that a later one has overtaken is dropped.
  if (!found || number !== searchNumber) return;
  if (results) {
    results.replaceChildren(...found.childNodes);
    shownHtml = main.innerHTML;
    history.replaceState(null, "", url);
    document.title = page.title;
  } else {
    suggest.replaceChildren(...found.childNodes);
    suggest.hidden = false;
  }
  announce((results || suggest).querySelector("p, h2")?.textContent ?? "");
}

function closeSuggest() {
  searchNumber++;
  if (suggest) suggest.hidden = true;
}

if (searchBox) {
  searchBox.addEventListener("input", () => {
    clearTimeout(searchTimer);
    searchTimer = setTimeout(search, 150);
  });
  searchBox.form.addEventListener("focusout", (event) => {
    if (!searchBox.form.contains(event.relatedTarget)) closeSuggest();
  });
  searchBox.form.addEventListener("keydown", (event) => {
    const links = [...searchBox.form.querySelectorAll(".suggest a")];
    if (event.key === "Escape") {
      closeSuggest();
      searchBox.focus();
    } else if (["ArrowDown", "ArrowUp"].includes(event.key) && links.length && !suggest.hidden) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      const next = links.indexOf(document.activeElement) + step;
      (next < 0 ? searchBox : links[Math.min(next, links.length - 1)]).focus();
    }
  });
}

/* Forms */

let isSubmitted = false;
addEventListener("submit", () => { isSubmitted = true; });
addEventListener("pageshow", () => { isSubmitted = false; });
addEventListener("beforeunload", (event) => {
  const texts = [...main.querySelectorAll("form[method=post]:has(textarea)")];
  if (!isSubmitted && texts.some((form) => "unsaved" in form.dataset || hasChanges(form))) event.preventDefault();
});

/* Undo */

const NOTICE_TIME = 20000;
const MAX_CHANGES = 50;
const done = document.getElementById("done");
let doneTimer = 0;
let isUndoing = false;

/** The changes that this tab made and can undo, the last one at the end. */
function madeChanges() {
  try { return JSON.parse(sessionStorage.getItem(done.action)) ?? []; } catch { return []; }
}

function keepChanges(changes) {
  // A browser may forbid storage.
  try { sessionStorage.setItem(done.action, JSON.stringify(changes.slice(-MAX_CHANGES))); } catch { /* Only the notice undoes. */ }
}

function hideDone() {
  clearTimeout(doneTimer);
  doneTimer = setTimeout(() => {
    if (done.matches(":hover, :focus-within")) hideDone();
    else done.hidden = true;
  }, NOTICE_TIME);
}

/** Shows a notice. `change` is empty if there is nothing to undo. */
function showDone(message, change, label = "Undo", tone = "success") {
  const [text, button] = [done.querySelector("p"), done.querySelector("button")];
  text.removeAttribute("role");
  text.textContent = message;
  done.elements.change.value = change;
  button.textContent = label;
  button.hidden = !change;
  done.className = `notice ${tone}`;
  done.hidden = false;
  hideDone();
  announce(message);
}

/** Shows the notice of a change that a script made. */
function noteChange(message, change) {
  keepChanges([...madeChanges().filter((other) => other !== change), change]);
  showDone(message, change);
}

async function undo(change) {
  if (isUndoing) return;
  isUndoing = true;
  const isRedo = !madeChanges().includes(change);
  const body = new URLSearchParams(new FormData(done));
  body.set("change", change);
  try {
    const response = await fetch(done.action, { method: "POST", body, headers: { accept: "application/json" } });
    const answer = await response.json();
    keepChanges(madeChanges().filter((other) => other !== change));
    if (isRedo && response.ok) noteChange(answer.message, answer.change);
    else showDone(answer.message, answer.change ?? "", "Redo", response.ok ? "success" : "error");
    await refresh();
  } catch {
    showDone(UNREACHABLE, change, "Undo", "error");
  }
  isUndoing = false;
}

if (done) {
  done.addEventListener("submit", (event) => {
    event.preventDefault();
    undo(done.elements.change.value);
  });
  const { change } = done.elements;
  if (!done.hidden && change.value) noteChange(done.querySelector("p").textContent, change.value);
  else if (!done.hidden) showDone(done.querySelector("p").textContent, "");
  const address = new URL(location.href);
  address.searchParams.delete("done");
  if (address.href !== location.href) history.replaceState(null, "", address);
}

/* Board */

function cardLinks(column) {
  return [...column.querySelectorAll(".card > a:first-child")];
}

function showError(message) {
  // Outside of the main column, which a live update replaces.
  const box = document.getElementById("problem");
  box.textContent = message;
  box.hidden = !message;
}

async function moveCard(link, status) {
  const board = link.closest("[data-board]");
  const from = link.closest(".column");
  if (from.dataset.status === status) return;
  const card = link.closest(".card");
  const version = new URL(card.querySelector(".round").href).searchParams.get("version");
  const body = new URLSearchParams({ csrf: board.dataset.csrf, item: link.id, version, status });
  showError("");
  // The card is busy in its new column until the server has answered.
  const place = document.createComment("");
  card.replaceWith(place);
  card.ariaBusy = "true";
  const column = [...board.querySelectorAll(".column")].find((one) => one.dataset.status === status);
  column.querySelector(".cards").prepend(card);
  const { message, change } = await postForm(board.dataset.move, body);
  card.ariaBusy = null;
  if (message) {
    place.replaceWith(card);
    link.focus();
    showError(message);
    if (pending) refreshSoon();
    return;
  }
  const id = link.id;
  await refresh().catch(() => false);
  const moved = document.getElementById(id);
  moved?.closest(".card").classList.add("moved");
  moved?.focus();
  noteChange(`${id} moved to ${status}.`, change);
}

function openMoveMenu(link) {
  const board = link.closest("[data-board]");
  if (!board?.dataset.move) return;
  document.getElementById("move-menu")?.remove();
  showError("");
  const menu = document.createElement("div");
  menu.id = "move-menu";
  menu.className = "menu";
  menu.popover = "auto";
  menu.setAttribute("role", "menu");
  menu.setAttribute("aria-label", `Move ${link.id} to …`);
  for (const column of board.querySelectorAll(".column")) {
    const choice = document.createElement("button");
    choice.type = "button";
    choice.setAttribute("role", "menuitemradio");
    const isCurrent = column.contains(link);
    choice.setAttribute("aria-checked", isCurrent);
    if (isCurrent) choice.setAttribute("aria-current", "true");
    choice.append(column.querySelector(".status").cloneNode(true));
    choice.addEventListener("click", () => {
      menu.hidePopover();
      moveCard(link, column.dataset.status);
    });
    menu.append(choice);
  }
  menu.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const choices = [...menu.children];
    const next = choices.indexOf(document.activeElement) + step;
    choices[(next + choices.length) % choices.length].focus();
  });
  menu.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    menu.remove();
    if (document.activeElement === document.body) link.focus();
    // A change that arrived while the menu was open.
    if (pending) refreshSoon();
  });
  document.body.append(menu);
  menu.showPopover();
  const place = link.closest(".card").getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(place.right - 200, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.max(8, Math.min(place.top + 32, innerHeight - menu.offsetHeight - 8))}px`;
  (menu.querySelector("[aria-checked=false]") ?? menu.firstChild)?.focus();
}

function moveFocus(link, key) {
  const columns = [...link.closest(".board").querySelectorAll(".column")];
  const links = cardLinks(link.closest(".column"));
  const index = links.indexOf(link);
  if (key === "ArrowDown" || key === "ArrowUp") {
    links[index + (key === "ArrowDown" ? 1 : -1)]?.focus();
    return;
  }
  const step = key === "ArrowRight" ? 1 : -1;
  let next = columns.indexOf(link.closest(".column")) + step;
  while (columns[next] && !cardLinks(columns[next]).length) next += step;
  if (columns[next]) {
    const others = cardLinks(columns[next]);
    others[Math.min(index, others.length - 1)].focus();
  }
}

let dragged = null;

main.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.(".card")?.querySelector("a") ?? null;
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.id);
  dragged.closest(".card").classList.add("dragged");
});
main.addEventListener("dragover", (event) => {
  const column = dragged && event.target.closest?.(".column");
  for (const other of main.querySelectorAll(".column.target")) if (other !== column) other.classList.remove("target");
  if (!column) return;
  event.preventDefault();
  column.classList.add("target");
});
main.addEventListener("drop", (event) => {
  const column = dragged && event.target.closest?.(".column");
  if (!column) return;
  event.preventDefault();
  dragged.closest(".card").classList.remove("dragged");
  moveCard(dragged, column.dataset.status);
});
main.addEventListener("dragend", () => {
  for (const part of main.querySelectorAll(".target, .dragged")) part.classList.remove("target", "dragged");
  dragged = null;
});

main.addEventListener("click", (event) => {
  const opener = event.target.closest(".card > .round");
  if (opener && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openMoveMenu(opener.closest(".card").querySelector("a"));
  }
  const copier = event.target.closest("[data-copy]");
  if (copier) {
    const source = document.getElementById(copier.dataset.copy);
    navigator.clipboard.writeText(source.value ?? source.textContent).then(
      () => {
        announce("Copied");
        copier.lastChild.textContent = "Copied";
      },
      () => announce("Copying is not possible here"),
    );
  }
});

/* Forms that change a part of the page */

main.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.inPlace) return;
  event.preventDefault();
  const button = event.submitter;
  button.ariaBusy = "true";
  const error = document.getElementById(form.dataset.inPlace);
  const body = new URLSearchParams(new FormData(form, button));
  const answer = await postForm(form.action, body);
  error.textContent = answer.message ?? "";
  error.hidden = !answer.message;
  button.ariaBusy = null;
  if (answer.message) return;
  await refresh().catch(() => false);
  noteChange(`${body.get("item")} is ${body.get("status")}.`, answer.change);
});

/* Pickers: suggestions for fields that name items, users or tags */

const pickUrl = document.body.dataset.pick;
const picks = document.createElement("ul");
picks.id = "picks";
picks.className = "menu picks";
picks.popover = "manual";
picks.setAttribute("role", "listbox");
picks.setAttribute("aria-label", "Suggestions");
let picking = null;
let pickTimer = 0;
let pickNumber = 0;

/** The range that is completed: the field, or in a list the part that ends at the caret. */
function pickRange({ value, dataset, selectionStart }) {
  if (dataset.pickList === undefined) return [0, value.length];
  return [value.slice(0, selectionStart).search(/[^,:\n]*$/), selectionStart];
}

function setPick(field, attribute, value) {
  // A text area has no state, because it is not a combo box.
  if (attribute !== "aria-expanded" || field.tagName === "INPUT") field.setAttribute(attribute, value);
}

function closePicks() {
  clearTimeout(pickTimer);
  pickNumber++;
  if (!picking) return;
  setPick(picking, "aria-expanded", "false");
  for (const attribute of ["aria-activedescendant", "aria-controls"]) picking.removeAttribute(attribute);
  picking = null;
  if (picks.matches(":popover-open")) picks.hidePopover();
}

function activatePick(option) {
  picks.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
  option.setAttribute("aria-selected", "true");
  option.scrollIntoView({ block: "nearest" });
  picking.setAttribute("aria-activedescendant", option.id);
}

async function openPicks(field) {
  const number = ++pickNumber;
  const range = pickRange(field);
  const query = new URLSearchParams({ kind: field.dataset.pick, q: field.value.slice(...range).trim() });
  const response = await fetch(`${pickUrl}?${query}`, { headers: { accept: "application/json" } }).catch(() => null);
  const choices = response?.ok && !response.redirected ? await response.json() : [];
  if (number !== pickNumber || document.activeElement !== field) return;
  closePicks();
  if (!choices.length) return;
  picks.replaceChildren(...choices.map(({ value, id, title }, index) => {
    const option = document.createElement("li");
    option.id = `picks-${index}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    option.dataset.value = field.dataset.pick === "tag" && field.dataset.pickList === undefined ? title : value;
    const parts = [document.createElement("bdi"), document.createElement("span")];
    [parts[0].textContent, parts[1].textContent, parts[1].className] = [title, id, "id"];
    option.append(...parts);
    return option;
  }));
  picking = field;
  setPick(field, "aria-expanded", "true");
  setPick(field, "aria-controls", "picks");
  // Within the same landmark.
  field.after(picks);
  picks.showPopover();
  const place = field.getBoundingClientRect();
  const above = place.bottom + 4 + picks.offsetHeight > innerHeight && place.top > picks.offsetHeight + 4;
  picks.style.left = `${Math.max(8, Math.min(place.left, innerWidth - picks.offsetWidth - 8))}px`;
  picks.style.top = `${above ? place.top - picks.offsetHeight - 4 : place.bottom + 4}px`;
  announce(choices.length === 1 ? "1 suggestion" : `${choices.length} suggestions`);
}

function choosePick(option) {
  const field = picking;
  const [start, end] = pickRange(field);
  const isList = field.dataset.pickList !== undefined;
  const space = isList && start > 0 && field.value[start - 1] !== "\n" ? " " : "";
  field.setRangeText(space + option.dataset.value, start, end, "end");
  closePicks();
  if (field.form?.dataset.autosubmit !== undefined) field.form.requestSubmit();
}

picks.addEventListener("pointerdown", (event) => event.preventDefault());
picks.addEventListener("click", (event) => {
  const option = event.target.closest("li");
  if (option) choosePick(option);
});
document.addEventListener("focusout", closePicks);
document.addEventListener("input", ({ target }) => {
  if (!pickUrl || !target.dataset.pick) return;
  clearTimeout(pickTimer);
  pickTimer = setTimeout(openPicks, 100, target);
});
document.addEventListener("keydown", (event) => {
  const field = event.target;
  if (!pickUrl || !field.dataset?.pick || event.isComposing) return;
  const active = picks.querySelector("[aria-selected=true]");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && picking) {
    const options = [...picks.children];
    const next = options.indexOf(active) + step;
    activatePick(options.at(next < options.length ? next : 0));
  } else if (event.key === "ArrowDown" && field.tagName === "INPUT") {
    openPicks(field);
  } else if (event.key === "Enter" && picking && active) {
    choosePick(active);
  } else if (event.key === "Escape" && picking) {
    closePicks();
  } else {
    return;
  }
  event.preventDefault();
});

/* Shortcuts */

const shortcutSwitch = document.getElementById("shortcut-switch");
const SHORTCUTS_OFF = "reqlore-no-shortcuts";

function hasShortcuts() {
  // A browser may forbid storage.
  try { return !localStorage.getItem(SHORTCUTS_OFF); } catch { return true; }
}

if (shortcutSwitch) {
  document.getElementById("shortcut-choice").hidden = false;
  shortcutSwitch.checked = hasShortcuts();
  shortcutSwitch.addEventListener("change", () => {
    if (shortcutSwitch.checked) localStorage.removeItem(SHORTCUTS_OFF);
    else localStorage.setItem(SHORTCUTS_OFF, "yes");
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.target.closest("main form[method=post]")?.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, textarea, select, [popover]")) return;
  if (event.key.length === 1 && !hasShortcuts()) return;
  const card = event.target.closest(".card")?.querySelector("a");
  if (event.key === "/" && searchBox) {
    searchBox.focus();
    searchBox.select();
  } else if (event.key === "?") {
    document.getElementById("shortcuts")?.togglePopover();
  } else if (event.key === "c" && !event.repeat && document.querySelector("[data-new]")) {
    document.querySelector("[data-new]").click();
  } else if (event.key === "z" && done && !event.repeat) {
    const change = madeChanges().at(-1);
    if (change) undo(change);
    else showDone("This page has no change to undo.", "");
  } else if (event.key === "m" && card) {
    openMoveMenu(card);
  } else if (event.key.startsWith("Arrow")) {
    const start = card ?? (document.activeElement === document.body ? main.querySelector(".card > a") : null);
    if (!start) return;
    if (card) moveFocus(card, event.key);
    else start.focus();
  } else {
    return;
  }
  event.preventDefault();
});

/** Prepares parts of the main column that scripts enhance. */
function prepare() {
  for (const card of main.querySelectorAll("[data-move] .card")) {
    card.draggable = true;
    card.querySelector("a").draggable = false;
  }
  for (const button of main.querySelectorAll("[data-copy]")) button.hidden = false;
  for (const field of pickUrl ? main.querySelectorAll("[data-pick]") : []) {
    if (field.tagName === "INPUT") field.setAttribute("role", "combobox");
    setPick(field, "aria-autocomplete", "list");
    setPick(field, "aria-expanded", "false");
    field.autocomplete = "off";
  }
  for (const form of main.querySelectorAll("form[data-autosubmit]")) {
    form.addEventListener("change", (event) => { if (event.target.matches("select")) form.requestSubmit(); });
    // Short URLs: a field without a value is left out.
    form.addEventListener("formdata", (event) => {
      for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
    });
  }
}

prepare();
connect();
