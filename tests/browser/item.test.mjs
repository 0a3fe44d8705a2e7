// Items: created, edited, compared, linked and deleted on their pages, and two tabs in conflict.

import { deepStrictEqual as same, match, ok, rejects } from 'node:assert';

import { arrive, Stage } from './browser.mjs';
import { shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const CONFLICT = /status of 409/;
const REFUSED = /status of 4(03|22)/;
let items;
const stage = new Stage(async () => {
  const server = await Server.team();
  items = await shop((name, args) => server.call(name, args));
  return server;
});
const pathOf = (reference, rest = '') => `/p/default/item/${reference}${rest}`;
const read = (reference) => stage.server.call('get_item', { reference });

/** Creates a requirement with the form of its story and returns its reference. */
async function create(page, title) {
  await page.goto(pathOf(items.story));
  await page.getByRole('link', { name: 'All fields of this requirement' }).click();
  await page.getByLabel('Title').fill(title);
  await page.getByLabel('Type').selectOption('Functional');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await arrive(page, /\/item\/REQ-\d+/);
  return page.url().match(/REQ-\d+/)[0];
}

for (const javaScriptEnabled of [true, false]) {
  const name = javaScriptEnabled ? 'with' : 'without';
  stage.test(`item_is_created_and_edited_${name}_scripts`,
    { user: 'ben', javaScriptEnabled }, async ({ page }) => {
      const reference = await create(page, 'Gift cards');
      await page.getByRole('link', { name: 'Edit' }).click();
      await page.getByLabel('Title').fill('Gift vouchers');
      await page.getByLabel('Description').fill('They are **paid** with the card.');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('heading', { name: 'Gift vouchers' }).waitFor();
      same(await page.locator('.prose strong').innerText(), 'paid');
      const { item } = await read(reference);
      same([item.title, item.description], ['Gift vouchers', 'They are **paid** with the card.']);
    });
}

stage.test('item_form_changes_only_what_the_user_changed', { user: 'ben' }, async ({ page }) => {
  const before = (await read(items.requirement)).item;
  await page.goto(pathOf(items.requirement, '/edit'));
  await page.getByLabel('Title').fill('Payment by card');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('#done').getByText('was saved').waitFor();
  const after = (await read(items.requirement)).item;
  const { version, updated_at } = after;
  same(after, { ...before, title: 'Payment by card', version, updated_at });
});

stage.test('forms_saved_untouched_change_nothing', { user: 'ben' }, async ({ page }) => {
  const titles = ['Plain', '"a", <b> & \'c\'', 'safe \u202Egnp.exe'];
  const texts = ['a\rb\nc\r\nd', '\n\nlines above', 'no end  ', '\ttab\n\n\n', '</textarea>&#13;\u0085'];
  const tags = ['one, two', 'say "x"', '"'];
  const references = [];
  for (const [index, text] of texts.entries()) {
    const title = `${titles[index % titles.length]} ${index}`;
    const requirement = { user_story: items.story, type: 'Functional', priority: 1, title, tags };
    const created = await stage.server.call('create_requirement', { ...requirement, description: text });
    const entity = await stage.server.call('ixchel_create', { kind: 'idea', title, tags, body: text });
    references.push(created.reference_id, entity.id);
  }
  for (const reference of [...references, items.epic, items.criterion, items.decision]) {
    const before = await read(reference);
    await page.goto(pathOf(reference, '/edit'));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('#done').getByText('Nothing was changed').waitFor();
    same(await read(reference), before);
  }
  await page.goto(`/p/default/sections/${items.section}/edit?index=1`);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('#done').getByText('Nothing was changed').waitFor();
});

stage.test('titles_with_hidden_characters_are_encoded', { user: 'ben' }, async ({ page }) => {
  await stage.server.call('create_epic', { title: 'safe \u202Egnp.exe', priority: 1 });
  for (const path of ['board?kind=epic', 'table?kind=epic', 'tree', 'pictures']) {
    await page.goto(`/p/default/${path}`);
    const text = await page.locator('main').innerText();
    const shown = text + await page.locator('main').innerHTML();
    ok(shown.includes('safe \\u{202e}gnp.exe') && !shown.includes('\u202E'), path);
  }
});

stage.test('item_form_with_an_invalid_field_keeps_the_texts',
  { user: 'ben', expected: REFUSED }, async ({ page }) => {
    await page.goto(pathOf(items.other, '/edit'));
    await page.getByLabel('Title').fill('A title that stays');
    await page.getByLabel('Assignee').fill('unknown-user');
    await page.getByRole('button', { name: 'Save' }).click();
    match(await page.getByRole('alert').innerText(), /Nothing was saved/);
    same(await page.getByLabel('Title').inputValue(), 'A title that stays');
    same((await read(items.other)).item.title, 'No stored numbers');
  });

stage.test('item_edited_in_two_tabs_shows_the_conflict',
  { user: 'ben', expected: CONFLICT }, async ({ page, context }) => {
    const reference = await create(page, 'Edited twice');
    const other = await context.newPage();
    for (const tab of [page, other]) await tab.goto(pathOf(reference, '/edit'));
    // An unchanged form would show the new text without a conflict.
    await other.getByLabel('Description').fill('The text of the second tab.');
    await page.getByLabel('Description').fill('The text of the first tab.');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('#done').getByText('was saved').waitFor();
    await other.getByRole('button', { name: 'Save' }).click();
    match(await other.getByRole('alert').innerText(), /changed while you edited it/);
    // A refresh would replace the form, with the user's text in it.
    same(await other.locator('[data-events]').count(), 0);
    same(await other.getByLabel('Description').inputValue(), 'The text of the second tab.');
    match(await other.locator('.conflict').innerText(), /The text of the first tab\./);
    same((await read(reference)).item.description, 'The text of the first tab.');
    await other.getByRole('button', { name: /^Save over version/ }).click();
    await other.locator('#done').getByText('was saved').waitFor();
    same((await read(reference)).item.description, 'The text of the second tab.');
  });

stage.test('item_history_shows_the_changed_words', { user: 'ben' }, async ({ page }) => {
  const reference = await create(page, 'With a history');
  await page.goto(pathOf(reference, '/edit'));
  await page.getByLabel('Title').fill('With a longer history');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('link', { name: 'History' }).click();
  await page.getByRole('link', { name: /^Show the changes/ }).first().click();
  match(await page.locator('main ins').first().innerText(), /longer/);
  await page.getByRole('link', { name: 'Raw' }).click();
  match(await page.locator('#raw').innerText(), /With a longer history/);
});

stage.test('item_links_are_added_and_removed', { user: 'ben' }, async ({ page }) => {
  const reference = await create(page, 'Linked');
  await page.goto(pathOf(reference, '/links'));
  await page.getByLabel('Requirement', { exact: true }).fill(items.other);
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('button', { name: new RegExp(`Remove: .*${items.other}`) }).click();
  await page.getByRole('heading', { name: 'No links' }).or(page.getByText(items.story)).first().waitFor();
  same((await read(reference)).relationships.outgoing, []);
});

// The page of the deleted item may ask for its news once more.
const GONE = /status of 404/;

stage.test('item_is_deleted_after_a_question', { user: 'ben', expected: GONE }, async ({ page }) => {
  const reference = await create(page, 'Deleted');
  await page.getByRole('link', { name: 'Delete' }).click();
  await page.getByRole('button', { name: `Delete ${reference}` }).click();
  await arrive(page, (url) => !url.pathname.endsWith('/delete'));
  const notice = page.locator('#done');
  await notice.getByText(`${reference} was deleted.`).waitFor();
  ok(!page.url().includes('done='));
  await notice.getByRole('button', { name: 'Undo' }).click();
  await notice.getByRole('button', { name: 'Redo' }).waitFor();
  same((await read(reference)).item.title, 'Deleted');
  await notice.getByRole('button', { name: 'Redo' }).click();
  await notice.getByRole('button', { name: 'Undo' }).waitFor();
  await rejects(read(reference));
});

for (const javaScriptEnabled of [true, false]) {
  const name = javaScriptEnabled ? 'with' : 'without';
  stage.test(`item_is_restored_on_its_page_${name}_scripts`,
    { user: 'ben', javaScriptEnabled, expected: GONE }, async ({ page }) => {
      const reference = await create(page, 'Deleted and restored');
      const before = await read(reference);
      await stage.server.call('delete_item', { reference });
      await page.goto(pathOf(reference));
      match(await page.getByRole('main').innerText(), new RegExp(`${reference} was deleted by`));
      await page.getByRole('button', { name: `Restore ${reference}` }).click();
      await page.locator('#done').getByText(`${reference} was restored.`).waitFor();
      same(await read(reference), before);
      // An earlier version, and back.
      await stage.server.call('update_requirement', { requirement: reference, title: 'Another' });
      await page.goto(pathOf(reference, '/history'));
      await page.getByRole('button', { name: /^Restore version/ }).first().click();
      await page.locator('#done').getByText(`${reference} was restored.`).waitFor();
      same((await read(reference)).item.version, before.item.version);
      await page.locator('#done').getByRole('button', { name: 'Undo' }).click();
      await page.locator('#done').getByText(`The change of ${reference} was undone.`).waitFor();
      same((await read(reference)).item.title, 'Another');
    });
}

stage.test('item_has_no_edit_control_for_a_commenter',
  { user: 'cleo', expected: REFUSED }, async ({ page, server }) => {
    await page.goto(pathOf(items.requirement));
    for (const name of ['Edit', 'Delete', /^New/]) {
      same(await page.getByRole('main').getByRole('link', { name }).count(), 0);
    }
    const csrf = await page.locator('input[name=csrf]').first().inputValue();
    const { item } = await read(items.requirement);
    const forged = [
      [pathOf(items.requirement, '/edit'), {
        version: item.version, title: 'Forged', 'base-title': 'another',
      }],
      [pathOf(items.requirement, '/delete'), { version: item.version, cascade: 'yes' }],
      [pathOf(items.requirement, '/links'), { type: 'depends_on', target: items.other }],
      ['/p/default/new', { kind: 'epic', title: 'Forged', priority: '1' }],
    ];
    for (const [path, fields] of forged) {
      const answer = await page.request.post(path, {
        form: { csrf, ...fields }, headers: { Origin: server.origin }, maxRedirects: 0,
      });
      same([path, answer.status()], [path, 403]);
    }
    same(await read(items.requirement).then(({ item: { version } }) => version), item.version);
  });

stage.test('graph_leads_to_the_neighbours', { user: 'cleo' }, async ({ page }) => {
  await page.goto(`/p/default/graph?focus=${items.requirement}`);
  await page.locator('svg a').filter({ hasText: items.other }).first().click();
  await arrive(page, new RegExp(`focus=${items.other}`));
  await page.locator('svg a').filter({ hasText: items.requirement }).first().waitFor();
});

stage.test('section_is_edited_on_its_page', { user: 'ben' }, async ({ page }) => {
  await page.goto('/p/default/sections');
  await page.getByRole('link', { name: 'payment', exact: false }).first().click();
  await page.getByRole('link', { name: 'Edit 1' }).click();
  await page.getByLabel('Text').fill('The shop SHALL answer within two seconds.');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The shop SHALL answer within two seconds.').waitFor();
  await page.getByRole('link', { name: 'History' }).click();
  await page.getByRole('link', { name: /^Show the changes/ }).first().click();
  match(await page.locator('.diff ins').first().innerText(), /two/);
});
