// Fields that name items by their titles, and the parts of a story, with the keyboard alone.

import { deepStrictEqual as same, match, ok } from 'node:assert';

import { arrive, Stage, untilSame } from './browser.mjs';
import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  items = await shop((name, args) => server.call(name, args));
  return server;
});
const read = (reference) => stage.server.call('get_item', { reference });

stage.test('story_gets_epic_and_ticked_criterion_by_keyboard',
  { user: 'ben' }, async (window) => {
    const { page } = window;
    const keys = page.keyboard;
    const epic = (await read(items.epic)).item;
    await page.goto('/p/default/new?kind=user_story');
    await page.locator('#title').focus();
    await keys.type('Pay by voucher');
    await page.locator('#epic').focus();
    await keys.type(epic.title.slice(0, 4));
    await page.getByRole('option', { name: epic.title }).waitFor();
    same(await page.locator('#epic').getAttribute('aria-expanded'), 'true');
    same(await window.violations(), []);
    await keys.press('Escape');
    same(await page.locator('#epic').getAttribute('aria-expanded'), 'false');
    await keys.press('ArrowDown');
    await page.locator('#picks-0').waitFor();
    await keys.press('ArrowDown');
    same(await page.locator('#epic').getAttribute('aria-activedescendant'), 'picks-0');
    await keys.press('Enter');
    same(await page.locator('#epic').inputValue(), `${items.epic} ${epic.title}`);
    await keys.press('Enter');
    // The script removes the notice from the address.
    await arrive(page, /\/item\/US-\d+/);
    const story = page.url().match(/US-\d+/)[0];
    same((await read(story)).item.epic, items.epic);

    await page.getByRole('textbox', { name: 'New acceptance criterion' }).focus();
    await keys.type('WHEN a voucher is empty THEN the rest is asked for.');
    await keys.press('Enter');
    const tick = page.getByRole('checkbox', { name: /AC-\d+ is met/ });
    await tick.waitFor();
    same(await window.violations(), []);
    await tick.focus();
    await keys.press('Space');
    await page.locator('[role=checkbox][aria-checked=true]').waitFor();
    ok(await tick.evaluate((button) => button === document.activeElement));
    const [criterion] = (await read(story)).children;
    same(criterion.status, 'Met');
    await keys.press('Space');
    await untilSame(async () => (await read(criterion.reference_id)).item.status, 'Open');
  });

stage.test('title_of_an_epic_is_enough_without_scripts',
  { user: 'ben', javaScriptEnabled: false, expected: /status of 422/ }, async ({ page }) => {
    const { title } = (await read(items.epic)).item;
    await page.goto('/p/default/new?kind=user_story');
    await page.getByLabel('Title').fill('Found by title');
    await page.getByLabel('Epic').fill('No such epic');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    match(await page.locator('#epic-error').innerText(), /reference/);
    await page.getByLabel('Epic').fill(title.toUpperCase());
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await arrive(page, /\/item\/US-\d+\?done=created/);
    await page.goto(`/p/default/item/${items.story}`);
    const tick = page.getByRole('checkbox', { name: `${items.criterion} is met` });
    await tick.click();
    same(await tick.getAttribute('aria-checked'), 'true');
    same((await read(items.criterion)).item.status, 'Met');
  });
