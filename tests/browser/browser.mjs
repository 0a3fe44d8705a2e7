// Pages of a server in Chromium, watched for everything that must not happen on any page.

import { deepStrictEqual as same } from 'node:assert';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

import { until } from './server.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const ACTION_LIMIT_MS = 10_000;
export const BOARD = /\/p\/default\/board$/;
export const PHONE = { width: 360, height: 740 };

export function launch() {
  const executablePath = process.env.TEST_BROWSER;
  // Root, as which containers run, has no sandbox.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** Waits until the page of an address is shown. */
export async function arrive(page, url) {
  await page.waitForURL(url);
  await page.locator('main:not([aria-busy])').waitFor();
}

/** Runs in each page before its scripts. */
function observe() {
  window.layoutShifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      const moved = entry.sources.map(({ node }) => (node?.outerHTML ?? '?').slice(0, 100));
      window.layoutShifts.push([entry.value, ...moved]);
    }
  }).observe({ type: 'layout-shift', buffered: true });
}

/**
 * A browser window of its own cookies. `problems` has each error and warning of the console, each
 * violation of the content policy, dialog, and request to another origin.
 */
export class Window {
  static async open(browser, server, options = {}) {
    const window = new Window();
    const { origin } = server;
    window.server = server;
    window.problems = [];
    window.context = await browser.newContext({ baseURL: origin, ...options });
    window.context.setDefaultTimeout(ACTION_LIMIT_MS);
    if (options.javaScriptEnabled !== false) await window.context.addInitScript(observe);
    window.watch(window.context);
    window.page = await window.context.newPage();
    return window;
  }

  watch(context) {
    const note = (problem) => this.problems.push(problem);
    context.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) note(`console: ${message.text()}`);
    });
    context.on('weberror', (error) => note(`script: ${error.error()}`));
    context.on('dialog', (dialog) => {
      note(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    context.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      const known = [this.server.origin, 'null'].includes(origin);
      if (!known || !['http:', 'data:'].includes(protocol)) note(`request: ${request.url()}`);
    });
  }

  /** Signs in with this token on the sign-in page that is open. */
  async enterToken(token) {
    await this.page.getByLabel('Personal access token').fill(token);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
  }

  /** Signs in as this user, in the same session as other windows of the user. */
  async signIn(user) {
    const sessions = (this.server.sessions ??= {});
    if (sessions[user]) return this.context.addCookies(sessions[user]);
    await this.page.goto('/signin');
    await this.enterToken(this.server.tokens[user]);
    await arrive(this.page, BOARD);
    sessions[user] = await this.context.cookies();
  }

  /** The cookie of the session. Its name has the port, because cookies of all ports are shared. */
  async sessionCookie() {
    const cookies = await this.context.cookies();
    return cookies.find(({ name }) => /^reqlore(-\d+)?$/.test(name));
  }

  /** Opens a page and expects this status. */
  async visit(path, status = 200) {
    const response = await this.page.goto(path);
    same([path, response.status()], [path, status]);
    return response;
  }

  /** Everything that went wrong since the last call, except what matches `expected`. */
  takeProblems(expected = /^$/) {
    const problems = this.problems.filter((problem) => !expected.test(problem));
    this.problems.length = 0;
    return problems;
  }

  /** The violations that axe-core finds in the current page. */
  async violations() {
    if (!(await this.page.evaluate(() => 'axe' in window))) await this.page.evaluate(AXE);
    const found = await this.page.evaluate(async () => (await window.axe.run()).violations);
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  }

  /** The moves of elements in the current page, with their weight. */
  layoutShifts() {
    return this.page.evaluate(() => window.layoutShifts);
  }

  close() {
    return this.context.close();
  }
}

/** A server and a browser for the tests of a file. `prepare` returns the server. */
export class Stage {
  constructor(prepare) {
    before(async () => {
      [this.server, this.browser] = await Promise.all([prepare(), launch()]);
    });
    after(async () => {
      await this.browser?.close();
      await this.server?.end();
    });
  }

  open(options) {
    return Window.open(this.browser, this.server, options);
  }

  /**
   * A test in a new window, signed in as `user`. It fails if anything went wrong in the window,
   * except problems that match `expected`.
   */
  test(name, { user, expected, ...options }, body) {
    test(name, async (context) => {
      const window = await this.open(options);
      try {
        if (user) await window.signIn(user);
        await body(window, context);
        same(window.takeProblems(expected), []);
      } finally {
        await window.close();
      }
    });
  }
}

/** Waits until `read` returns this value. */
export async function untilSame(read, expected) {
  let value;
  const isSame = async () => (value = await read()) === expected;
  await until(isSame, () => `${value} instead of ${expected}`, ACTION_LIMIT_MS);
}
