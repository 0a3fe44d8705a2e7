// Five flows in Chromium and, over WebDriver BiDi, in Firefox: create, edit, drag, undo and search.

import { deepStrictEqual as same } from 'node:assert';
import { test } from 'node:test';

import puppeteer from 'puppeteer-core';

import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const LIMIT_MS = 15_000;
const BROWSERS = [
  ['chrome', process.env.TEST_BROWSER, ['--no-sandbox', '--disable-dev-shm-usage']],
  ['firefox', process.env.TEST_FIREFOX, []],
];

/** Drags a card to the end of a column, by mouse. */
async function drag(page, card, column) {
  const isFirefox = (await page.browser().version()).startsWith('firefox');
  const from = await (await page.waitForSelector(card)).clickablePoint();
  const { x, y, height } = await (await page.waitForSelector(column)).boundingBox();
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  // A browser drops only where an earlier movement over the same element was accepted.
  await page.mouse.move(x + 40, y + height - 12, { steps: 3 });
  await page.waitForSelector('.target');
  await page.mouse.move(x + 50, y + height - 8, { steps: 3 });
  // The driver of Firefox ends a drag without this event.
  if (isFirefox) {
    await page.$eval(column, (node) => node.dispatchEvent(
      new DragEvent('drop', { bubbles: true, cancelable: true }),
    ));
  }
  await page.mouse.up();
}

/** An item page, its edit form, a board and the search of one project, as a user walks them. */
async function walk(page, server, items) {
  const has = (selector, text) => page.waitForFunction((one, part) => {
    return [...document.querySelectorAll(one)].some((node) => node.innerText.includes(part));
  }, {}, selector, text);
  const load = (path) => page.goto(`${server.origin}${path}`);
  const arrive = (action) => Promise.all([page.waitForNavigation(), action()]);
  const itemOf = async (reference) => (await server.call('get_item', { reference })).item;

  await load('/signin');
  await page.type('[name=token]', server.tokens.ben);
  await arrive(() => page.keyboard.press('Enter'));
  await page.waitForSelector('.side', { timeout: LIMIT_MS });

  // Create.
  await load(`/p/default/item/${items.story}`);
  await arrive(() => page.keyboard.press('c'));
  await page.waitForSelector('main :focus');
  await page.keyboard.type('Made by key');
  await arrive(() => page.keyboard.press('Enter'));
  await has('#done', 'was created');
  const reference = page.url().split('/').pop();
  same((await itemOf(reference)).title, 'Made by key');

  // Edit.
  await load(`/p/default/item/${reference}/edit`);
  await page.focus('[name=title]');
  await page.keyboard.press('End');
  await page.keyboard.type(' and edited');
  await arrive(() => page.keyboard.press('Enter'));
  await has('h1', 'and edited');
  same((await itemOf(reference)).title, 'Made by key and edited');

  // Drag.
  const column = (status) => `.column[data-status="${status}"]`;
  await load('/p/default/board?kind=requirement');
  await drag(page, `.card:has(#${reference})`, column('Active'));
  await has('#done', reference);
  await has(column('Active'), reference);
  same((await itemOf(reference)).status, 'Active');

  // Undo.
  await page.keyboard.press('z');
  await has('#done', 'was undone');
  await has(column('Draft'), reference);
  same((await itemOf(reference)).status, 'Draft');

  // Search.
  await page.keyboard.press('/');
  await page.keyboard.type('invoice');
  await has('#palette [role=option]', 'Pay by invoice');
  await arrive(() => page.keyboard.press('Enter'));
  await has('h1', 'Pay by invoice');
}

for (const [browser, executablePath, args] of BROWSERS) {
  test(`${browser}_creates_edits_drags_undoes_and_finds`, { skip: !executablePath }, async () => {
    const server = await Server.team();
    const options = { browser, executablePath, args };
    let running;
    try {
      const items = await shop((name, args) => server.call(name, args));
      running = await puppeteer.launch(options);
      const page = await running.newPage();
      page.setDefaultTimeout(LIMIT_MS);
      const problems = [];
      page.on('pageerror', (error) => problems.push(error.message));
      await walk(page, server, items);
      same(problems, []);
    } finally {
      await running?.close();
      await server.end();
    }
  });
}
