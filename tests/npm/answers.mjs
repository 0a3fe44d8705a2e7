// Prints a TypeScript program that assigns a server's answers to constants of their types.
//
// Usage: answers.mjs FOLDER   (an empty one; see programs.mjs)

import { start } from 'reqlore';

const [, , root] = process.argv;
const client = await start({ root, log: 'off' });
const rows = [];

async function call(name, args) {
  const { structuredContent } = await client.callTool({ name, arguments: args });
  const words = JSON.stringify(structuredContent, null, 2);
  rows.push(`export const _${rows.length}: Tools['${name}']['result'] = ${words};`);
  return structuredContent.reference_id;
}

try {
  const epic = await call('create_epic', { title: 'Sign in', priority: 1, tags: ['login'] });
  const story = { epic, title: 'With a key', priority: 2, description: `As ${epic} says.` };
  const user_story = await call('create_user_story', story);
  const description = `Given ${epic} and REQ-999.`;
  const acceptance_criteria =
    await call('create_acceptance_criteria', { user_story, description });
  const requirement = { user_story, title: 'Keys', priority: 3, type: 'Functional', description };
  const source = await call('create_requirement', requirement);
  const target = await call('create_requirement', { ...requirement, title: 'Their end' });
  await call('create_relationship', { source, target, type: 'depends_on' });
  for (const reference of [epic, user_story, source, target]) await call('get_item', { reference });
  await call('epic_hierarchy', { epic });
  await call('get_user_story_requirements', { user_story });
  await call('list_epics', {});
  await call('list_items', { kind: 'user_story' });
  await call('search_requirements', { query: 'keys' });
  await call('search_global', { query: 'sign in' });
  await call('update_epic', { epic, status: 'Done' });
  await call('update_user_story', { user_story, status: 'Done' });
  await call('update_requirement', { requirement: source, status: 'Active' });
  await call('update_acceptance_criteria', { acceptance_criteria, description: 'Then so.' });
  await call('delete_relationship', { source, target, type: 'depends_on' });
  const changes = [
    { create: 'epic', name: 'next', title: 'Sign out', priority: 2 },
    { create: 'user_story', epic: '$next', title: 'From any page', priority: 2 },
  ];
  await call('apply_changes', { changes });
  await call('delete_item', { reference: epic, cascade: true });
} finally {
  await client.close();
}
console.log(["import type { Tools } from 'reqlore';", ...rows].join('\n\n'));
