// Board, table, tree and search: what users do on them, by mouse, by keyboard and without scripts.

import { deepStrictEqual as same, match, ok } from 'node:assert';

import { arrive, Stage, untilSame } from './browser.mjs';
import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const BOARD = '/p/default/board?kind=requirement';
const CONFLICT = /status of 409|ERR_FAILED/;
const FORBIDDEN = /status of 403/;
const BAD_GATEWAY = /status of 502/;
let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  items = await shop((name, args) => server.call(name, args));
  return server;
});
const call = (...words) => stage.server.call(...words);
const card = (page, reference) => page.locator('.card').filter({ hasText: reference });
const column = (page, status) => page.locator(`.column[data-status="${status}"]`);
const itemOf = async (reference) => (await call('get_item', { reference })).item;
const statusOf = async (reference) => (await itemOf(reference)).status;
const setStatus = (status) => call('update_requirement', { requirement: items.requirement, status });

/** A requirement of its own for a test that changes it. */
async function newRequirement(title) {
  return (await call('create_requirement', {
    user_story: items.story, title, type: 'Functional', priority: 3,
  })).reference_id;
}

stage.test('board_moves_a_card_by_mouse', { user: 'ben' }, async (window) => {
  const { page } = window;
  const reference = await newRequirement('Moved by mouse');
  await window.visit(BOARD);
  await card(page, reference).dragTo(column(page, 'Active'));
  // The card is painted at once; the message comes with the answer.
  await page.locator('#live').getByText(`${reference} moved to Active`).waitFor();
  await column(page, 'Active').getByText(reference).waitFor();
  same(await statusOf(reference), 'Active');
  same(await column(page, 'Active').locator('.count').innerText(), '2');
});

stage.test('board_moves_a_card_by_keyboard', { user: 'ben' }, async (window) => {
  const { page } = window;
  const reference = await newRequirement('Moved by keyboard');
  await window.visit(BOARD);
  await page.keyboard.press('ArrowDown');
  const focused = () => page.evaluate(() => document.activeElement.id);
  for (let step = 0; step < 10 && (await focused()) !== reference; step += 1) {
    await page.keyboard.press('ArrowDown');
  }
  same(await focused(), reference);
  await page.keyboard.press('m');
  await page.getByRole('menuitemradio', { name: 'Draft', checked: true }).waitFor();
  await page.keyboard.press('Escape');
  await untilSame(focused, reference);
  await page.locator('#move-menu').waitFor({ state: 'detached' });
  await page.keyboard.press('m');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await column(page, 'Obsolete').getByText(reference).waitFor();
  await untilSame(focused, reference);
  await untilSame(() => statusOf(reference), 'Obsolete');
});

stage.test('board_moves_a_card_without_scripts',
  { user: 'ben', javaScriptEnabled: false }, async (window) => {
    const { page } = window;
    const reference = await newRequirement('Moved without scripts');
    await window.visit(BOARD);
    await card(page, reference).getByRole('link', { name: `Move ${reference} to …` }).click();
    await page.getByRole('button', { name: 'Active' }).click();
    await column(page, 'Active').getByText(reference).waitFor();
    match(await page.getByRole('status').first().innerText(), new RegExp(reference));
    same(await statusOf(reference), 'Active');
  });

/** Stories with these priorities and an own tag, and the address of their board. */
async function ranked(tag, priorities) {
  const stories = [];
  for (const priority of priorities) {
    const story = { epic: items.epic, title: `Priority ${priority}`, priority, tags: [tag] };
    stories.push((await call('create_user_story', story)).reference_id);
  }
  return [`/p/default/board?kind=user_story&tag=${tag}`, ...stories];
}

const orderOf = (page) => page.locator('.card > a:first-child').evaluateAll((links) =>
  links.map((link) => link.id).join(' '));
const priorityOf = async (reference) => (await itemOf(reference)).priority;

stage.test('board_orders_cards_by_mouse', { user: 'ben' }, async (window) => {
  const { page } = window;
  const [board, high, first, second, third, low] = await ranked('mouse', [2, 3, 3, 3, 4]);
  await window.visit(board);
  const order = () => orderOf(page);
  const drop = async (reference, other, y) => {
    const target = { targetPosition: { x: 40, y } };
    await card(page, reference).dragTo(card(page, other), target);
  };
  same(await order(), [high, first, second, third, low].join(' '));
  await drop(third, first, 4);
  await untilSame(order, [high, third, first, second, low].join(' '));
  await page.locator('#done').getByText(`${third} moved.`).waitFor();
  same(await priorityOf(third), 3);
  // To the lower half of a card of another priority.
  await drop(first, low, 60);
  await untilSame(order, [high, third, second, low, first].join(' '));
  await page.locator('#done').getByText('priority is now 4').waitFor();
  same(await priorityOf(first), 4);
  await page.locator('h1').click();
  await page.keyboard.press('z');
  await untilSame(order, [high, third, first, second, low].join(' '));
  await untilSame(() => priorityOf(first), 3);
});

stage.test('board_orders_cards_by_keyboard', { user: 'ben' }, async (window) => {
  const { page } = window;
  const [board, first, second, low] = await ranked('keyboard', [3, 3, 4]);
  await window.visit(board);
  const order = () => orderOf(page);
  const focused = () => page.evaluate(() => document.activeElement.id);
  await page.locator(`#${second}`).focus();
  await page.keyboard.press('Alt+ArrowUp');
  await untilSame(order, [second, first, low].join(' '));
  await untilSame(focused, second);
  // The first card has no card above it.
  await page.keyboard.press('Alt+ArrowUp');
  await page.keyboard.press('Alt+ArrowDown');
  await untilSame(order, [first, second, low].join(' '));
  await untilSame(focused, second);
  await page.keyboard.press('m');
  await page.getByRole('menuitem', { name: 'Down' }).click();
  await untilSame(order, [first, low, second].join(' '));
  await untilSame(() => priorityOf(second), 4);
});

stage.test('board_orders_cards_without_scripts',
  { user: 'ben', javaScriptEnabled: false }, async (window) => {
    const { page } = window;
    const [board, first, second, low] = await ranked('plain', [3, 3, 4]);
    await window.visit(board);
    await card(page, low).getByRole('link', { name: `Move ${low} to …` }).click();
    same(await page.getByRole('button', { name: 'Down' }).count(), 0);
    await page.getByRole('button', { name: 'Up' }).click();
    match(await page.getByRole('status').first().innerText(), /priority is now 3/);
    await window.visit(board);
    same(await orderOf(page), [first, low, second].join(' '));
  });

stage.test('board_refuses_the_position_of_an_older_state',
  { user: 'ben', expected: CONFLICT }, async (window) => {
    const { page } = window;
    const [board, first, second] = await ranked('older', [3, 3]);
    await page.route('**/events', (route) => route.abort());
    await window.visit(board);
    await call('update_user_story', { user_story: second, title: 'Changed in the meantime' });
    await page.locator(`#${second}`).focus();
    await page.keyboard.press('Alt+ArrowUp');
    await page.getByRole('alert').filter({ hasText: /meantime/ }).waitFor();
    same(await orderOf(page), [first, second].join(' '));
  });

stage.test('board_takes_back_the_last_changes_by_key',
  { user: 'ben', expected: CONFLICT }, async (window) => {
    const { page } = window;
    const [first, second] = [await newRequirement('Undone last'), await newRequirement('Undone')];
    await window.visit(BOARD);
    for (const [reference, status] of [[first, 'Active'], [second, 'Active'], [second, 'Obsolete']]) {
      await card(page, reference).dragTo(column(page, status));
      await page.locator('#done').getByText(`${reference} moved to ${status}`).waitFor();
    }
    const notice = page.locator('#done').getByText('was undone');
    const undo = async (reference, status) => {
      await page.locator('h1').click();
      await page.keyboard.press('z');
      await column(page, status).getByText(reference).waitFor();
      await notice.getByText(reference).waitFor();
      same(await statusOf(reference), status);
    };
    await undo(second, 'Active');
    // On another page of the tab, but not in a field.
    await page.reload();
    await page.locator('#filter-text').press('z');
    await page.locator('#filter-text').fill('');
    await undo(second, 'Draft');
    // Another user has changed the other item.
    await call('update_requirement', { requirement: first, title: 'Changed by the agent' });
    await page.locator('h1').click();
    await page.keyboard.press('z');
    const refused = page.locator('#done.error').getByText(`Not undone: ${first} was changed later`);
    match(await refused.innerText(), /update_requirement/);
    same(await statusOf(first), 'Active');
    await page.keyboard.press('z');
    await page.locator('#done').getByText('no change to undo').waitFor();
  });

stage.test('board_of_an_older_state_reports_the_conflict',
  { user: 'ben', expected: CONFLICT }, async (window) => {
    const { page } = window;
    const reference = await newRequirement('Changed twice');
    // The tab does not hear of the change.
    await page.route('**/events', (route) => route.abort());
    await window.visit(BOARD);
    await call('update_requirement', { requirement: reference, title: 'Changed in the meantime' });
    await card(page, reference).dragTo(column(page, 'Active'));
    await page.getByRole('alert').filter({ hasText: /./ }).waitFor();
    same(await statusOf(reference), 'Draft');
  });

stage.test('board_is_read_only_for_a_commenter',
  { user: 'cleo', expected: FORBIDDEN }, async (window) => {
    const { page, server } = window;
    await window.visit(BOARD);
    same(await page.getByRole('link', { name: /^Move/ }).count(), 0);
    same(await page.locator('[draggable=true]').count(), 0);
    await page.locator('.card a').first().focus();
    await page.keyboard.press('m');
    same(await page.locator('#move-menu').count(), 0);
    const csrf = await page.locator('input[name=csrf]').first().inputValue();
    const { version } = await itemOf(items.requirement);
    const form = { csrf, item: items.requirement, version, status: 'Active' };
    const answer = await page.request.post('/p/default/move', {
      form, headers: { Origin: server.origin }, maxRedirects: 0,
    });
    same(answer.status(), 403);
    same(await statusOf(items.requirement), 'Draft');
  });

stage.test('change_of_another_user_appears_without_a_reload', { user: 'ben' }, async (window) => {
  const { page } = window;
  const listens = page.waitForResponse(/\/events$/);
  await window.visit(BOARD);
  await listens;
  await page.evaluate(() => { window.isSamePage = true; });
  await setStatus('Active');
  await column(page, 'Active').getByText(items.requirement).waitFor();
  await setStatus('Draft');
  await column(page, 'Draft').getByText(items.requirement).waitFor();
  ok(await page.evaluate(() => window.isSamePage));
});

stage.test('page_connects_again_after_an_error_of_the_proxy',
  { user: 'ben', expected: BAD_GATEWAY }, async (window) => {
    const { page } = window;
    await page.route('**/events', (route) => route.fulfill({ status: 502 }), { times: 1 });
    const listens = page.waitForResponse((response) =>
      response.url().endsWith('/events') && response.ok());
    await window.visit(BOARD);
    await setStatus('Active');
    await listens;
    await column(page, 'Active').getByText(items.requirement).waitFor();
    await setStatus('Draft');
    await column(page, 'Draft').getByText(items.requirement).waitFor();
  });

stage.test('filters_are_part_of_the_address', { user: 'ann' }, async (window) => {
  const { page } = window;
  await window.visit('/p/default/table?kind=epic');
  await page.getByLabel('Title or ID').fill('check');
  await page.getByRole('button', { name: 'Filter' }).click();
  await arrive(page, /q=check/);
  same(await page.locator('tbody tr').count(), 1);
  await page.reload();
  same(await page.getByLabel('Title or ID').inputValue(), 'check');
  await page.getByRole('link', { name: 'Clear' }).click();
  await arrive(page, (url) => !url.search.includes('q='));
  same(await page.locator('tbody tr').count(), 2);
});

stage.test('search_without_scripts_finds_the_same',
  { user: 'ann', javaScriptEnabled: false }, async (window) => {
    const { page } = window;
    await window.visit(BOARD);
    await page.getByRole('searchbox').fill('guest');
    await page.keyboard.press('Enter');
    await arrive(page, /search\?q=guest/);
    await page.getByRole('main').getByRole('link', { name: items.story }).waitFor();
  });
