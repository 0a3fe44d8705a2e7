// Fields edited in place and several items changed at once, by mouse, by keyboard and without scripts.

import { deepStrictEqual as same, match, ok } from 'node:assert';

import { Stage, untilSame } from './browser.mjs';
import { HOSTILE, shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const TABLE = '/p/default/table?kind=requirement';
const BOARD = '/p/default/board?kind=requirement';
const REFUSED = /status of 4(00|09)/;
const SCHEMA = `[fields.risk]
kinds = ["requirement"]
type = "choice"
values = ["Low", "High"]
column = true
`;
let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  await server.call('set_record_schema', { text: SCHEMA });
  items = await shop((name, args) => server.call(name, args));
  return server;
});
const call = (...words) => stage.server.call(...words);
const itemOf = async (reference) => (await call('get_item', { reference })).item;
const field = (page, reference, name) => page.locator(`[id="${reference}-${name}"]`);
const menu = (page) => page.locator('.field-form');
const focused = (page) => page.evaluate(() => document.activeElement.id);
const notice = (page, text) => page.locator('#done').getByText(text).waitFor();

async function newRequirement(title, fields = {}) {
  return (await call('create_requirement', {
    user_story: items.story, title, type: 'Functional', priority: 3, ...fields,
  })).reference_id;
}

for (const [name, pathOf] of [['table', () => TABLE], ['board', () => BOARD],
  ['tree', () => '/p/default/tree'], ['item', (reference) => `/p/default/item/${reference}`]]) {
  stage.test(`field_is_changed_in_place_on_the_${name}`, { user: 'ben' }, async (window) => {
    const { page } = window;
    const reference = await newRequirement(`Edited on the ${name}`);
    await window.visit(pathOf(reference));
    const closed = page.locator('.tree details:not([open]) > summary');
    while (await closed.count()) await closed.first().click();
    const [key, value, words] = name === 'board' ? ['priority', 4, 'Low'] : ['status', 'Active', 'Active'];
    await field(page, reference, key).click();
    await menu(page).waitFor();
    same(await window.violations(), []);
    await menu(page).getByRole('button', { name: words }).click();
    await notice(page, `${reference} was saved.`);
    same((await itemOf(reference))[key], value);
    match(await field(page, reference, key).innerText(), new RegExp(words));
    await untilSame(() => focused(page), `${reference}-${key}`);
    match(await page.locator('#live').innerText(), new RegExp(reference));
    same(await window.layoutShifts(), []);
  });
}

stage.test('field_is_changed_with_the_keyboard_only', { user: 'ben' }, async (window) => {
  const { page } = window;
  const keys = page.keyboard;
  const reference = await newRequirement('Edited by keyboard');
  await window.visit(TABLE);
  await field(page, reference, 'assignee').focus();
  await keys.press('Enter');
  await page.getByRole('combobox', { name: 'Assignee', exact: true }).waitFor();
  await keys.type('be');
  await page.getByRole('option', { name: 'ben' }).waitFor();
  await keys.press('ArrowDown');
  await keys.press('Enter');
  await notice(page, `${reference} was saved.`);
  same((await itemOf(reference)).assignee_username, 'ben');
  await untilSame(() => focused(page), `${reference}-assignee`);
  // Escape changes nothing, and a choice needs Enter.
  await field(page, reference, 'fields.risk').focus();
  await keys.press('Enter');
  await menu(page).getByRole('button', { name: 'High' }).waitFor();
  await keys.press('Escape');
  await menu(page).waitFor({ state: 'detached' });
  await untilSame(() => focused(page), `${reference}-fields.risk`);
  await keys.press('Enter');
  await menu(page).waitFor();
  await keys.press('ArrowDown');
  await keys.press('Enter');
  await notice(page, `${reference} was saved.`);
  await untilSame(async () => (await itemOf(reference)).fields?.risk, 'High');
  // The same control of the next row.
  await keys.press('ArrowUp');
  match(await focused(page), /-fields\.risk$/);
  ok(await focused(page) !== `${reference}-fields.risk`);
});

stage.test('field_with_an_error_keeps_the_typed_text',
  { user: 'ben', expected: REFUSED }, async (window) => {
    const { page } = window;
    const reference = await newRequirement('With an error', { tags: ['<b>old</b>'] });
    await window.visit(`/p/default/item/${reference}`);
    await field(page, reference, 'assignee').click();
    await page.getByRole('combobox', { name: 'Assignee', exact: true }).fill(HOSTILE);
    await page.keyboard.press('Enter');
    match(await menu(page).getByRole('alert').innerText(), /is not a user of this server/);
    same(await page.getByRole('combobox', { name: 'Assignee', exact: true }).inputValue(), HOSTILE);
    same(await field(page, reference, 'assignee').innerText(), 'Unassigned');
    await page.keyboard.press('Escape');
    // Another user is faster.
    await field(page, reference, 'tags').click();
    await page.getByRole('combobox', { name: 'Tags' }).fill('mine');
    await call('update_requirement', { requirement: reference, title: 'Changed in the meantime' });
    await page.keyboard.press('Enter');
    match(await menu(page).getByRole('alert').innerText(), /changed while you edited it. Nothing was saved/);
    same((await itemOf(reference)).tags, ['<b>old</b>']);
    same(await page.getByRole('combobox', { name: 'Tags' }).inputValue(), 'mine');
    await page.keyboard.press('Enter');
    await notice(page, `${reference} was saved.`);
    same((await itemOf(reference)).tags, ['mine']);
  });

stage.test('selected_items_are_changed_and_restored_by_one_key',
  { user: 'ben', expected: REFUSED }, async (window) => {
    const { page } = window;
    const keys = page.keyboard;
    const references = [];
    for (const title of ['Bulk 1', 'Bulk 2', 'Bulk 3']) references.push(await newRequirement(title));
    await window.visit(`${TABLE}&q=bulk`);
    const box = (reference) => page.locator(`#select-${reference}`);
    await field(page, references[0], 'status').focus();
    await keys.press('x');
    await keys.press('ArrowDown');
    await keys.press('ArrowDown');
    await keys.press('Shift+X');
    const bar = page.getByRole('form', { name: 'Change the selected items' });
    match(await bar.innerText(), /3 selected/);
    ok(await page.locator('#select-all').isChecked());
    same(await window.violations(), []);
    // A live update keeps the selection.
    await call('update_requirement', { requirement: references[0], title: 'Bulk 1 renamed' });
    await page.getByText('Bulk 1 renamed').waitFor();
    for (const reference of references) ok(await box(reference).isChecked());
    const statuses = async () => {
      const found = await Promise.all(references.map(itemOf));
      return found.map(({ status }) => status).join();
    };
    await bar.getByRole('button', { name: 'Status' }).focus();
    await keys.press('Enter');
    await menu(page).getByRole('button', { name: 'Active' }).waitFor();
    same(await window.violations(), []);
    await menu(page).getByRole('button', { name: 'Active' }).focus();
    await keys.press('Enter');
    await notice(page, '3 items were saved.');
    same(await statuses(), 'Active,Active,Active');
    await page.locator('h1').click();
    await keys.press('z');
    await notice(page, 'was undone');
    same(await statuses(), 'Draft,Draft,Draft');
    // All or nothing, and the error names the item.
    await bar.getByRole('button', { name: 'Assignee' }).click();
    await page.getByRole('combobox', { name: 'Assignee', exact: true }).fill('nobody');
    await keys.press('Enter');
    match(await menu(page).getByRole('alert').innerText(), new RegExp(references[2]));
    await keys.press('Escape');
    await bar.getByRole('button', { name: 'Add tags' }).click();
    await page.getByRole('combobox', { name: 'Add tags' }).fill('later');
    await keys.press('Enter');
    await notice(page, '3 items were saved.');
    same((await itemOf(references[1])).tags, ['later']);
    await page.locator('h1').click();
    await keys.press('Escape');
    same(await page.locator('.select:checked').count(), 0);
    await bar.waitFor({ state: 'hidden' });
    // A range by mouse, and all.
    await box(references[0]).click();
    await box(references[2]).click({ modifiers: ['Shift'] });
    same(await page.locator('.select:checked').count(), 3);
    await page.locator('#select-all').click();
    same(await page.locator('.select:checked').count(), 0);
    await page.locator('#select-all').click();
    await bar.getByRole('button', { name: 'Delete' }).click();
    await menu(page).getByRole('button', { name: 'Delete 3 items' }).click();
    await notice(page, '3 items were deleted.');
    same(await page.locator('tbody tr').count(), 0);
  });

stage.test('fields_and_selected_items_are_changed_without_scripts',
  { user: 'ben', javaScriptEnabled: false }, async (window) => {
    const { page } = window;
    const references = [await newRequirement('Plain 1'), await newRequirement('Plain 2')];
    await window.visit(`${TABLE}&q=plain`);
    await field(page, references[0], 'status').click();
    await page.getByRole('button', { name: 'Active' }).click();
    await notice(page, `${references[0]} was saved.`);
    same((await itemOf(references[0])).status, 'Active');
    await window.visit(`${TABLE}&q=plain`);
    for (const reference of references) await page.locator(`#select-${reference}`).check();
    await page.getByRole('button', { name: 'Priority' }).click();
    await page.getByRole('button', { name: 'Low' }).click();
    await notice(page, '2 items were saved.');
    match(page.url(), /table\?kind=requirement&q=plain/);
    same((await itemOf(references[1])).priority, 4);
  });

stage.test('fields_on_a_phone_stay_in_the_window',
  { user: 'ben', viewport: { width: 390, height: 700 } }, async (window) => {
    const { page } = window;
    const reference = await newRequirement('On a phone', { tags: ['phone'] });
    for (const [path, name] of [[BOARD, 'priority'], [TABLE, 'tags'], [`/p/default/item/${reference}`, 'status']]) {
      await window.visit(path);
      if (path !== `/p/default/item/${reference}`) await page.locator('#select-all').check();
      await field(page, reference, name).click();
      await menu(page).waitFor();
      const { x, y, width, height } = await menu(page).boundingBox();
      ok(x >= 0 && y >= 0 && x + width <= 390 && y + height <= 700, `${path}: ${x} ${y} ${width} ${height}`);
      same(await window.violations(), []);
      ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390), path);
    }
  });

stage.test('lists_for_a_commenter_have_no_editors', { user: 'cleo' }, async (window) => {
  const { page } = window;
  for (const path of [TABLE, BOARD, '/p/default/tree', `/p/default/item/${items.requirement}`]) {
    await window.visit(path);
    same(await page.locator('.edit, .select, #select-all, #bulk').count(), 0);
  }
});
