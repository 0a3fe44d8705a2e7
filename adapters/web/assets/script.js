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
  for (const input of part.querySelectorAll("textarea, input:not([id^=select-]), select")) {
    const isChanged = input.options
      ? [...input.options].some((option) => option.selected !== option.defaultSelected && input.multiple)
      : input.value !== input.defaultValue || input.checked !== input.defaultChecked;
    if (isChanged) return true;
  }
  return false;
}

function isBusy() {
  if (document.querySelector("body > .menu, .card.dragged")) return true;
  const field = document.activeElement?.closest("main :is(textarea, input:not([id^=select-]), select)");
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
  const selected = main.querySelectorAll(".select:checked");
  const scrolls = [...main.querySelectorAll(".board, .table-box")].map((part) => part.scrollLeft);
  main.replaceChildren(...fresh.childNodes);
  for (const part of main.querySelectorAll("details[id]")) part.open = open.get(part.id) ?? part.open;
  main.querySelectorAll(".board, .table-box").forEach((part, index) => (part.scrollLeft = scrolls[index] ?? 0));
  for (const { id } of selected) document.getElementById(id)?.setAttribute("checked", "");
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

/* Menus */

/** Places a menu below an element, or above it if there is no space. */
function placeMenu(menu, opener) {
  const { left, top, bottom } = opener.getBoundingClientRect();
  const [x, y] = [innerWidth - menu.offsetWidth - 8, innerHeight - menu.offsetHeight - 8];
  menu.style.left = `${Math.max(8, Math.min(left, x))}px`;
  menu.style.top = `${Math.max(8, bottom + 4 > y ? Math.min(top - menu.offsetHeight - 4, y) : bottom + 4)}px`;
}

/** Shows a menu at an element, which gets the focus back. */
function showMenu(menu, opener) {
  menu.classList.add("menu");
  menu.popover = "auto";
  menu.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.localName !== "button") return;
    event.preventDefault();
    const choices = [...menu.querySelectorAll("button")];
    choices.at((choices.indexOf(event.target) + step) % choices.length).focus();
  });
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    menu.remove();
    // A change that arrived while the menu was open.
    if (pending) refreshSoon();
  });
  document.body.append(menu);
  menu.showPopover();
  placeMenu(menu, opener);
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
  const opener = link.closest(".card").querySelector(".round");
  const version = new URL(opener.href).searchParams.get("version");
  const body = new URLSearchParams({ csrf: board.dataset.csrf, item: link.id, version, status });
  showError("");
  const { message, change } = await postForm(board.dataset.move, body);
  if (message) {
    showError(message);
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
  showError("");
  const menu = document.createElement("div");
  menu.id = "move-menu";
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
  showMenu(menu, link.closest(".card").querySelector(".round"));
  (menu.querySelector("[aria-checked=false]") ?? menu.firstChild)?.focus();
}

function moveFocus(link, key) {
  const columns = [...link.closest(".board").querySelectorAll(".column")];
  const links = cardLinks(link.closest(".column"));
  const index = links.indexOf(link);
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
  const { target: form, submitter: button } = event;
  if (form.dataset.inPlace === undefined) return;
  event.preventDefault();
  button.ariaBusy = "true";
  const body = new URLSearchParams(new FormData(form, button));
  const { message = "", notice, change } = await postForm(form.action, body);
  button.ariaBusy = null;
  showError(message);
  if (message) return;
  await refresh().catch(() => false);
  noteChange(notice ?? `${body.get("item")} is ${body.get("status")}.`, change);
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
  placeMenu(picks, field);
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

/* Fields in place, of one item or of the selected ones */

/** Opens the form of a field as a menu, after an error with the message and the typed text. */
async function openField(opener, url, problem = "", typed) {
  opener.ariaBusy = "true";
  const page = await loadPage(url).catch(() => null);
  // A live update may have replaced it.
  opener = document.getElementById(opener.id) ?? opener;
  opener.ariaBusy = null;
  const form = page?.querySelector(".field-form");
  showError(form ? "" : problem || page?.querySelector("main p")?.textContent || UNREACHABLE);
  if (!form) return;
  const field = form.querySelector(".field [autofocus]");
  if (field) field.value = typed ?? field.value;
  form.querySelector(".field-error").textContent = problem;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    saveField(opener, url, form, event.submitter, field?.value);
  });
  showMenu(form, opener);
  preparePicks(form);
}

/** Shows the new value as pending until the server has confirmed or refused it. */
async function saveField(opener, url, form, button, typed) {
  const body = new URLSearchParams(new FormData(form, button));
  const shown = [...opener.childNodes];
  if (opener.href) opener.replaceChildren(...(typed === undefined ? button.childNodes : [typed]));
  form.hidePopover();
  opener.ariaBusy = "true";
  const { message, notice, change } = await postForm(form.action, body);
  if (change) await refresh().catch(() => false);
  else opener.replaceChildren(...shown);
  opener.ariaBusy = null;
  const now = document.getElementById(opener.id) ?? main;
  if (message) return openField(now, url, message, typed);
  if (document.activeElement === document.body) now.focus();
  (change ? noteChange : showDone)(notice, change);
}

const ROW = ".card, .list tbody tr, .tree .row";
let lastSelected = "";

/** The rows or boxes outside of closed parts. */
function shownParts(selector) {
  return [...main.querySelectorAll(selector)].filter((part) => part.checkVisibility());
}

function selectItems(boxes, isSelected) {
  for (const box of boxes) box.checked = isSelected;
  const all = document.getElementById("select-all");
  if (!all) return;
  all.checked = shownParts(".select").every((box) => box.checked);
  const text = `${main.querySelectorAll(".select:checked").length} selected`;
  document.getElementById("selected").textContent = text;
  if (boxes.length) announce(text);
}

/** Selects an item, or a range from the last one to it. */
function selectTo(box, isRange) {
  const boxes = shownParts(".select");
  const last = (isRange && document.getElementById(lastSelected)) || box;
  const [start, end] = [last, box].map((one) => boxes.indexOf(one)).sort((a, b) => a - b);
  selectItems(boxes.slice(start, end + 1), box.checked);
  lastSelected = box.id;
}

main.addEventListener("click", (event) => {
  const { target } = event;
  const opener = target.closest(".edit, #bulk button");
  if (opener && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    const { form, href } = opener;
    openField(opener, href ?? `${form.action}?${new URLSearchParams(new FormData(form, opener))}`);
  }
  if (target.matches(".select")) selectTo(target, event.shiftKey);
  if (target.id === "select-all") selectItems(shownParts(".select"), target.checked);
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
  if (event.target.closest("input:not([id^=select-]), textarea, select, [popover]")) return;
  if (event.key.length === 1 && !hasShortcuts()) return;
  const card = event.target.closest(".card")?.querySelector("a");
  const row = event.target.closest(ROW);
  const box = row?.querySelector(".select");
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
  } else if (event.key.toLowerCase() === "x" && box) {
    box.checked = !box.checked;
    selectTo(box, event.shiftKey);
  } else if (event.key === "Escape") {
    selectItems(main.querySelectorAll(".select:checked"), false);
    return;
  } else if (row && /^Arrow(Up|Down)$/.test(event.key)) {
    const rows = shownParts(ROW);
    const next = rows[rows.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
    const index = [...row.querySelectorAll("a, input")].indexOf(event.target);
    next?.querySelectorAll("a, input")[index]?.focus();
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

function preparePicks(part) {
  for (const field of pickUrl ? part.querySelectorAll("[data-pick]") : []) {
    if (field.tagName === "INPUT") field.setAttribute("role", "combobox");
    setPick(field, "aria-autocomplete", "list");
    setPick(field, "aria-expanded", "false");
    field.autocomplete = "off";
  }
}

/** Prepares parts of the main column that scripts enhance. */
function prepare() {
  for (const card of main.querySelectorAll("[data-move] .card")) {
    card.draggable = true;
    for (const link of card.querySelectorAll("a")) link.draggable = false;
  }
  for (const button of main.querySelectorAll("[data-copy]")) button.hidden = false;
  preparePicks(main);
  selectItems([]);
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
