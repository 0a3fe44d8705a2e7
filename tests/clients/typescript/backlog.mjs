// Checks of the backlog: tools, resources, prompts, completion and subscriptions. Each check relies on
// the data of the previous ones in CHECKS.

import { readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { LEGACY } from './clients.mjs';
import { expect, expectMatch, expectToolError, refused } from './expect.mjs';

const INVALID_PARAMS = -32602;
const CONFLICT = -32012;

const COLLECTIONS = [
  'epics', 'user-stories', 'requirements', 'requirements-types', 'relationship-types',
].map((name) => `requirements://${name}`);
const TEMPLATES = [
  'epic://{reference}',
  'epic://{reference}/hierarchy',
  'epic://{reference}/user-stories',
  'user-story://{reference}',
  'user-story://{reference}/requirements',
  'user-story://{reference}/acceptance-criteria',
  'requirement://{reference}',
  'requirement://{reference}/relationships',
  'acceptance-criteria://{reference}',
];
const PROMPTS = {
  analyze_requirement_quality: { requirement: 'REQ-001' },
  decompose_epic: { epic: 'EP-001' },
  generate_user_story: { epic: 'EP-001', idea: 'log in with a key' },
  suggest_acceptance_criteria: { user_story: 'US-001' },
  suggest_test_scenarios: { requirement: 'REQ-002' },
};
const EPIC = 'epic://EP-001';
const LINK = { source: 'REQ-002', target: 'REQ-001', type: 'depends_on' };

const callTool = ({ client }, name, given) => client.callTool({ name, arguments: given });

async function data(session, name, given = {}) {
  const result = await callTool(session, name, given);
  expect(`${name}: isError`, result.isError ?? false, false);
  return result.structuredContent;
}

const references = (items) => items.map((item) => item.reference_id);

async function creation(session) {
  const requirement = { user_story: 'US-001', priority: 1, type: 'Functional' };
  const create = async (name, given, reference) => {
    const made = await data(session, name, given);
    expect('reference', made.reference_id, reference);
    expectMatch('version', made.version, /^[0-9a-f]{16}$/);
  };
  await create('create_epic', { title: 'Accounts', priority: 1, tags: ['login'] }, 'EP-001');
  await create('create_user_story', { epic: 'EP-1', title: 'Log in', priority: 2 }, 'US-001');
  const lock = { ...requirement, title: 'Lock after five failures' };
  await create('create_requirement', lock, 'REQ-001');
  await create('create_requirement', { ...requirement, title: 'Größe ≤ 3 µm 🦀' }, 'REQ-002');
  const criterion = { user_story: 'US-1', description: 'Done.' };
  await create('create_acceptance_criteria', criterion, 'AC-001');
  expect('source', (await data(session, 'create_relationship', LINK)).reference_id, 'REQ-002');
}

async function reading(session) {
  const { epics } = await data(session, 'list_epics');
  expect('epics', references(epics), ['EP-001']);
  const tree = await data(session, 'epic_hierarchy', { epic: 'EP-001' });
  expect('stories', references(tree.user_stories), ['US-001']);
  const item = await data(session, 'get_item', { reference: 'REQ-002' });
  expect('links', references(item.relationships.outgoing), ['REQ-001']);
  await session.set('rules', '1', 'As REQ-002 says.');
  const links = { affects: ['REQ-002', 'rules:1'] };
  const made = await data(session, 'ixchel_create', { kind: 'decision', title: 'Why', links });
  const { incoming } = (await data(session, 'get_item', { reference: 'req-2' })).links;
  expect('incoming', incoming.map((link) => link.id), [made.id, 'rules:1']);
  const others = [[made.id, 'decision'], ['rules', 'section'], ['rules:1', 'section_requirement']];
  for (const [reference, kind] of others) {
    const found = await data(session, 'get_item', { reference });
    expect('item', [found.item.id, found.item.kind], [reference, kind]);
  }
  const story = await data(session, 'get_user_story_requirements', { user_story: 'US-001' });
  expect('requirements', story.requirements.length, 2);
}

async function searching(session) {
  const found = await data(session, 'search_global', { query: 'lock after failures' });
  expect('first hit', found.results[0].reference_id, 'REQ-001');
  const page = { epic: 'EP-001', limit: 1 };
  const first = await data(session, 'search_requirements', page);
  expect('total', first.total, 2);
  const cursor = first.next_cursor;
  const second = await data(session, 'search_requirements', { ...page, cursor });
  const both = references([...first.results, ...second.results]).sort();
  expect('both pages', both, ['REQ-001', 'REQ-002']);
}

async function changing(session) {
  const { version } = (await data(session, 'get_item', { reference: 'EP-001' })).item;
  const update = async (name, item) => {
    const changed = await data(session, name, { ...item, description: 'As it was meant.' });
    expect(name, changed.description, 'As it was meant.');
  };
  await update('update_epic', { epic: 'EP-001', if_version: version });
  await update('update_user_story', { user_story: 'US-001' });
  await update('update_requirement', { requirement: 'REQ-001' });
  await update('update_acceptance_criteria', { acceptance_criteria: 'AC-001' });
  const stale = { epic: 'EP-001', title: 'Late', if_version: version };
  const result = await callTool(session, 'update_epic', stale);
  expectToolError(result, /Conflict/, 'conflict', CONFLICT, 'if_version');
}

async function lists({ client }) {
  const { resources } = await client.listResources();
  const items = [EPIC, 'user-story://US-001', 'requirement://REQ-001', 'requirement://REQ-002'];
  const wanted = [...COLLECTIONS, ...items, 'acceptance-criteria://AC-001'].sort();
  expect('resources', resources.map((resource) => resource.uri).sort(), wanted);
  const { resourceTemplates } = await client.listResourceTemplates();
  expect('templates', resourceTemplates.map((template) => template.uriTemplate), TEMPLATES);
  for (const { name, description, mimeType } of [...resources, ...resourceTemplates]) {
    expectMatch(`${name}: description`, description, /\S/);
    expect(`${name}: mimeType`, mimeType, 'application/json');
  }
}

async function reads({ client }) {
  const numbers = { epic: 'EP-001', 'user-story': 'US-001', requirement: 'REQ-001' };
  numbers['acceptance-criteria'] = 'AC-001';
  const filled = TEMPLATES.map((uri) => uri.replace('{reference}', numbers[uri.split(':')[0]]));
  for (const uri of [...COLLECTIONS, ...filled]) {
    const { contents } = await client.readResource({ uri });
    expect('URIs', contents.map((content) => content.uri), [uri]);
    expect(`${uri}: mimeType`, contents[0].mimeType, 'application/json');
    expect(`${uri}: uri in the text`, JSON.parse(contents[0].text).uri, uri);
  }
}

async function unknownResource({ client, notFound }) {
  const error = await refused(client.readResource({ uri: 'epic://EP-404' }));
  expect('code', error.code, notFound);
  expectMatch('message', error.message, /EP-404/);
}

async function prompts({ client }) {
  const listed = (await client.listPrompts()).prompts;
  expect('prompts', listed.map((prompt) => prompt.name), Object.keys(PROMPTS).sort());
  for (const { name, description, arguments: taken } of listed) {
    expectMatch(`${name}: description`, description, /\S/);
    const given = PROMPTS[name];
    expect(`${name}: arguments`, taken.map((one) => one.name), Object.keys(given));
    const { messages } = await client.getPrompt({ name, arguments: given });
    expect(`${name}: roles`, messages.map((message) => message.role), ['user']);
    expectMatch(`${name}: text`, messages[0].content.text, new RegExp(Object.values(given)[0]));
  }
  const error = await refused(client.getPrompt({ name: 'decompose_epic', arguments: {} }));
  expect('code', error.code, INVALID_PARAMS);
  expectMatch('message', error.message, /epic/);
}

async function completion({ client }) {
  const complete = async (ref, name, value, wanted) => {
    const answer = (await client.complete({ ref, argument: { name, value } })).completion;
    expect(`values for ${value}`, [...answer.values].sort(), wanted);
    expect('total', answer.total, wanted.length);
  };
  const template = { type: 'ref/resource', uri: 'requirement://{reference}' };
  await complete(template, 'reference', 'REQ-0', ['REQ-001', 'REQ-002']);
  await complete({ type: 'ref/prompt', name: 'decompose_epic' }, 'epic', 'acc', ['EP-001']);
}

async function subscription(session) {
  if (session.isHttp && session.version === LEGACY) {
    // Notifications need a session, so the server does not offer subscriptions.
    const error = await refused(session.client.subscribeResource({ uri: EPIC }));
    expectMatch('message', error.message, /resources\/subscribe|subscri/i);
    return;
  }
  const news = await session.watch(EPIC);
  await data(session, 'update_epic', { epic: 'EP-001', title: 'Identity' });
  expect('news', [await news.next(), await news.next()].sort(), [EPIC, 'list']);
  // Replace the file atomically without the server, as git does.
  const folder = join(session.project, '.reqlore/backlog/epics');
  const file = join(folder, readdirSync(folder).find((name) => name.startsWith('EP-001-')));
  const saved = join(dirname(session.project), 'saved.md');
  writeFileSync(saved, `${readFileSync(file, 'utf8')}\nBy hand.\n`);
  renameSync(saved, file);
  expect('news of an edit by hand', await news.next(), EPIC);
  await news.end();
  const { contents } = await session.client.readResource({ uri: EPIC });
  expectMatch('description', JSON.parse(contents[0].text).description, /By hand/);
}

async function deletion(session) {
  await data(session, 'delete_relationship', LINK);
  const gone = await data(session, 'delete_item', { reference: 'EP-001', cascade: true });
  expect('deleted', gone.deleted.length, 5);
  const result = await callTool(session, 'get_item', { reference: 'EP-001' });
  expect('isError', result.isError, true);
  expectMatch('text', result.content[0].text, /deleted on/);
}

export const CHECKS = [
  ['backlog tools create items and relationships', creation],
  ['backlog tools read items', reading],
  ['backlog tools find items, page by page', searching],
  ['backlog tools change items and refuse stale versions', changing],
  ['resources and templates are listed', lists],
  ['every resource can be read by its URI', reads],
  ['a missing resource is the error of the revision', unknownResource],
  ['prompts are listed and fetched', prompts],
  ['references are completed', completion],
  ['subscribers are notified of changes by tools and editors', subscription],
  ['backlog tools delete items with their children', deletion],
];
