// Stored texts on pages: tables, anchors, images of the project, task lists and the preview.

import { deepStrictEqual as same, match, ok } from 'node:assert';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { BOARD, arrive, Stage, untilSame } from './browser.mjs';
import { Server } from './server.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const TEXT = `# Goals

| item | price |
|------|------:|
| card | 1     |

See [costs](#costs-of-a-card), US-404 and EP-001.

- [ ] design
- [x] build
  - [ ] test

![plan](../../../docs/plan.png)

# Costs of a card

`;
const FOLDER = '.reqlore/backlog/epics';
const EPIC = '/p/default/item/EP-001';
const stage = new Stage(() => Server.solo(({ project }) => {
  mkdirSync(join(project, 'docs'));
  writeFileSync(join(project, 'docs/plan.png'), Buffer.from(PNG, 'base64'));
  writeFileSync(join(project, 'docs/fake.png'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  mkdirSync(join(project, FOLDER), { recursive: true });
  const paragraphs = 'A card costs money.\n\n'.repeat(80);
  writeFileSync(join(project, FOLDER, 'EP-001.md'), `---\ntitle: Pay\n---\n\n${TEXT}${paragraphs}`);
}));

/** Opens a page in the session of the local user, which one window began. */
async function open(window, path) {
  const { page, context, server } = window;
  if (server.cookies) {
    await context.addCookies(server.cookies);
  } else {
    await page.goto(server.link);
    await arrive(page, BOARD);
    server.cookies = await context.cookies();
  }
  await window.visit(path);
}

function storedText() {
  const folder = join(stage.server.project, FOLDER);
  return readFileSync(join(folder, readdirSync(folder).find((name) => /^EP-001/.test(name))), 'utf8');
}

stage.test('text_has_tables_images_anchors_and_links', {}, async (window) => {
  await open(window, EPIC);
  const { page } = window;
  const price = page.getByRole('cell', { name: '1' });
  same(await price.evaluate((cell) => getComputedStyle(cell).textAlign), 'right');
  await untilSame(() => page.getByRole('img', { name: 'plan' }).evaluate((image) => image.naturalWidth), 1);
  same(await page.locator('.prose').getByRole('link', { name: 'US-404' }).count(), 0);
  await page.getByRole('link', { name: 'costs', exact: true }).click();
  const heading = page.getByRole('heading', { name: 'Costs of a card' });
  await untilSame(async () => (await heading.boundingBox()).y < 300, true);
  match(page.url(), /#text-costs-of-a-card$/);
  same(await window.violations(), []);
  const image = await page.request.get('/p/default/files/docs/plan.png');
  same([image.headers()['content-type'], image.headers()['x-content-type-options']], ['image/png', 'nosniff']);
  for (const path of ['docs/fake.png', '.reqlore/backlog/epics/EP-001.md', 'docs%2F..%2F..%2Fa.png']) {
    same([path, (await page.request.get(`/p/default/files/${path}`)).status()], [path, 404]);
  }
});

for (const javaScriptEnabled of [true, false]) {
  const name = javaScriptEnabled ? 'with' : 'without';
  stage.test(`task_is_ticked_and_undone_${name}_scripts`, { javaScriptEnabled }, async (window) => {
    await open(window, EPIC);
    const before = storedText();
    const { page } = window;
    const box = page.getByRole('checkbox', { name: 'Task 3 is done' });
    same(await box.getAttribute('aria-checked'), 'false');
    if (javaScriptEnabled) {
      await box.focus();
      await page.keyboard.press('Space');
    } else {
      await box.click();
    }
    await page.locator('#done').getByText('EP-001 was saved.').waitFor();
    same(await box.getAttribute('aria-checked'), 'true');
    ok(storedText().includes(TEXT.replace('- [ ] test', '- [x] test')));
    if (javaScriptEnabled) ok(await box.evaluate((one) => one === document.activeElement));
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('The change of EP-001 was undone.').first().waitFor();
    await untilSame(() => box.getAttribute('aria-checked'), 'false');
    ok(storedText().includes(TEXT) && before.includes(TEXT));
  });

  stage.test(`preview_shows_the_text_${name}_scripts`, { javaScriptEnabled }, async (window) => {
    await open(window, `${EPIC}/edit`);
    const { page } = window;
    await page.getByLabel('Description').fill('A **bold** text\n\n![plan](/docs/plan.png)');
    await page.getByRole('button', { name: 'Preview' }).click();
    const preview = page.getByRole('region', { name: 'Preview' });
    same(await preview.locator('strong').innerText(), 'bold');
    same(await preview.getByRole('img').getAttribute('src'), '/p/default/files/docs/plan.png');
    match(await page.getByLabel('Description').inputValue(), /^A \*\*bold\*\*/);
    if (javaScriptEnabled) same(await window.violations(), []);
    ok(storedText().includes('# Goals'));
  });
}
