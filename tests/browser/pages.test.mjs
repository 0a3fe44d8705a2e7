// What holds on every page: accessible, quiet, steady, usable on phones, and safe with any text.

import { deepStrictEqual as same, ok } from 'node:assert';

import { PHONE, Stage, untilSame } from './browser.mjs';
import { HOSTILE, hostile, pages, shop } from './fixtures.mjs';
import { Server } from './server.mjs';

let usual;
let forged;
const stage = new Stage(async () => {
  const server = await Server.team();
  const call = (name, args) => server.call(name, args);
  usual = pages(await shop(call));
  forged = pages(await hostile(call));
  return server;
});

/** Everything in the current page that a text of the project has injected. */
function injected() {
  const bad = [...document.querySelectorAll('.injected, #injected, iframe, style, base, object, embed')];
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      const isHandler = name.startsWith('on') || name === 'style';
      const isAction = ['action', 'formaction', 'src', 'href', 'xlink:href', 'srcset'].includes(name);
      const isLink = element.localName === 'a' && /^(https?|mailto):/.test(value);
      const isForeign = /^\s*(\w+:|\/\/)/.test(value) && !isLink;
      if (isHandler || (isAction && isForeign)) bad.push(element);
    }
  }
  const scripts = [...document.scripts].filter(({ src }) => !src.includes('/assets/script.'));
  return [...bad, ...scripts].map(({ outerHTML }) => outerHTML.slice(0, 200));
}

/** Elements that make the page scroll sideways. */
function overflowing() {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const wide = [...document.body.querySelectorAll('*')].filter((element) =>
    element.getBoundingClientRect().right > clientWidth + 0.5);
  return wide.slice(-3).map(({ outerHTML }) => outerHTML.slice(0, 200));
}

/** Each violation in the colours of both themes, with the first page that has it. */
async function violationsOf(window, paths) {
  const found = {};
  for (const path of paths) {
    await window.visit(path);
    for (const colorScheme of ['light', 'dark']) {
      await window.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      for (const violation of await window.violations()) {
        found[violation] ??= `${path} ${colorScheme}`;
      }
    }
  }
  return found;
}

stage.test('pages_have_no_violation_of_accessibility', { user: 'ann' }, async (window) => {
  same(await violationsOf(window, ['/signin', ...usual]), {});
});

stage.test('pages_on_a_phone_are_accessible_and_never_scroll_sideways',
  { user: 'ann', viewport: PHONE }, async (window) => {
    same(await violationsOf(window, ['/signin', ...usual.slice(0, 8)]), {});
    for (const path of [...usual, ...forged]) {
      await window.visit(path);
      same([path, ...await window.page.evaluate(overflowing)], [path]);
    }
  });

stage.test('pages_do_not_shift_while_they_load', { user: 'ann' }, async (window) => {
  for (const path of [...usual, ...forged]) {
    await window.visit(path);
    same([path, ...await window.layoutShifts()], [path]);
  }
});

stage.test('pages_show_hostile_texts_as_text', { user: 'ann' }, async (window) => {
  for (const path of [...forged, `/p/default/search?q=${encodeURIComponent(HOSTILE)}`]) {
    await window.visit(path);
    same([path, ...await window.page.evaluate(injected)], [path]);
    same([path, ...window.takeProblems()], [path]);
  }
  await window.visit(forged[0]);
  ok((await window.page.getByRole('main').innerText()).includes('<script class=injected>alert(2)'));
});

stage.test('pages_without_scripts_have_their_content',
  { user: 'ann', javaScriptEnabled: false }, async (window) => {
    const { page } = window;
    for (const path of usual) {
      await window.visit(path);
      ok(await page.getByRole('heading', { level: 1 }).count() === 1, path);
      // Controls that need scripts are hidden without them.
      for (const button of await page.getByRole('main').getByRole('button').all()) {
        ok(await button.evaluate(({ form, type }) => form && type === 'submit'),
          `${path}: ${await button.innerText()}`);
      }
    }
  });

/** Controls that cannot be focused or do not show it. */
function unfocused() {
  const bad = [];
  for (const element of document.querySelectorAll('a[href], button, input, select, textarea, summary')) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.disabled) continue;
    element.focus({ focusVisible: true });
    const isSeen = [null, '::after'].some((part) => {
      const { content, outlineStyle, outlineWidth } = getComputedStyle(element, part);
      const exists = !part || content !== 'none';
      return exists && outlineStyle !== 'none' && outlineWidth !== '0px';
    });
    if (document.activeElement !== element || !isSeen) bad.push(element.outerHTML.slice(0, 200));
  }
  return bad;
}

stage.test('pages_show_the_focus_on_every_control', { user: 'ann' }, async (window) => {
  const { page } = window;
  for (const path of usual) {
    await window.visit(path);
    // The form of a new item begins with its first field, that of a rule with its text. The
    // browser focuses them after the page has loaded.
    const focused = () => page.evaluate(() => document.querySelector('main [autofocus]')
      === document.activeElement.closest('[autofocus]'));
    await untilSame(focused, true);
    await page.keyboard.press('Tab');
    const isRule = path.includes('/edit?index=');
    const first = path.includes('/new?kind=') ? '' : isRule ? 'button primary' : 'skip';
    same([path, await page.evaluate(() => document.activeElement.className)], [path, first]);
    same([path, ...await page.evaluate(unfocused)], [path]);
  }
});
