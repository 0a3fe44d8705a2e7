// The layout of pages: heads that stay, boards that scroll by themselves, rules in place, graph and print.

import { deepStrictEqual as same, match, ok } from 'node:assert';

import { arrive, Stage, untilSame } from './browser.mjs';
import { pages, shop } from './fixtures.mjs';
import { Server } from './server.mjs';

let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  const call = (name, args) => server.call(name, args);
  items = await shop(call);
  const changes = [];
  for (let number = 1; number <= 30; number++) {
    changes.push({ create: 'story', epic: items.epic, title: `Story ${number}`, priority: 2 });
  }
  for (const text of ['Orders are kept.', 'Prices have tax.']) {
    changes.push({ create: 'rule', section: 'payment', text });
  }
  await call('apply_changes', { changes });
  return server;
});

const path = (page) => `/p/default/${page}`;
const top = (locator) => locator.evaluate((element) => element.getBoundingClientRect().top);

/** The texts of the rules on the page of a section. */
const rules = (page) => page.locator('.rule .prose').allInnerTexts();

for (const width of [320, 390, 1024, 1920]) {
  stage.test(`pages_at_${width}_pixels_do_not_scroll_sideways`,
    { user: 'ann', viewport: { width, height: 800 } }, async (window) => {
      for (const one of [...pages(items), path('sections/payment/edit'), path('graph?focus=EP-001')]) {
        await window.visit(one);
        const { scrollWidth, clientWidth } = await window.page.evaluate(() => {
          const { scrollWidth, clientWidth } = document.documentElement;
          return { scrollWidth, clientWidth };
        });
        ok(scrollWidth <= clientWidth, `${one}: ${scrollWidth} > ${clientWidth}`);
      }
    });
}

stage.test('heads_stay_while_a_board_or_table_scrolls',
  { user: 'ann', viewport: { width: 1024, height: 700 } }, async ({ page }) => {
    for (const [address, part, head] of [
      ['board?kind=user_story', '.board', '.column h2'],
      ['table?kind=user_story', '.table-box', 'th'],
    ]) {
      await page.goto(path(address));
      const before = await top(page.locator(head).first());
      const scrolled = await page.locator(part).evaluate((element) => {
        element.scrollTo(0, 300);
        return [element.scrollTop, element.querySelector('.card, tbody td').getBoundingClientRect().top];
      });
      same(scrolled[0], 300);
      const after = await top(page.locator(head).first());
      ok(after > scrolled[1] && Math.abs(after - before) < 12, `${head}: ${before}, ${after}`);
      same(await page.evaluate(() => [scrollX, scrollY]), [0, 0]);
      ok(await top(page.locator('.side')) < 60);
    }
  });

stage.test('page_opens_also_at_the_end_of_a_scroll', { user: 'ann' }, async ({ page }) => {
  await page.goto(path('board'));
  const card = page.locator('.card > a[id]').first();
  const id = await card.getAttribute('id');
  await card.evaluate((link) => {
    navigation.addEventListener('navigate', () => {
      queueMicrotask(() => document.querySelector('.board').dispatchEvent(new Event('scrollend')));
    }, { once: true });
    link.click();
  });
  await page.locator('.tabs').waitFor();
  ok(page.url().endsWith(`/item/${id}`), page.url());
});

stage.test('board_keeps_its_scroll_position_after_a_visit', { user: 'ann' }, async ({ page }) => {
  await page.goto(path('board?kind=user_story'));
  const card = page.locator('.card > a').nth(20);
  await card.scrollIntoViewIfNeeded();
  const position = () => page.locator('.board').evaluate(({ scrollTop }) => Math.round(scrollTop));
  await page.waitForFunction(() => history.state?.scrolls);
  const before = await position();
  ok(before > 0);
  await card.click();
  await arrive(page, /\/item\//);
  await page.goBack();
  await untilSame(position, before);
});

stage.test('links_of_a_project_replace_only_the_main_column', { user: 'ann' }, async (window) => {
  const { page } = window;
  const current = () => page.locator('#side [aria-current]').innerText();
  await window.visit('/p/default/table?kind=epic');
  const count = page.locator('.list tbody tr');
  const rows = await count.count();
  await page.evaluate(() => { window.isSameDocument = true; });
  await page.locator('.title-link').first().press('Enter');
  await arrive(page, /item\/EP-\d+$/);
  const title = await page.locator('main h1').innerText();
  ok((await page.title()).includes(title), title);
  same(await page.evaluate(() => document.activeElement.id), 'main');
  await page.getByRole('link', { name: 'Tree' }).click();
  await arrive(page, /tree$/);
  same(await current(), 'Tree');
  await page.goBack();
  await page.goBack();
  await untilSame(() => count.count(), rows);
  same(await current(), 'Table');
  ok(await page.evaluate(() => window.isSameDocument));
  await page.getByRole('link', { name: 'CSV' }).click();
  match(page.url(), /table\?kind=epic$/);
});

stage.test('live_update_keeps_the_rows_that_have_not_changed', { user: 'ann' }, async (window) => {
  const { page, server } = window;
  await window.visit('/p/default/table?kind=epic');
  const rows = page.locator('.list tbody tr');
  await rows.evaluateAll((all) => { for (const row of all) row.isKept = true; });
  const id = (await page.locator('.list tbody .id').first().innerText()).trim();
  await server.call('update_epic', { id, title: 'Has another title' });
  await page.getByText('Has another title').waitFor();
  const kept = await rows.evaluateAll((all) => all.filter((row) => row.isKept).length);
  same(kept, await rows.count());
});

stage.test('heads_of_the_board_stay_on_a_phone',
  { user: 'ann', viewport: { width: 390, height: 844 } }, async ({ page }) => {
    await page.goto(path('board?kind=user_story'));
    const board = page.locator('.board');
    same(await board.evaluate((part) => { part.scrollTo(0, 900); return part.scrollTop > 0; }), true);
    same(await top(page.locator('.column h2').first()), await top(board));
  });

stage.test('wide_board_scrolls_by_itself',
  { user: 'ann', viewport: { width: 800, height: 700 } }, async ({ page }) => {
    await page.goto(path('board?kind=user_story'));
    const [board, whole] = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.querySelector('.board');
      const { documentElement } = document;
      return [scrollWidth > clientWidth, documentElement.scrollWidth > documentElement.clientWidth];
    });
    same([board, whole], [true, false]);
  });

stage.test('wide_screen_is_used_by_lists_and_not_by_texts',
  { user: 'ann', viewport: { width: 1920, height: 1000 } }, async ({ page }) => {
    for (const [address, part] of [['board', '.board'], ['table', '.table-box'], ['tree', '.tree']]) {
      await page.goto(path(address));
      const { width } = await page.locator(part).first().boundingBox();
      ok(width > 1600, `${address}: ${width}`);
    }
    await page.goto(path(`item/${items.requirement}`));
    ok((await page.locator('.prose').first().boundingBox()).width < 800);
  });

stage.test('item_on_a_phone_begins_with_its_fields',
  { user: 'ann', viewport: { width: 390, height: 844 } }, async ({ page }) => {
    await page.goto(path(`item/${items.story}`));
    ok(await top(page.locator('main .facts')) < await top(page.locator('.prose').first()));
    ok(await top(page.locator('main .facts .status').first()) < 500);
    await page.goto(path('tree'));
    const left = async (locator) => (await locator.boundingBox()).x;
    const row = page.locator('.tree .row').first();
    ok(await left(row.locator('.status')) >= await left(row.locator('input')));
  });

for (const javaScriptEnabled of [true, false]) {
  const name = javaScriptEnabled ? 'with' : 'without';
  stage.test(`rules_are_edited_added_and_moved_in_their_document_${name}_scripts`,
    { user: 'ben', javaScriptEnabled }, async ({ page, server }) => {
      const section = `scripts-${javaScriptEnabled}`;
      const [first, second, ...others] = ['One.', 'Two.', 'Three.'];
      const changes = [first, second, ...others].map((text) => ({ create: 'rule', section, text }));
      await server.call('apply_changes', { changes });
      await page.goto(path(`sections/${section}`));
      await page.getByRole('button', { name: 'Move 1 down' }).click();
      await page.locator('#done').getByText(`${section}:2 was moved`).waitFor();
      same(await rules(page), [second, first, ...others]);
      await page.getByRole('button', { name: 'Move 2 up' }).click();
      await page.locator('#done').getByText(`${section}:1 was moved`).waitFor();
      same(await rules(page), [first, second, ...others]);
      await page.getByRole('link', { name: 'Edit 2' }).click();
      await page.getByLabel('Text').waitFor();
      // The other rules stay around the form.
      same(await rules(page), [first, ...others]);
      const changed = `${second} Changed.`;
      await page.getByLabel('Text').fill(changed);
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('#done').getByText(`${section}:2 was saved`).waitFor();
      same(await rules(page), [first, changed, ...others]);
      await page.getByRole('link', { name: 'New rule before 2' }).click();
      await page.getByLabel('Text').fill('Between.');
      await page.getByRole('button', { name: 'Save' }).click();
      same(await rules(page), [first, 'Between.', changed, ...others]);
      await page.getByRole('link', { name: 'Edit 2' }).click();
      await page.getByText('Delete this rule').click();
      await page.getByRole('button', { name: 'Delete 2' }).click();
      await page.locator('#done').getByText('was deleted').waitFor();
      same(await rules(page), [first, changed, ...others]);
      await page.getByRole('main').getByRole('link', { name: 'New rule', exact: true }).click();
      await page.getByLabel('Text').fill('At the end.');
      await page.getByRole('button', { name: 'Save' }).click();
      same((await rules(page)).at(-1), 'At the end.');
      await page.locator('#done').getByRole('button', { name: 'Undo' }).click();
      await untilSame(async () => (await rules(page)).at(-1), others.at(-1));
    });
}

stage.test('move_of_a_rule_after_a_change_of_its_section_is_refused',
  { user: 'ben', expected: /status of 409/ }, async ({ page, server }) => {
    await page.goto(path('sections/payment'));
    await server.call('apply_changes', {
      changes: [{ create: 'rule', section: 'payment', text: 'Meanwhile.' }],
    });
    // In one step, because the page may replace the form by its new state at any time.
    await page.evaluate(() => {
      const button = document.querySelector('[aria-label="Move 1 down"]');
      button.form.elements.version.value = '00112233aabbccdd';
      button.click();
    });
    await page.getByText('The rule was not moved.').waitFor();
  });

stage.test('bad_key_of_a_section_is_refused_before_its_text', { user: 'ben' }, async ({ page }) => {
  await page.goto(path('sections'));
  const key = page.getByLabel('Key', { exact: true });
  await key.fill('Größe 1');
  await page.getByRole('button', { name: 'Write the first rule' }).click();
  same(await key.evaluate((input) => input.validity.patternMismatch), true);
  await key.fill('size-1');
  await page.getByRole('button', { name: 'Write the first rule' }).click();
  await page.getByLabel('Text').fill('Small.');
  await page.getByRole('button', { name: 'Save' }).click();
  same(await rules(page), ['Small.']);
  await page.goto(path('sections'));
  await page.getByRole('row').filter({ hasText: 'size-1' }).getByText('1 rule').waitFor();
});

stage.test('links_of_the_sections_lead_to_pages', { user: 'ben' }, async (window) => {
  await window.server.call('reqlix_get_instructions',
    { project_root: 'default', operation_description: 'Prepare a test' });
  await window.visit(path('sections'));
  const links = await window.page.locator('main table a').evaluateAll((all) => all.map(({ href }) => href));
  ok(links.length > 1);
  for (const link of links) await window.visit(link);
});

stage.test('graph_is_walked_with_the_keyboard', { user: 'cleo' }, async ({ page }) => {
  await page.goto(path(`graph?focus=${items.requirement}`));
  await page.locator('#picture').focus();
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press('ArrowRight');
  const first = await focused();
  ok([items.story, items.other].some((id) => first.includes(id)), first);
  await page.keyboard.press('ArrowDown');
  const second = await focused();
  ok(second !== first && !second.includes(items.requirement), second);
  await page.keyboard.press('ArrowLeft');
  ok((await focused()).includes(items.requirement));
  await page.keyboard.press('ArrowRight');
  const target = (await focused()).match(/\w+-\d+/)[0];
  await page.keyboard.press('Enter');
  await arrive(page, new RegExp(`focus=${target}&.*#picture`));
  await untilSame(() => page.evaluate(() => document.activeElement.id), 'picture');
  await page.keyboard.press('ArrowRight');
  ok((await focused()) !== '');
});

stage.test('print_has_no_navigation_and_all_text', { user: 'ann' }, async ({ page }) => {
  await page.emulateMedia({ media: 'print' });
  for (const address of [
    `item/${items.requirement}`, `item/${items.epic}`, 'sections/payment', 'tree', 'table', 'board',
    `item/${items.epic}/print`,
  ]) {
    await page.goto(path(address));
    for (const part of await page.locator('.top, .side, .tabs, .actions, button, main input').all()) {
      same([address, await part.isVisible()], [address, false]);
    }
    ok(await page.getByRole('heading', { level: 1 }).isVisible(), address);
    // Without the column of the navigation.
    ok((await page.locator('main').boundingBox()).width > 1000, address);
    const isCut = await page.evaluate(() => [...document.querySelectorAll('.board, .table-box')]
      .some(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight + 1));
    same([address, isCut], [address, false]);
  }
  await page.goto(path('tree'));
  ok(await page.getByText('Card payment').isVisible());
});

stage.test('epic_is_printed_with_its_parts', { user: 'ben' }, async ({ page }) => {
  await page.goto(path(`item/${items.epic}`));
  await page.getByRole('link', { name: 'Print with children' }).click();
  await arrive(page, /print$/);
  const ids = await page.locator('article').evaluateAll((all) => all.map(({ id }) => id));
  same(ids[0], items.epic);
  // A requirement is printed below its story.
  const story = ids.indexOf(items.story);
  ok(story > 0 && ids.slice(story).includes(items.requirement), ids.join());
  await page.emulateMedia({ media: 'print' });
  for (const article of await page.locator('article').all()) {
    same(await article.evaluate((element) => getComputedStyle(element).breakInside), 'avoid');
  }
});

stage.test('changed_pages_are_accessible', { user: 'ben' }, async (window) => {
  for (const address of [
    'sections', 'sections/payment', 'sections/payment/edit?index=1', 'sections/payment/edit?before=1',
    `graph?focus=${items.story}`, 'board?kind=user_story', 'table?kind=user_story', 'tree',
  ]) {
    await window.visit(path(address));
    for (const colorScheme of ['light', 'dark']) {
      await window.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      same([address, ...await window.violations()], [address]);
    }
  }
});
