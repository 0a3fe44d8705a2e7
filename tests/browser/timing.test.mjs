// Time from an event to the frame that shows its result as the server confirmed it. Times are
// printed, not asserted. TIMING_EVENTS is the number of events of each action.

import { deepStrictEqual as same, match } from 'node:assert';

import { Stage } from './browser.mjs';
import { Server } from './server.mjs';

const EVENTS = Number(process.env.TIMING_EVENTS ?? 20);
/** Events of each action before the measurement. */
const WARM_UP = 3;
const REQUIREMENTS = 1_000;
const STORIES = 40;
/** The most changes of one call. */
const BATCH = 100;
const CARDS = ['Draft', 'Active'];
/** Statuses with the classes that show them. */
const TONES = [[CARDS[0], 'draft'], [CARDS[1], 'done']];
const BOARD = '/p/default/board?kind=requirement';
const TABLE = '/p/default/table?kind=requirement';
const CONFLICT = /status of 409/;

const stage = new Stage(async () => {
  const server = await Server.team();
  const call = (name, args) => server.call(name, args);
  const epic = (await call('create_epic', { title: 'Epic', priority: 2 })).reference_id;
  const stories = Array.from({ length: STORIES }, (_, index) => (
    { create: 'user_story', epic, title: `Story ${1 + index}`, priority: 2 }));
  await call('apply_changes', { changes: stories });
  for (let first = 1; first <= REQUIREMENTS; first += BATCH) {
    const changes = Array.from({ length: BATCH }, (_, index) => ({
      create: 'requirement', user_story: `US-${String(1 + (index % STORIES)).padStart(3, '0')}`,
      title: `Requirement ${first + index}`,
      type: 'Functional', priority: 1 + (Math.floor(index / 2) % 4), status: CARDS[index % 2],
      description: 'Answers in time.',
    }));
    await call('apply_changes', { changes });
  }
  return server;
});

/** The card that moved last. */
let moved = null;

/** Opens the menu of the first card of a column. Returns the card, and the column to choose. */
async function openMenu(page, number) {
  // The board is shown again after each move.
  if (moved) await page.locator(`.card.moved > #${moved}`).waitFor();
  const [from, to] = number % 2 ? CARDS : [...CARDS].reverse();
  const card = page.locator(`.column[data-status="${from}"] .card > a`).first();
  const id = await card.getAttribute('id');
  await card.press('m');
  await page.getByRole('menuitemradio', { name: to }).focus();
  return { id, to };
}

/**
 * Each action begins on a page. `prepare` returns the event that starts the time, the selector of
 * the result, and the function that causes the event.
 */
const ACTIONS = {
  'move a card': {
    page: BOARD,
    async prepare(page, number) {
      const { id, to } = await openMenu(page, number);
      moved = id;
      // The column may be longer than the page shows, so the card may be out of view.
      const other = `.column:not([data-status="${to}"]) #${id}`;
      const result = `.board:not(:has(.card[aria-busy])):not(:has(${other}))`;
      return { event: 'keydown', result, act: () => page.keyboard.press('Enter') };
    },
  },
  filter: {
    page: TABLE,
    async prepare(page, number) {
      const select = page.locator('main select[name=priority]');
      const value = String(1 + (number % 4));
      const result = `main:has(select[name=priority] option[value="${value}"][selected]) tbody tr`;
      return { event: 'change', result, act: () => select.selectOption(value) };
    },
  },
  'change a status in place': {
    page: TABLE,
    async prepare(page, number) {
      const value = page.locator('tbody .edit[id$="-status"]').nth(number % 25);
      const id = await value.getAttribute('id');
      const [status, tone] = (await value.locator('.done').count()) ? TONES[0] : TONES[1];
      await value.press('Enter');
      await page.locator(`.field-form [value="${status}"]`).focus();
      const result = `#${id}:not([aria-busy]) .${tone}`;
      return { event: 'keydown', result, act: () => page.keyboard.press('Enter') };
    },
  },
  palette: {
    page: TABLE,
    async prepare(page, number) {
      if (!(await page.locator('#palette[open]').count())) await page.keyboard.press('/');
      // Not among the results of the text before.
      const id = `REQ-${100 + ((number * 37) % 800)}`;
      const act = () => page.locator('#find').fill(id);
      return { event: 'input', result: `#found [href$="/item/${id}"]`, act };
    },
  },
  'open an item': {
    page: TABLE,
    async prepare(page, number) {
      if (page.url().includes('/item/')) await page.goBack();
      const link = page.locator('tbody a[href*="/item/"]').nth(number % 50);
      await link.focus();
      const id = (await link.getAttribute('href')).split('/').pop();
      const result = `main a[href$="/${id}/edit"]`;
      return { event: 'keydown', result, act: () => page.keyboard.press('Enter') };
    },
  },
};

/** Runs in each page: waits for the event and then, perhaps on the next page, for its result. */
function watch() {
  const clock = (time) => performance.timeOrigin + time;
  const find = () => {
    const { start, result } = JSON.parse(sessionStorage.getItem('timing') ?? '{}');
    if (!start || !document.querySelector(result)) return;
    sessionStorage.removeItem('timing');
    requestAnimationFrame(() => {
      // A message is handled after the frame.
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => sessionStorage.setItem('elapsed', clock(performance.now()) - start);
      port2.postMessage(null);
    });
  };
  const all = { subtree: true, childList: true, attributes: true };
  new MutationObserver(find).observe(document, all);
  window.startTiming = (type, result) => {
    sessionStorage.removeItem('elapsed');
    const start = ({ timeStamp }) =>
      sessionStorage.setItem('timing', JSON.stringify({ start: clock(timeStamp), result }));
    addEventListener(type, start, { capture: true, once: true });
  };
}

for (const [name, { page: path, prepare }] of Object.entries(ACTIONS)) {
  stage.test(`timing_of: ${name}`, { user: 'ann' }, async (window, context) => {
    const { page } = window;
    await page.addInitScript(watch);
    await page.goto(path);
    const times = [];
    for (let number = 0; number < WARM_UP + EVENTS; number += 1) {
      const { event, result, act } = await prepare(page, number);
      await page.evaluate((words) => window.startTiming(...words), [event, result]);
      await act();
      const elapsed = await page.waitForFunction(() => sessionStorage.getItem('elapsed'));
      times.push(Number(await elapsed.jsonValue()));
    }
    const sorted = times.slice(WARM_UP).sort((a, b) => a - b);
    const rank = (percent) => sorted[Math.ceil((sorted.length * percent) / 100) - 1].toFixed(1);
    context.diagnostic(`${name}: ${EVENTS} events, p50 ${rank(50)} ms, p99 ${rank(99)} ms`);
  });
}

const refused = { user: 'ann', expected: CONFLICT };
stage.test('refused_move_puts_the_card_back', refused, async (window) => {
  const { page } = window;
  await window.visit(BOARD);
  moved = null;
  const { id, to } = await openMenu(page, 1);
  const column = page.locator('.column').filter({ has: page.locator(`#${id}`) });
  await page.route('**/move', async (route) => {
    // The answer comes after the mark.
    await page.locator(`.column[data-status="${to}"] .card[aria-busy] > #${id}`).waitFor();
    await route.fulfill({ status: 409, json: { message: 'Not moved' } });
  });
  await page.keyboard.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'Not moved' }).waitFor();
  same(await column.getAttribute('data-status'), CARDS[0]);
  same(await page.locator('[aria-busy]').count(), 0);
  match(await page.evaluate(() => document.activeElement.id), new RegExp(id));
});
