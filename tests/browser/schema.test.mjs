// Fields and statuses of a project, from the page that defines them to the board that uses them.

import { deepStrictEqual as same, match } from 'node:assert';

import { arrive, Stage } from './browser.mjs';
import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const PAGE = '/p/default/schema';
let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  items = await shop((name, args) => server.call(name, args));
  return server;
});

stage.test('fields_and_statuses_are_added_filled_and_filtered',
  { user: 'ann', javaScriptEnabled: false }, async (window) => {
    const { page, server } = window;
    await window.visit('/p/default/board');
    await page.getByRole('link', { name: 'Fields and statuses' }).click();
    await page.getByText('Add a field').click();
    const field = page.locator('#add-field');
    await field.getByLabel('Name').fill('risk');
    await field.getByLabel('Type').selectOption('choice');
    await field.getByLabel('Values').fill('Low, Medium, High');
    for (const option of ['User story', 'Column of the table', 'Card of the board', 'Filter']) {
      await field.getByLabel(option, { exact: true }).check();
    }
    await field.getByRole('button', { name: 'Add field' }).click();
    match(await page.locator('#done').innerText(), /was saved/);
    await page.getByText('Add a status').click();
    const status = page.locator('#add-status');
    await status.getByLabel('Kind').selectOption('User story');
    await status.getByLabel('Name').fill('Review');
    await status.getByLabel('Category').selectOption('active');
    await status.getByLabel('Position').fill('4');
    await status.getByRole('button', { name: 'Add status' }).click();
    await page.getByRole('cell', { name: 'In Progress active Review active Done done' }).waitFor();

    await window.visit(`/p/default/item/${items.story}/edit`);
    await page.getByLabel('Risk').selectOption('High');
    await page.getByLabel('Status').selectOption('Review');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('complementary').getByText('High').first().waitFor();
    const { item } = await server.call('get_item', { reference: items.story });
    same([item.fields, item.status], [{ risk: 'High' }, 'Review']);

    await window.visit('/p/default/board');
    await page.getByLabel('Risk').selectOption('High');
    await page.getByRole('button', { name: 'Filter' }).click();
    await arrive(page, /field\.risk=High/);
    same(await page.locator('.card').count(), 1);
    const column = page.locator('.column[data-status="Review"]');
    match(await column.locator('.card').innerText(), /Risk: High/);
    same(await page.getByRole('link', { name: 'Clear' }).count(), 1);
  });

stage.test('wrong_text_of_the_schema_is_kept_with_its_lines',
  { user: 'ann', expected: /status of 422/ }, async (window) => {
    const { page } = window;
    await window.visit(PAGE);
    const text = page.getByLabel('Text');
    await text.fill('[fields.Risk]\nkinds = ["epic"]\ntype = "text"\n');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('#text-error').getByText('Line 1: field "Risk"').waitFor();
    match(await text.inputValue(), /^\[fields\.Risk\]\n/);
    same(await window.violations(), []);
  });

stage.test('schema_is_shown_without_forms_to_other_users', { user: 'ben' }, async (window) => {
  const { page } = window;
  await window.visit('/p/default/board');
  same(await page.getByRole('link', { name: 'Fields and statuses' }).count(), 0);
  await window.visit(PAGE);
  same(await page.getByRole('main').locator('form').count(), 0);
});
