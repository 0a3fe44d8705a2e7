// The board of one developer: its one-time link, and changes that are visible in the files.

import { deepStrictEqual as same, match } from 'node:assert';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { BOARD, arrive, Stage, untilSame } from './browser.mjs';
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
    await arrive(page, BOARD);
    await page.goto('/p/default/board?kind=epic');
    await page.locator('.card').filter({ hasText: 'EP-001' }).dragTo(
      page.locator('.column[data-status="Done"]'));
    await page.locator('#done').getByText('EP-001 moved to Done').waitFor();
    match(contents(server), /status: Done/);
    const stranger = await stage.open();
    await stranger.page.goto(server.link);
    match(await stranger.page.getByRole('main').innerText(), /link/i);
    await stranger.page.goto('/p/default/board?kind=epic');
    same(await stranger.page.locator('.card').count(), 0);
    await stranger.close();
  });

stage.test('open_page_survives_a_restart_of_the_board',
  { expected: /ERR_CONNECTION|ERR_INCOMPLETE|status of (40\d|503)/ }, async ({ page, server }) => {
    await server.restart();
    await page.goto(server.link);
    await arrive(page, BOARD);
    match(await page.title(), /project/);
    await page.goto('/p/default/item/EP-001/edit');
    await page.getByLabel('Title').fill('Pay at once');
    const bookmark = await page.context().newPage();
    await bookmark.goto('/p/default/board?kind=epic');
    await server.restart();
    // A link that the restart opens in the same browser keeps the session of its pages.
    await bookmark.goto(server.link);
    await page.getByRole('button', { name: 'Save' }).click();
    await arrive(page, /item\/EP-001(\?|$)/);
    await bookmark.goto('/p/default/board?kind=epic');
    await bookmark.getByText('Pay at once').waitFor();
  });

stage.test('refused_move_stays_visible_and_is_announced',
  { expected: /status of 409/ }, async ({ page, server }) => {
    await server.restart();
    await page.goto(server.link);
    await arrive(page, BOARD);
    await page.goto('/p/default/board?kind=epic');
    const card = page.locator('.card').filter({ hasText: 'EP-001' });
    await card.locator('> a').first().focus();
    await page.keyboard.press('m');
    server.run('set', 'EP-001', 'priority=4');
    await page.locator('#move-menu').getByText('Cancelled').click();
    const alert = page.getByRole('alert');
    await alert.getByText('was changed in the meantime').waitFor();
    // The live update has replaced the main column.
    await card.getByText('Low').waitFor();
    match(await alert.innerText(), /EP-001 was changed in the meantime/);
    await card.locator('> a').first().focus();
    await page.keyboard.press('m');
    await untilSame(() => page.getByRole('alert').count(), 0);
  });
