// Items created from every page: an empty project by mouse and by keyboard, and texts that are kept.

import { deepStrictEqual as same, match, ok } from 'node:assert';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { PHONE, arrive, launch, Stage, Window } from './browser.mjs';
import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

/** At most this many clicks and keys beside the typed words, from `/` to the first criterion. */
const MAX_ACTIONS = 15;
const WORDS = ['Checkout', 'Pay as a guest', 'WHEN a guest pays THEN no account is made.'];

/** Clicks and keys of a user, counted. Words are typed into the field that has the focus. */
class Actions {
  constructor(page) {
    this.page = page;
    this.count = 0;
  }

  async click(role, name) {
    this.count += 1;
    await this.page.getByRole(role, { name, exact: true }).click();
  }

  async press(...keys) {
    for (const key of keys) {
      this.count += 1;
      await this.page.keyboard.press(key);
    }
  }

  /** Waits for a form of this kind, with the focus in its first field, and types into it. */
  async type(kind, words) {
    await this.page.getByRole('heading', { name: `New ${kind}` }).waitFor();
    await this.page.locator('main :focus').waitFor();
    await this.page.keyboard.type(words);
  }

  async arrive(prefix) {
    await arrive(this.page, new RegExp(`/item/${prefix}-\\d+$`));
    await this.page.locator('#done').getByText('was created').waitFor();
  }
}

async function byMouse(actions) {
  await actions.click('link', 'New epic');
  await actions.type('epic', WORDS[0]);
  await actions.click('button', 'Create');
  await actions.arrive('EP');
  await actions.click('link', 'New user story');
  await actions.type('user story', WORDS[1]);
  await actions.click('button', 'Create');
  await actions.arrive('US');
  await actions.click('link', 'All fields of this acceptance criterion');
  await actions.type('acceptance criterion', WORDS[2]);
  await actions.click('button', 'Create');
  await actions.arrive('AC');
}

async function byKeyboard(actions) {
  await actions.press('c');
  await actions.type('epic', WORDS[0]);
  await actions.press('Enter');
  await actions.arrive('EP');
  await actions.press('c');
  await actions.type('user story', WORDS[1]);
  await actions.press('Enter');
  await actions.arrive('US');
  await actions.press('c');
  // The form of a requirement; the tab before its first field is that of a criterion.
  await actions.page.getByRole('heading', { name: 'New requirement' }).waitFor();
  await actions.press('Shift+Tab', 'Enter');
  await actions.type('acceptance criterion', WORDS[2]);
  await actions.press('Control+Enter');
  await actions.arrive('AC');
}

for (const [way, walk] of [['mouse', byMouse], ['keyboard', byKeyboard]]) {
  test(`empty_project_gets_its_first_criterion_by_${way}`, async (context) => {
    const [server, browser] = await Promise.all([Server.solo(), launch()]);
    try {
      const window = await Window.open(browser, server);
      await window.page.goto(server.link);
      await window.page.goto('/');
      same(await window.violations(), []);
      const actions = new Actions(window.page);
      await walk(actions);
      context.diagnostic(`${way}: ${actions.count} clicks and keys beside the typed words`);
      ok(actions.count <= MAX_ACTIONS, `${actions.count} actions`);
      same(window.takeProblems(), []);
      const kinds = ['epics', 'stories', 'criteria'];
      for (const [at, kind] of kinds.entries()) ok(server.run('list', kind).includes(WORDS[at]));
    } finally {
      await browser.close();
      await server.end();
    }
  });
}

let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  items = await shop((name, args) => server.call(name, args));
  return server;
});

stage.test('new_opens_a_form_on_every_page_without_scripts',
  { user: 'ben', javaScriptEnabled: false }, async ({ page }) => {
    for (const [path, heading] of [
      ['board', 'New user story'], ['board?kind=epic', 'New epic'],
      ['table?kind=requirement', 'New requirement'], ['tree', 'New epic'],
      ['knowledge', 'New decision'], ['knowledge?kind=idea', 'New idea'],
      [`item/${items.epic}`, 'New user story'], [`item/${items.story}`, 'New requirement'],
      [`item/${items.requirement}/links`, 'New requirement'],
      [`item/${items.decision}`, 'New decision'], ['graph', 'New'], ['sections', 'New'],
      ['sections/payment', 'Payment'],
    ]) {
      await page.goto(`/p/default/${path}`);
      await page.getByRole('banner').getByRole('link', { name: 'New' }).click();
      same([path, await page.getByRole('heading', { level: 1 }).innerText()], [path, heading]);
    }
    await page.goto(`/p/default/board?epic=${items.epic}`);
    await page.getByRole('link', { name: 'New user story in In Progress' }).click();
    same(await page.getByLabel('Epic').inputValue(), items.epic);
    same(await page.getByLabel('Status').inputValue(), 'In Progress');
    await page.getByLabel('Title').fill('Pay later');
    await page.getByRole('button', { name: 'Create another' }).click();
    match(await page.getByRole('status').first().innerText(), /^US-\d+ was created\.$/);
    same(await page.getByLabel('Epic').inputValue(), items.epic);
    same(await page.getByLabel('Title').inputValue(), '');
  });

stage.test('users_who_may_not_write_get_no_form', { user: 'cleo' }, async ({ page }) => {
  for (const path of ['board', 'tree', 'knowledge', `item/${items.story}`]) {
    await page.goto(`/p/default/${path}`);
    same([path, await page.locator('a[href*="/new"]').count()], [path, 0]);
    await page.keyboard.press('c');
    ok(page.url().endsWith(path));
  }
});

stage.test('shortcuts_act_outside_of_fields_and_can_be_turned_off',
  { user: 'ben' }, async (window) => {
    const { page } = window;
    await window.visit('/p/default/board');
    await page.getByLabel('Title or ID').pressSequentially('c');
    ok(page.url().endsWith('/board'));
    await page.getByLabel('Title or ID').fill('');
    await page.locator('main h1').click();
    await page.keyboard.press('?');
    const choice = page.getByLabel('Use single-key shortcuts');
    same(await choice.isChecked(), true);
    same(await window.violations(), []);
    await choice.uncheck();
    await page.keyboard.press('Escape');
    await window.visit('/p/default/board');
    await page.locator('main h1').click();
    for (const key of ['c', '?', '/']) await page.keyboard.press(key);
    ok(page.url().endsWith('/board'));
    same(await page.locator('#shortcuts, #palette').first().isVisible(), false);
    await page.getByRole('button', { name: /account of ben/ }).click();
    await page.getByRole('button', { name: /Keyboard shortcuts/ }).click();
    await choice.check();
    await page.keyboard.press('Escape');
    await page.locator('main h1').click();
    await page.keyboard.press('c');
    await arrive(page, /\/new\?kind=user_story/);
  });

stage.test('half_written_form_asks_before_it_is_left',
  { user: 'ben', expected: /^dialog: $/ }, async (window) => {
    const { page } = window;
    await window.visit('/p/default/new?kind=epic');
    await page.getByRole('link', { name: 'Cancel' }).click();
    await arrive(page, /\/board$/);
    same(window.takeProblems(), []);
    await window.visit('/p/default/new?kind=epic');
    await page.locator('main :focus').waitFor();
    await page.keyboard.type('Half');
    const asked = page.waitForEvent('dialog');
    page.getByRole('link', { name: 'Cancel' }).click().catch(() => {});
    same((await asked).type(), 'beforeunload');
    same(await page.getByLabel('Title').inputValue(), 'Half');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await arrive(page, /\/item\/EP-\d+$/);
  });

stage.test('new_fits_a_phone', { user: 'ben', viewport: PHONE }, async (window) => {
  const { page } = window;
  for (const path of ['board', 'new?kind=epic', 'new?kind=decision']) {
    await window.visit(`/p/default/${path}`);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    same([path, width <= PHONE.width], [path, true]);
    same(await window.violations(), []);
    same(await window.layoutShifts(), []);
  }
});

stage.test('form_of_a_new_item_offers_templates', { user: 'ben' }, async (window) => {
  const { page, server } = window;
  const solo = await Server.solo(({ project }) => {
    mkdirSync(join(project, '.reqlore/templates'), { recursive: true });
    const write = (name, text) => writeFileSync(join(project, '.reqlore/templates', name), text);
    write('epic.md', '---\npriority: Low\n---\nWhy?\n');
    write('epic-launch.md', '---\ntitle: Launch\ntags: [a, b]\n---\n');
  });
  try {
    window.server = solo;
    await page.goto(solo.link);
    await page.goto(`${solo.origin}/`);
    await page.keyboard.press('c');
    await arrive(page, /new\?kind=epic/);
    same(await page.getByLabel('Description').inputValue(), 'Why?');
    same(await page.getByLabel('Priority').inputValue(), '4');
    await page.getByRole('navigation', { name: 'Template' }).getByText('Launch').click();
    await arrive(page, /template=launch/);
    same(await page.getByLabel('Title').inputValue(), 'Launch');
    same(await page.getByLabel('Tags').inputValue(), 'a, b');
    same(await window.violations(), []);
    await page.getByRole('button', { name: 'Create another' }).click();
    await page.locator('#done').getByText('EP-001 was created').waitFor();
    same(await page.getByLabel('Title').inputValue(), 'Launch');
  } finally {
    window.server = server;
    await solo.end();
  }
});
