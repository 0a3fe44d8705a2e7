// The command palette, saved views and filters.

import { deepStrictEqual as same, match, ok } from 'node:assert';

import { PHONE, arrive, Stage, untilSame } from './browser.mjs';
import { HOSTILE, shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const BOARD = '/p/default/board?kind=user_story';
let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  items = await shop((name, args) => server.call(name, args));
  return server;
});

const option = (page, name) => page.getByRole('option', { name });
/** The words of the selected option. */
async function selected(page) {
  const text = await page.locator('#found [aria-selected=true]').innerText();
  return text.replace(/\s+/g, ' ');
}

/** Counts the rows of the audit log that searches of this user have added. */
function searches(server) {
  const rows = server.run('audit', 'list', '--last', '200');
  return rows.split('\n').filter((row) => /suggest_records|search_global/.test(row)).length;
}

stage.test('palette_opens_items_by_title_id_and_rule', { user: 'ben' }, async (window) => {
  const { page, server } = window;
  const keys = page.keyboard;
  await window.visit(BOARD);
  await keys.press('/');
  const field = page.getByRole('combobox', { name: /Find items/ });
  await field.waitFor();
  await keys.type('pay as');
  await untilSame(() => selected(page), `${items.story} Pay as a guest user story`);
  same(await page.locator('#found mark').first().innerText(), 'Pay');
  same(await field.getAttribute('aria-activedescendant'), 'found-1');
  same(await window.violations(), []);
  await keys.press('Enter');
  await arrive(page, new RegExp(`/item/${items.story}$`));

  // Within a field as well, but not in a text, where it may mean a link.
  await page.locator('h1').click();
  await keys.press('Control+k');
  await keys.type(items.requirement.toLowerCase());
  await option(page, `${items.requirement} Card payment`).waitFor();
  await keys.press('Enter');
  await arrive(page, new RegExp(`/item/${items.requirement}$`));

  await keys.press('Control+k');
  await keys.type('within a sec');
  await option(page, /payment:1 .*answer within a second/).waitFor();
  await option(page, /payment:1 /).click();
  await arrive(page, /sections\/payment#1$/);
  same(searches(server), 0);
});

stage.test('palette_runs_actions_and_returns_the_focus', { user: 'ben' }, async (window) => {
  const { page } = window;
  const keys = page.keyboard;
  await window.visit(BOARD);
  const card = page.locator(`#${items.story}`);
  await card.focus();
  await keys.press('/');
  await option(page, 'Board page').waitFor();
  same(await window.violations(), []);
  await keys.press('ArrowDown');
  match(await selected(page), /^Tree/);
  await keys.press('ArrowUp');
  await keys.press('ArrowUp');
  match(await selected(page), /^Sign out/);
  await keys.press('Escape');
  ok(await card.evaluate((link) => link === document.activeElement));
  await keys.press('/');
  await keys.type('create st');
  await untilSame(() => selected(page), 'Create user story … action');
  await keys.press('Enter');
  await arrive(page, /\/new\?kind=user_story$/);
  await window.visit(BOARD);
  await page.getByRole('searchbox').focus();
  await keys.type('dark');
  await untilSame(() => selected(page), 'Dark theme action');
  await keys.press('Enter');
  await page.locator('html[data-theme=dark]').waitFor();
  same(await window.violations(), []);
  await page.getByRole('searchbox').click();
  await keys.type('no such thing');
  await option(page, 'Search everything for “no such thing”').waitFor();
  await keys.press('Enter');
  await arrive(page, /search\?q=no%20such%20thing$/);
});

stage.test('latest_text_of_the_palette_wins', { user: 'ben' }, async (window) => {
  const { page } = window;
  const keys = page.keyboard;
  await window.visit(BOARD);
  const held = [];
  await page.route(/find\?q=(p|in)$/, (route) => held.push(route));
  await keys.press('/');
  await option(page, 'Board page').waitFor();
  await keys.type('p');
  await untilSame(async () => held.length, 1);
  await keys.type('ay by inv');
  await option(page, 'Pay by invoice').waitFor();
  await held[0].continue().catch(() => {});
  // Enter waits for the options of the text.
  await page.locator('#find').fill('in');
  await untilSame(async () => held.length, 2);
  await keys.press('Enter');
  same(page.url().endsWith(BOARD), true);
  await held[1].fulfill({ contentType: 'text/html', body: '<a role="option" id="found-1" href="tree">Tree</a>' });
  await arrive(page, /\/tree$/);
});

stage.test('palette_names_an_ended_session_and_a_missing_server',
  { user: 'cleo', expected: /Failed to load|ERR_FAILED/ }, async (window) => {
    const { page } = window;
    await window.visit(BOARD);
    await page.route(/find\?q=x$/, (route) => route.abort());
    await page.keyboard.press('/');
    await option(page, 'Board page').waitFor();
    await page.keyboard.type('x');
    await page.locator('#palette').getByText(/can't be reached/).waitFor();
    await window.context.clearCookies();
    await page.keyboard.type('y');
    await page.locator('#palette').getByText(/session has ended/).waitFor();
    same(await page.locator('#found > *').count(), 0);
  });

stage.test('palette_fits_a_phone_and_shows_hostile_titles_as_text',
  { user: 'ben', viewport: PHONE }, async (window) => {
    const { page, server } = window;
    const { reference_id: id } = await server.call('create_epic', { title: `Quokka ${HOSTILE}`, priority: 1 });
    await window.visit(BOARD);
    await page.getByRole('searchbox').click();
    await page.keyboard.type('quokka');
    await option(page, new RegExp(`${id} Quokka`)).waitFor();
    same(await page.locator('.injected').count(), 0);
    const { width } = await page.locator('#palette').boundingBox();
    ok(width <= PHONE.width);
    same(await page.evaluate(() => document.documentElement.scrollWidth), PHONE.width);
    same(await window.violations(), []);
  });

stage.test('view_is_saved_used_by_others_and_deleted', { user: 'ann' }, async (window) => {
  const { page, server } = window;
  await window.visit('/p/default/table?kind=requirement&status=Active');
  await page.getByText('Save view').click();
  await page.getByLabel('Name of the view').fill('First');
  await page.keyboard.press('Enter');
  await page.locator('#done').getByText('was saved').waitFor();
  await window.visit('/p/default/table?kind=requirement&status=Draft');
  await page.getByText('Save view').click();
  await page.getByLabel('Name of the view').fill('Drafts <b>');
  same(await window.violations(), []);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.locator('#done').getByText('was saved').waitFor();
  match(page.url(), /table\?kind=requirement&status=Draft$/);
  const view = page.getByRole('link', { name: 'Drafts <b>' });
  same(await view.getAttribute('aria-current'), 'true');

  const other = await stage.open();
  await other.signIn('ben');
  await other.visit('/p/default/board?kind=epic');
  await other.page.getByRole('link', { name: 'Drafts <b>' }).click();
  await arrive(other.page, /board\?kind=requirement&status=Draft$/);
  same(await other.page.locator('.card').count(), 1);
  same(await other.page.getByRole('button', { name: /view/ }).count(), 0);
  await other.page.keyboard.press('Control+k');
  await other.page.keyboard.type('draf');
  await option(other.page, 'Drafts <b> view').click();
  await arrive(other.page, /board\?kind=requirement&status=Draft$/);
  same(other.takeProblems(), []);
  await other.close();

  await page.keyboard.press('z');
  await view.waitFor({ state: 'detached' });
  await page.getByText('Save view').click();
  await page.getByLabel('Name of the view').fill('Drafts');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Delete the view Drafts' }).click();
  await page.getByText('Save view').waitFor();
  same(await page.getByRole('link', { name: 'Drafts' }).count(), 0);
});

stage.test('filters_stay_for_another_kind_and_counts_agree', { user: 'ben' }, async (window) => {
  const { page } = window;
  const total = page.locator('.page-head .muted');
  await window.visit('/p/default/table?kind=user_story&q=pay&priority=1');
  same(await total.innerText(), '1 in total');
  same(await page.locator('tbody tr').count(), 1);
  await page.getByRole('link', { name: 'Epics' }).click();
  await arrive(page, /kind=epic/);
  same(await page.getByLabel('Title or ID').inputValue(), 'pay');
  same(await page.getByLabel('Priority').inputValue(), '1');
  same(await total.innerText(), '0 in total');
  await window.visit('/p/default/board?kind=user_story&q=pay');
  same(await total.innerText(), '2 in total');
  same(await page.locator('.card').count(), 2);
  same(await page.locator('.column .count').allInnerTexts(), ['2', '0', '0', '0', '0']);
  await page.getByRole('link', { name: 'Requirements' }).click();
  await arrive(page, /kind=requirement&q=pay/);
  same(await total.innerText(), '1 in total');
  same(await page.locator('.card').count(), 1);
});

stage.test('filter_replaces_the_list_and_back_returns_to_it', { user: 'ben' }, async (window) => {
  const { page } = window;
  const total = page.locator('.page-head .muted');
  await window.visit('/p/default/table?kind=user_story');
  const before = await total.innerText();
  await page.evaluate(() => { document.body.dataset.loaded = 'once'; });
  await page.getByLabel('Title or ID').fill('pay');
  await page.getByLabel('Title or ID').press('Enter');
  await arrive(page, /kind=user_story&q=pay$/);
  await untilSame(() => total.innerText(), '2 in total');
  // The frame stays, with the links of the new address.
  same(await page.evaluate(() => document.body.dataset.loaded), 'once');
  same(await page.evaluate(() => document.activeElement.id), 'filter-text');
  await page.getByLabel('Priority').selectOption('1');
  await untilSame(() => total.innerText(), '1 in total');
  match(await page.locator('[data-new]').getAttribute('href'), /priority=1/);
  match(await page.locator('#theme-form [name=next]').inputValue(), /q=pay&priority=1$/);
  await page.goBack();
  await untilSame(() => total.innerText(), '2 in total');
  same(await page.getByLabel('Title or ID').inputValue(), 'pay');
  await page.goBack();
  await untilSame(() => total.innerText(), before);
});

stage.test('views_and_search_work_without_scripts',
  { user: 'ann', javaScriptEnabled: false }, async (window) => {
    const { page } = window;
    await window.visit('/p/default/board?kind=user_story&q=guest');
    await page.getByText('Save view').click();
    await page.getByLabel('Name of the view').fill('Guests');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await arrive(page, /q=guest/);
    await window.visit('/p/default/board?kind=epic');
    await page.getByRole('link', { name: 'Guests' }).click();
    same(await page.locator('.card').count(), 1);
    await page.getByRole('button', { name: 'Delete the view Guests' }).click();
    same(await page.getByRole('link', { name: 'Guests' }).count(), 0);
    await page.getByRole('searchbox').fill('card');
    await page.keyboard.press('Enter');
    await arrive(page, /search\?q=card/);
    match(await page.locator('#results > p').innerText(), /^\d+ results?( and|$| for)/);
    ok(await page.locator('#results mark').count() > 0);
    same(await page.locator('#palette').isVisible(), false);
  });
