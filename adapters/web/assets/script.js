// Enhancements of the pages. Every page works without them.
"use strict";

const byId = (id) => document.getElementById(id);
const main = byId("main");
const live = byId("live");

function announce(message) {
  live.textContent = message;
}

function isSignIn(response) {
  return response.redirected && new URL(response.url).pathname.endsWith("/signin");
}

/** The header proves that this session has loaded the page before. */
function fetchPage(url) {
  const headers = { accept: "text/html", "reqlore-refresh": document.body.dataset.refresh ?? "" };
  return fetch(url, { headers });
}

/** The HTML of a page; empty if it can't be shown, because the server is not ready or the session has ended. */
async function loadHtml(url) {
  try {
    const response = await fetchPage(url);
    return response.status >= 500 || isSignIn(response) ? "" : await response.text();
  } catch {
    return "";
  }
}

const parse = (html) => new DOMParser().parseFromString(html, "text/html");

const UNREACHABLE = "The server can't be reached; try again";

/** Posts a form that changes something. The answer has no `ok` if the server did not answer. */
async function postForm(url, body) {
  try {
    const response = await fetch(url, { method: "POST", body, headers: { accept: "application/json" } });
    return { ok: response.ok, ...(await response.json()) };
  } catch {
    return { message: UNREACHABLE };
  }
}

/* Live pages */

/** The HTML of the page from its main column on. */
const mainHtml = (html) => html.split("<main", 2)[1];
let shownHtml;

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
  if (document.querySelector("body > .menu, .card:is(.dragged, [aria-busy]), dialog[open]")) return true;
  const field = document.activeElement?.closest("main :is(textarea, input:not([id^=select-]), select)");
  return (field && field.type !== "hidden" && field.form?.method !== "get") || hasChanges(main);
}

const scrollParts = () => [...main.querySelectorAll(".board, .table-box")];
const scrollPositions = () => scrollParts().map((part) => [part.scrollLeft, part.scrollTop]);

function setScroll(positions) {
  scrollParts().forEach((part, index) => part.scrollTo(...(positions[index] ?? [0, 0])));
}

// Browsers restore only the position of the whole page. A new state would end a navigation under way.
main.addEventListener("scrollend", () => {
  if (!globalThis.navigation?.transition) history.replaceState({ scrolls: scrollPositions() }, "");
}, true);
if (history.state?.scrolls) setScroll(history.state.scrolls);

let running = Promise.resolve();
let next = null;

/** Replaces the main column by its current state, after a refresh that is under way. */
function refresh() {
  const start = () => {
    [running, next] = [next, null];
    return refreshNow();
  };
  return next ??= running.then(start, start);
}

async function refreshNow() {
  // The answer to a form is not the page of its address.
  if (!eventsUrl || isBusy()) return false;
  const { href } = location;
  const html = await loadHtml(href);
  if (!html || isBusy()) return false;
  if (location.href === href && mainHtml(html) !== shownHtml) showMain(html, parse(html), scrollPositions());
  return true;
}

/** Identifies a part among its siblings: an item by the first ID in it. */
const keyOf = (part) => part.id || part.querySelector?.(":scope > [id], :scope > td > [id]")?.id;

/** Replaces the parts of an element that differ from a fresh one. */
function patch(element, fresh) {
  const [parts, others] = [element, fresh].map((one) => [...one.childNodes]);
  const keys = new Set(others.map(keyOf));
  for (const other of others) {
    const key = keyOf(other);
    const isAt = (index) => parts[index] && keyOf(parts[index]) === key;
    while (parts[0] && !keys.has(keyOf(parts[0]))) parts.shift().remove();
    // One that moved down.
    if (key && isAt(1)) parts.shift().remove();
    if (key) keys.delete(key);
    if (!isAt(0)) {
      element.insertBefore(other, parts[0] ?? null);
      continue;
    }
    const part = parts.shift();
    if (part.isEqualNode(other)) continue;
    if (part.firstChild && part.cloneNode().isEqualNode(other.cloneNode())) patch(part, other);
    else part.replaceWith(other);
  }
  for (const part of parts) part.remove();
}

/** Replaces the main column; keeps focus, selection and opened details. */
function showMain(html, page, scrolls) {
  const fresh = page.getElementById("main");
  shownHtml = mainHtml(html);
  const focused = document.activeElement?.id;
  const open = new Map([...main.querySelectorAll("details[id]")].map((part) => [part.id, part.open]));
  const selected = [...main.querySelectorAll(".select:checked")];
  prepare(fresh);
  patch(main, fresh);
  for (const part of main.querySelectorAll("details[id]")) part.open = open.get(part.id) ?? part.open;
  setScroll(scrolls);
  for (const { id } of selected) byId(id)?.setAttribute("checked", "");
  if (focused) byId(focused)?.focus({ preventScroll: true });
  selectItems([]);
}

/* Pages in place */

/** Parts outside of the main column that differ between pages. */
const FRAME_PARTS = ["#side", "[data-new]", "#theme-form [name=next]", "#done [name=next]"];

async function showPage(href, signal) {
  main.ariaBusy = "true";
  const html = await loadHtml(href);
  if (signal.aborted) return;
  main.ariaBusy = null;
  const page = parse(html);
  const pairs = FRAME_PARTS.map((part) => [document, page].map((one) => one.querySelector(part)));
  if (page.body.dataset.events !== eventsUrl || pairs.some((pair) => pair.filter(Boolean).length === 1)) {
    return location.replace(href);
  }
  for (const [part, fresh] of pairs) part?.replaceWith(fresh);
  document.title = page.title;
  document.body.dataset.refresh = page.body.dataset.refresh;
  searchBox.value = searchBox.defaultValue = page.getElementById("q").defaultValue;
  isSubmitted = false;
  showError("");
  showMain(html, page, history.state?.scrolls ?? []);
  if (document.activeElement === document.body) (main.querySelector("[autofocus]") ?? main).focus();
  announce(`${page.title} ${main.querySelector(".page-head .muted")?.textContent ?? ""}`);
}

// Browsers without this interface load each page.
globalThis.navigation?.addEventListener("navigate", (event) => {
  const { canIntercept, destination: { url }, signal } = event;
  const isLoad = event.hashChange || event.formData || event.downloadRequest !== null || !/push|traverse/.test(event.navigationType);
  if (!canIntercept || isLoad || !eventsUrl || !searchBox || hasUnsaved()) return;
  if (!url.startsWith(location.origin + eventsUrl.replace(/events$/, ""))) return;
  event.intercept({ focusReset: "manual", handler: () => showPage(url, signal) });
});
main.addEventListener("change", ({ target }) => {
  if (target.matches("form[data-autosubmit] select")) target.form.requestSubmit();
});
// Short URLs: a field without a value is left out.
main.addEventListener("formdata", ({ target, formData }) => {
  if (target.dataset.autosubmit === undefined) return;
  for (const [name, value] of [...formData]) if (!value) formData.delete(name);
});

const FIRST_RETRY = 2000;
const LAST_RETRY = 60000;
const eventsUrl = document.body.dataset.events;
let stream = null;
let pending = false;
let hasMissed = false;
const stale = byId("stale");
let retryDelay = FIRST_RETRY;

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
  pending = !(await refresh());
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
addEventListener("pageshow", (event) => {
  isSubmitted = false;
  if (event.persisted) { connect(); refreshSoon(); }
});
main.addEventListener("focusout", () => { if (pending) setTimeout(refreshSoon, 200); });

/* Palette: records, pages and actions by their names */

const searchBox = byId("q");
const palette = byId("palette");
const findBox = byId("find");
const found = byId("found");
let findRequest = null;
let whenFound = null;

function selectOption(field, option) {
  option.parentElement.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
  option.ariaSelected = "true";
  option.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", option.id);
}

/** Selects the next or previous option of a list, from the last one the first. */
function stepOption(field, list, step) {
  const options = [...list.children];
  const next = options.findIndex((option) => option.ariaSelected === "true") + step;
  if (options.length) selectOption(field, options.at(next < options.length ? Math.max(next, -1) : 0));
}

function showFound(html, message) {
  found.innerHTML = html;
  for (const option of found.children) option.ariaSelected = "false";
  findBox.removeAttribute("aria-activedescendant");
  if (found.firstElementChild) selectOption(findBox, found.firstElementChild);
  palette.querySelector("[role=status]").textContent = message ?? `${found.children.length} results`;
}

/** Shows the options for the text. The answer to an earlier text is dropped. */
async function find() {
  findRequest?.abort();
  findRequest = new AbortController();
  const { signal } = findRequest;
  try {
    const response = await fetch(`${palette.dataset.find}?${new URLSearchParams({ q: findBox.value })}`, { signal });
    if (isSignIn(response)) showFound("", "Your session has ended. Reload the page to sign in again.");
    else showFound(await response.text());
  } catch {
    if (!signal.aborted) showFound("", UNREACHABLE);
  }
}

function openPalette(text) {
  if (palette.open) return;
  findBox.value = text;
  searchBox.value = searchBox.defaultValue;
  palette.showModal();
  whenFound = find();
}

if (palette) {
  searchBox.addEventListener("click", () => {
    openPalette(searchBox.value);
    findBox.select();
  });
  searchBox.addEventListener("input", () => openPalette(searchBox.value));
  findBox.addEventListener("input", () => { whenFound = find(); });
  palette.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.isComposing || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    if (step) stepOption(findBox, found, step);
    // The options may still be those of an earlier text.
    else whenFound.then(() => found.querySelector("[aria-selected=true]")?.click());
  });
  found.addEventListener("click", () => palette.close());
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
  palette.addEventListener("close", () => { if (pending) refreshSoon(); });
}

/* Forms */

let isSubmitted = false;
addEventListener("submit", () => { isSubmitted = true; });

function hasUnsaved() {
  const texts = [...main.querySelectorAll("form[method=post]:has(textarea)")];
  return !isSubmitted && texts.some((form) => "unsaved" in form.dataset || hasChanges(form));
}

addEventListener("beforeunload", (event) => { if (hasUnsaved()) event.preventDefault(); });

/* Undo */

const NOTICE_TIME = 20000;
const MAX_CHANGES = 50;
const done = byId("done");
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
  done.className = `notice floating ${tone}`;
  done.hidden = false;
  hideDone();
  announce(message);
}

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
  const answer = await postForm(done.action, body);
  isUndoing = false;
  if (answer.ok === undefined) return showDone(answer.message, change, "Undo", "error");
  keepChanges(madeChanges().filter((other) => other !== change));
  if (isRedo && answer.ok) noteChange(answer.message, answer.change);
  else showDone(answer.message, answer.change ?? "", "Redo", answer.ok ? "success" : "error");
  await refresh();
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

function showError(message) {
  // Outside of the main column, which a live update replaces.
  const box = byId("problem");
  box.textContent = message;
  box.hidden = !message;
}

function moveOf(link) {
  return new URLSearchParams(link.closest(".card").querySelector(".round")?.search);
}

/** Moves a card to a column or a position, such as `before US-003`. */
async function moveCard(link, status, rank = "") {
  const board = link.closest("[data-board]");
  const isSame = link.closest(".column").dataset.status === status;
  if ((isSame && !rank) || board.querySelector(".card[aria-busy]")) return;
  const card = link.closest(".card");
  const version = moveOf(link).get("version");
  const body = new URLSearchParams({ csrf: board.dataset.csrf, item: link.id, version, status, rank });
  showError("");
  // The card is busy in its new place until the server has answered.
  const place = document.createComment("");
  card.replaceWith(place);
  card.classList.remove("moved");
  card.ariaBusy = "true";
  const [side, other] = rank.split(" ");
  if (side) byId(other).closest(".card")[side](card);
  else board.querySelector(`[data-status="${CSS.escape(status)}"] .cards`).prepend(card);
  const { message, change, notes } = await postForm(board.dataset.move, body);
  card.ariaBusy = null;
  if (message) {
    place.replaceWith(card);
    link.focus();
    showError(message);
    if (pending) refreshSoon();
    return;
  }
  const id = link.id;
  await refresh();
  const moved = byId(id);
  moved?.closest(".card").classList.add("moved");
  moved?.focus();
  noteChange(`${id} moved${isSame ? "" : ` to ${status}`}${notes && ` (${notes})`}.`, change);
}

const STEPS = { ArrowUp: ["Up", "above", "before"], ArrowDown: ["Down", "below", "after"] };

function stepOf(link, key) {
  const [label, name, side] = STEPS[key];
  const other = moveOf(link).get(name);
  return other && [label, () => moveCard(link, link.closest(".column").dataset.status, `${side} ${other}`)];
}

function openMoveMenu(link) {
  const board = link.closest("[data-board]");
  if (!board?.dataset.move) return;
  showError("");
  const menu = document.createElement("div");
  menu.id = "move-menu";
  menu.role = "menu";
  menu.ariaLabel = `Move ${link.id} to …`;
  const addChoice = (role, content, move) => {
    const choice = document.createElement("button");
    choice.type = "button";
    choice.role = role;
    choice.append(content);
    choice.addEventListener("click", () => {
      menu.hidePopover();
      move();
    });
    menu.append(choice);
    return choice;
  };
  for (const column of board.querySelectorAll(".column")) {
    const label = column.querySelector(".status").cloneNode(true);
    const choice = addChoice("menuitemradio", label, () => moveCard(link, column.dataset.status));
    const isCurrent = column.contains(link);
    choice.ariaChecked = isCurrent;
    if (isCurrent) choice.ariaCurrent = "true";
  }
  for (const key in STEPS) {
    const step = stepOf(link, key);
    if (step) addChoice("menuitem", ...step);
  }
  showMenu(menu, link.closest(".card").querySelector(".round"));
  (menu.querySelector("[aria-checked=false]") ?? menu.firstChild)?.focus();
}

/** The card or node nearest to another in the direction of an arrow key, if there is one. */
function nearest(from, key) {
  const axis = /Left|Right/.test(key) ? "x" : "y";
  const sign = /Left|Up/.test(key) ? -1 : 1;
  const start = from.getBoundingClientRect();
  let [next, least] = [null, Infinity];
  for (const link of main.querySelectorAll(".card > a:first-child, #picture a")) {
    const end = link.getBoundingClientRect();
    const along = sign * (end[axis] - start[axis]);
    const length = 2 * Math.abs(end.x - start.x) + 2 * Math.abs(end.y - start.y) - along;
    if (along > 1 && length < least) [next, least] = [link, length];
  }
  return next;
}

let dragged = null;
let position = [];

main.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.(".card")?.querySelector("a") ?? null;
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.id);
  dragged.closest(".card").classList.add("dragged");
});
function clearTargets() {
  for (const part of main.querySelectorAll(".target, .before, .after")) part.classList.remove("target", "before", "after");
}

/** The card next to a drop, and its side; none below the cards. */
function dropPosition({ target, clientY }) {
  const card = target.closest(".card");
  if (!card) return target.closest(".cards") ? position : [];
  const { top, height } = card.getBoundingClientRect();
  return card.contains(dragged) ? [] : [card, clientY < top + height / 2 ? "before" : "after"];
}

main.addEventListener("dragover", (event) => {
  clearTargets();
  const column = dragged && event.target.closest?.(".column");
  if (!column) return;
  event.preventDefault();
  column.classList.add("target");
  position = dropPosition(event);
  position[0]?.classList.add(position[1]);
});
main.addEventListener("drop", (event) => {
  const column = dragged && event.target.closest?.(".column");
  if (!column) return;
  event.preventDefault();
  const [card, side] = position;
  dragged.closest(".card").classList.remove("dragged");
  moveCard(dragged, column.dataset.status, card && `${side} ${card.querySelector("a").id}`);
});
main.addEventListener("dragend", () => {
  clearTargets();
  main.querySelector(".dragged")?.classList.remove("dragged");
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
    const source = byId(copier.dataset.copy);
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
  await refresh();
  noteChange(notice ?? `${body.get("item")} is ${body.get("status")}.`, change);
});

/* Pickers: suggestions for fields that name items, users or tags */

const pickUrl = document.body.dataset.pick;
const picks = document.createElement("ul");
picks.id = "picks";
picks.className = "menu picks";
picks.popover = "manual";
picks.role = "listbox";
picks.ariaLabel = "Suggestions";
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

async function openPicks(field) {
  const number = ++pickNumber;
  const range = pickRange(field);
  const query = new URLSearchParams({ kind: field.dataset.pick, q: field.value.slice(...range).trim() });
  const response = await fetch(`${pickUrl}?${query}`).catch(() => null);
  const html = response?.ok && !response.redirected ? await response.text() : "";
  if (number !== pickNumber || document.activeElement !== field) return;
  closePicks();
  picks.innerHTML = html;
  if (!picks.firstChild) return;
  picking = field;
  setPick(field, "aria-expanded", "true");
  setPick(field, "aria-controls", "picks");
  // Within the same landmark.
  field.after(picks);
  picks.showPopover();
  placeMenu(picks, field);
  announce(`Suggestions: ${picks.children.length}`);
}

function choosePick(option) {
  const field = picking;
  const [start, end] = pickRange(field);
  const isList = field.dataset.pickList !== undefined;
  const space = isList && start > 0 && field.value[start - 1] !== "\n" ? " " : "";
  const value = isList || field.dataset.pick !== "tag" ? option.dataset.value : option.firstChild.textContent;
  field.setRangeText(space + value, start, end, "end");
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
    stepOption(field, picks, step);
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
  const page = parse(await loadHtml(url));
  // A live update may have replaced it.
  opener = byId(opener.id) ?? opener;
  opener.ariaBusy = null;
  const form = page.querySelector(".field-form");
  showError(form ? "" : problem || page.querySelector("main p")?.textContent || UNREACHABLE);
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
  if (change) await refresh();
  else opener.replaceChildren(...shown);
  opener.ariaBusy = null;
  const now = byId(opener.id) ?? main;
  if (message) return openField(now, url, message, typed);
  if (document.activeElement === document.body) now.focus();
  (change ? noteChange : showDone)(notice, change);
}

const ROW = ".card, .list tbody tr, .tree .row";
let lastSelected = "";

function shownParts(selector) {
  return [...main.querySelectorAll(selector)].filter((part) => part.checkVisibility());
}

function selectItems(boxes, isSelected) {
  for (const box of boxes) box.checked = isSelected;
  const count = main.querySelectorAll(".select:checked").length;
  document.body.classList.toggle("selecting", count);
  const all = byId("select-all");
  if (!all) return;
  all.checked = shownParts(".select").every((box) => box.checked);
  const text = `${count} selected`;
  byId("selected").textContent = text;
  if (boxes.length) announce(text);
}

/** Selects an item, or a range from the last one to it. */
function selectTo(box, isRange) {
  const boxes = shownParts(".select");
  const last = (isRange && byId(lastSelected)) || box;
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

const shortcutSwitch = byId("shortcut-switch");
const SHORTCUTS_OFF = "reqlore-no-shortcuts";

function hasShortcuts() {
  // A browser may forbid storage.
  try { return !localStorage.getItem(SHORTCUTS_OFF); } catch { return true; }
}

if (shortcutSwitch) {
  byId("shortcut-choice").hidden = false;
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
  if (palette && event.key === "k" && (event.ctrlKey || event.metaKey) && event.target.tagName !== "TEXTAREA") {
    event.preventDefault();
    openPalette("");
    return;
  }
  const card = event.target.closest(".card")?.querySelector("a");
  if (event.altKey && card && event.key in STEPS) {
    event.preventDefault();
    stepOf(card, event.key)?.[1]();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input:not([id^=select-]), textarea, select, [popover]")) return;
  if (event.key.length === 1 && !hasShortcuts()) return;
  const row = event.target.closest(ROW);
  const box = row?.querySelector(".select");
  if (event.key === "/" && palette) {
    openPalette("");
  } else if (event.key === "?") {
    byId("shortcuts")?.togglePopover();
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
    const from = card ?? event.target.closest("#picture a") ?? event.target.querySelector("#picture > svg a:has(.focus)");
    const next = from ? nearest(from, event.key) : event.target.contains(main) && main.querySelector(".card > a");
    if (!next) return;
    next.focus();
  } else {
    return;
  }
  event.preventDefault();
});

function preparePicks(part) {
  for (const field of pickUrl ? part.querySelectorAll("[data-pick]") : []) {
    if (field.tagName === "INPUT") field.role = "combobox";
    setPick(field, "aria-autocomplete", "list");
    setPick(field, "aria-expanded", "false");
    field.autocomplete = "off";
  }
}

/** Prepares parts of a main column that scripts enhance. */
function prepare(part) {
  for (const card of part.querySelectorAll("[data-move] .card")) {
    card.draggable = true;
    for (const link of card.querySelectorAll("a")) link.draggable = false;
  }
  for (const button of part.querySelectorAll("[data-copy]")) button.hidden = false;
  preparePicks(part);
}

prepare(main);
selectItems([]);
connect();
