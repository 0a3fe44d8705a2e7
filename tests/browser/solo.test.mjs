// The board of one developer: its one-time link, and changes that are visible in the files.

import { deepStrictEqual as same, match } from 'node:assert';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { BOARD, Stage } from './browser.mjs';
import { Server } from './server.mjs';

const EXPIRED = /status of 40\d/;
const stage = new Stage(() => Server.solo((server) => {
  server.run('add', 'epic', 'Checkout');
}));

/** The texts of all files of the project. */
function contents(server) {
  const files = readdirSync(server.project, { recursive: true, withFileTypes: true });
  const texts = files.filter((file) => file.isFile() && file.name.endsWith('.md'))
    .map((file) => readFileSync(join(file.parentPath ?? file.path, file.name), 'utf8'));
  return texts.join('\n');
}

stage.test('board_of_one_user_opens_by_a_link_that_works_once',
  { expected: EXPIRED }, async ({ page, server }) => {
    await page.goto(server.link);
    await page.waitForURL(BOARD);
    await page.goto('/p/default/board?kind=epic');
    await page.locator('.card').filter({ hasText: 'EP-001' }).dragTo(
      page.locator('.column[data-status="Done"]'));
    await page.locator('.column[data-status="Done"]').getByText('EP-001').waitFor();
    match(contents(server), /status: Done/);
    const stranger = await stage.open();
    await stranger.page.goto(server.link);
    match(await stranger.page.getByRole('main').innerText(), /link/i);
    await stranger.page.goto('/p/default/board?kind=epic');
    same(await stranger.page.locator('.card').count(), 0);
    await stranger.close();
  });
