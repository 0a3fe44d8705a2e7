// Sign-in, sign-out, sessions, and attempts to steal or forge them.

import { deepStrictEqual as same, doesNotMatch, match, ok } from 'node:assert';

import { BOARD, arrive, Stage } from './browser.mjs';
import { Server } from './server.mjs';

const stage = new Stage(() => Server.team());
const REFUSED = /status of 40\d/;

async function signOut(page) {
  await page.getByLabel('account of ann').click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await arrive(page, /\/signin$/);
}

stage.test('sign_in_leads_to_the_requested_page_and_out_again', {}, async (window) => {
  const { page } = window;
  const requested = '/p/default/board?kind=epic';
  await page.goto(requested);
  await window.enterToken(window.server.tokens.ann);
  await arrive(page, requested);
  await signOut(page);
  await page.goBack();
  await page.goto(requested);
  await arrive(page, /\/signin\?next=/);
});

stage.test('sign_in_with_a_wrong_token_says_so', { expected: REFUSED }, async (window) => {
  const { page } = window;
  await page.goto('/signin');
  await window.enterToken('reqlore_wrong');
  match(await page.getByRole('main').innerText(), /token does not begin with reqlore_pat_/);
  same(await window.context.cookies(), []);
});

stage.test('sign_in_without_scripts_works', { javaScriptEnabled: false }, async (window) => {
  const { page } = window;
  await page.goto('/');
  await window.enterToken(window.server.tokens.ann);
  await arrive(page, BOARD);
  await signOut(page);
});

stage.test('session_cookie_is_hidden_from_scripts', { user: 'ann' }, async (window) => {
  await window.visit('/p/default/board');
  doesNotMatch(await window.page.evaluate(() => document.cookie), /reqlore(-\d+)?=/);
  const { httpOnly, sameSite, path } = await window.sessionCookie();
  same([httpOnly, sameSite, path], [true, 'Lax', '/']);
});

stage.test('session_cookie_opens_nothing_else', { user: 'ann', expected: REFUSED }, async (window) => {
  const { server, context } = window;
  const { name, value } = await window.sessionCookie();
  const [asCookie, asToken, ofPage] = await Promise.all([
    { Cookie: `${name}=${value}` }, { Authorization: `Bearer ${value}` },
    { Cookie: `${name}=${value}`, Authorization: `Bearer ${server.tokens.ann}` },
  ].map((headers, index) => fetch(`${server.origin}${index < 2 ? '/api/v1/mcp' : '/'}`, {
    method: index < 2 ? 'POST' : 'GET', redirect: 'manual',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: index < 2 ? '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' : undefined,
  })));
  same([asCookie.status, asToken.status], [401, 401]);
  ok(ofPage.status < 400);
  await context.clearCookies();
  await window.visit(`/p/default/board?token=${server.tokens.ann}`, 400);
});

stage.test('forged_form_is_refused', { user: 'ann', expected: REFUSED }, async (window) => {
  const { page, server } = window;
  await window.visit('/p/default/board');
  const csrf = await page.locator('input[name=csrf]').first().inputValue();
  const { name, value } = await window.sessionCookie();
  const send = async (fields, headers) => (await fetch(`${server.origin}/signout`, {
    method: 'POST', redirect: 'manual', body: new URLSearchParams(fields),
    headers: { Cookie: `${name}=${value}`, ...headers },
  })).status;
  const { origin } = server;
  same(await send({}, { Origin: origin }), 403);
  same(await send({ csrf: csrf.replace(/./g, '0') }, { Origin: origin }), 403);
  same(await send({ csrf }, { Origin: 'http://other.example' }), 403);
  same(await send({ csrf }, { Origin: 'null' }), 403);
  await window.visit('/p/default/board');
  match(page.url(), BOARD);
});

stage.test('page_of_another_site_cannot_act', { user: 'ann', expected: /./ }, async (window) => {
  const { page, server } = window;
  await window.visit('/p/default/board');
  // Another port is another origin, but the same site, so that the cookie is sent.
  const other = await Server.team();
  try {
    await page.route(`${other.origin}/**`, (route) => route.fulfill({
      contentType: 'text/html',
      body: `<form method="post" action="${server.origin}/signout"></form>
        <iframe src="${server.origin}/p/default/board"></iframe>`,
    }));
    await page.goto(`${other.origin}/trap`);
    const frame = page.frames().find((child) => child.parentFrame());
    match(frame.url(), /^chrome-error:/);
    const [answer] = await Promise.all([
      page.waitForResponse(/\/signout$/),
      page.waitForURL(/\/signout$/),
      page.evaluate(() => document.forms[0].submit()),
    ]);
    same(answer.status(), 403);
    await window.visit('/p/default/board');
    match(page.url(), BOARD);
  } finally {
    await other.end();
  }
});

stage.test('revoked_token_ends_its_session', { expected: REFUSED }, async (window) => {
  const { page, server } = window;
  await page.goto('/signin');
  const token = server.newToken('ben');
  await window.enterToken(token);
  await arrive(page, BOARD);
  const id = server.run('token', 'list').split('\n')
    .filter((line) => line.includes('ben')).at(-1).trim().split(/\s+/)[0];
  server.run('token', 'revoke', id);
  await page.goto('/p/default/board');
  match(page.url(), /\/signin/);
});

stage.test('every_page_has_its_security_headers', { user: 'ann' }, async (window) => {
  for (const path of ['/signin', '/p/default/board']) {
    const headers = (await window.visit(path)).headers();
    match(headers['content-security-policy'], /^default-src 'none'; style-src 'self'; script-src/);
    doesNotMatch(headers['content-security-policy'], /unsafe/);
    same(headers['x-content-type-options'], 'nosniff');
    same(headers['referrer-policy'], 'same-origin');
    same(headers['cache-control'], 'no-store');
    same(headers['cross-origin-opener-policy'], 'same-origin');
  }
});

stage.test('page_of_an_ended_session_says_so',
  { expected: /status of 40\d|MIME type/ }, async (window) => {
    const { page, server } = window;
    const { reference_id: epic } = await server.call('create_epic', { title: 'Late', priority: 2 });
    await page.goto('/signin?next=/p/default/board?kind=epic');
    await window.enterToken(server.newToken('ben'));
    const card = page.locator('.card').filter({ hasText: epic });
    await card.waitFor();
    const form = await window.context.newPage();
    await form.goto(`/p/default/item/${epic}/edit`);
    await form.getByLabel('Title').fill('Written before the end');
    const other = await window.context.newPage();
    await other.goto('/p/default/board');
    await other.getByLabel('account of ben').click();
    await other.getByRole('button', { name: 'Sign out' }).click();
    await arrive(other, /\/signin$/);
    await card.dragTo(page.locator('.column[data-status="Done"]'));
    await page.getByRole('alert').getByText('your session has ended').waitFor();
    await page.locator('#stale').getByRole('link', { name: 'Sign in again' }).waitFor();
    // The text of a form is not lost.
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('your session has ended').waitFor();
    await form.locator('pre', { hasText: 'Written before the end' }).waitFor();
    const [tab] = await Promise.all([
      window.context.waitForEvent('page'),
      form.getByRole('link', { name: 'Sign in in another tab' }).click(),
    ]);
    await tab.getByLabel('Personal access token').fill(server.newToken('ben'));
    await tab.getByRole('button', { name: 'Sign in' }).click();
    await arrive(tab, BOARD);
    await form.getByRole('button', { name: 'Send again' }).click();
    await form.getByText('an earlier session').waitFor();
    await form.getByRole('button', { name: 'Send again' }).click();
    await arrive(form, /item\/EP-\d+(\?|$)/);
    await form.getByRole('heading', { name: 'Written before the end' }).waitFor();
  });
