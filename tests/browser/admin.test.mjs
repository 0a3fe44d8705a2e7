// Administration: users, tokens and the audit log, for administrators only.

import { deepStrictEqual as same, doesNotMatch, match, ok } from 'node:assert';

import { BOARD, arrive, Stage } from './browser.mjs';
import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const REFUSED = /status of 40\d/;
const PAGES = ['admin/users', 'admin/tokens', 'admin/audit'].map((page) => `/p/default/${page}`);
const stage = new Stage(async () => {
  const server = await Server.team();
  await shop((name, args) => server.call(name, args));
  return server;
});

stage.test('administrator_adds_and_disables_a_user', { user: 'ann' }, async ({ page, server }) => {
  await page.goto(PAGES[0]);
  await page.getByLabel('Name').fill('dora');
  await page.getByLabel('Role', { exact: true }).selectOption('commenter');
  await page.getByRole('button', { name: 'Add user' }).click();
  const row = page.getByRole('row', { name: /dora/ });
  await row.waitFor();
  match(server.run('user', 'list'), /dora\s.*commenter/);
  await row.getByText('Disable dora …').click();
  await row.getByRole('button', { name: 'Disable now' }).click();
  await row.getByRole('button', { name: 'Enable' }).waitFor();
  match(server.run('user', 'list'), /dora.*disabled/);
});

stage.test('administrator_creates_a_token_that_is_shown_once', { user: 'ann' }, async (window) => {
  const { page } = window;
  await page.goto(PAGES[1]);
  await page.getByText('Create a token').click();
  await page.getByLabel('User', { exact: true }).selectOption('ben');
  await page.getByRole('button', { name: 'Create token' }).click();
  const secret = (await page.locator('.notice.success pre').innerText()).trim();
  match(secret, /^reqlore_pat_/);
  await window.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  same(await page.evaluate(() => navigator.clipboard.readText()), secret);
  const visitor = await stage.open();
  await visitor.page.goto('/signin');
  await visitor.enterToken(secret);
  await arrive(visitor.page, BOARD);
  await page.goto(PAGES[1]);
  ok(!(await page.content()).includes(secret));
  const id = secret.slice('reqlore_pat_'.length).split('_')[0];
  const row = page.getByRole('row', { name: new RegExp(id) });
  await row.getByText('Revoke', { exact: false }).first().click();
  await row.getByRole('button', { name: 'Revoke now' }).click();
  await row.waitFor({ state: 'detached' });
  await visitor.page.goto('/p/default/board');
  match(visitor.page.url(), /\/signin/);
  await visitor.close();
});

stage.test('audit_log_is_filtered_and_verified', { user: 'ann' }, async ({ page }) => {
  await page.goto(PAGES[2]);
  await arrive(page, /activity$/);
  const item = page.locator('tbody a').first();
  match(await item.getAttribute('href'), /\/p\/default\/(item|sections)\//);
  await page.getByLabel('Action or tool').fill('create_requirement');
  await page.getByRole('button', { name: 'Filter' }).click();
  await arrive(page, /action=create_requirement/);
  const rows = await page.locator('tbody tr').allInnerTexts();
  same(rows.length, 2);
  for (const row of rows) match(row, /ann.*create_requirement/s);
  await page.getByRole('button', { name: 'Verify the log' }).click();
  await page.getByText('The audit log is intact').waitFor();
});

for (const user of ['ben', 'cleo']) {
  stage.test(`administration_is_invisible_for_${user}`,
    { user, expected: REFUSED }, async (window) => {
      const { page, server } = window;
      await window.visit('/p/default/board');
      doesNotMatch(await page.getByRole('navigation').first().innerText(), /Users|^Tokens|^Activity/m);
      const csrf = await page.locator('input[name=csrf]').first().inputValue();
      for (const path of PAGES) await window.visit(path, 404);
      const forms = [
        [PAGES[0], { action: 'role', name: user, role: 'administrator' }],
        [PAGES[0], { action: 'add', name: 'forged', role: 'administrator' }],
        [PAGES[1], { action: 'create', user: 'ann', scope: 'write', lifetime: '1d', projects: '' }],
      ];
      for (const [path, fields] of forms) {
        const answer = await page.request.post(path, {
          form: { csrf, ...fields }, headers: { Origin: server.origin }, maxRedirects: 0,
        });
        ok([403, 404].includes(answer.status()), `${path} ${answer.status()}`);
      }
      doesNotMatch(server.run('user', 'list'), /forged/);
    });
}

stage.test('user_creates_and_revokes_an_own_token', { user: 'ben' }, async (window) => {
  const { page, server } = window;
  await window.visit('/p/default/board');
  await page.getByRole('link', { name: 'My tokens' }).click();
  await page.getByText('Create a token').click();
  await page.getByRole('button', { name: 'Create token' }).click();
  const secret = (await page.locator('#new-token').innerText()).trim();
  match(secret, /^reqlore_pat_/);
  same(await window.violations(), []);
  const id = secret.slice('reqlore_pat_'.length).split('_')[0];
  await page.goto('/p/default/tokens');
  const row = page.getByRole('row', { name: new RegExp(id) });
  await row.getByText('Revoke', { exact: false }).first().click();
  await row.getByRole('button', { name: 'Revoke now' }).click();
  await row.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'My activity' }).click();
  await page.getByRole('cell', { name: 'token/revoke' }).waitFor();
  same(await window.violations(), []);
  match(server.run('audit', 'list', '--last', '50'), /ben\s.*token\/revoke/);
});
