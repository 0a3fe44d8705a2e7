// Contents of projects: a usual one, and one of hostile texts.

/** Marks that a text of the project became an element. */
const ELEMENT = '<img src=x onerror=alert(1) class=injected>';
export const HOSTILE = `"'>${ELEMENT}<script class=injected>alert(2)</script>{{7*7}}`;
const LONG_WORD = 'Rechtsschutzversicherungsgesellschaften'.repeat(3);
const HOSTILE_TEXT = `${HOSTILE}

<svg class=injected onload=alert(3)></svg><iframe class=injected src="//other.example"></iframe>
<form class=injected action="https://other.example"><button>Sign in</button></form>
<style>body { display: none }</style><base href="https://other.example/">
<meta http-equiv=refresh content="0;url=https://other.example/">
<link rel=stylesheet href="https://other.example/style.css">

[script](javascript:alert(4)) [data](data:text/html,<script>alert(5)</script>)
![image](https://other.example/image.png "title\\" onerror=alert(6)")
[out](https://other.example/ "onclick=alert(7)") <https://other.example/>

\`\`\`"><img src=x onerror=alert(8) class=injected>
</code></pre><script class=injected>alert(9)</script>
\`\`\`

${LONG_WORD}

| a | ${LONG_WORD} |
|---|---|
| ${ELEMENT} | ${'wide '.repeat(60)} |

\u202Eright to left\u202C and <a id=injected name=injected href="#">an anchor</a>
`;

function setSection(call, section, text) {
  const index = '1';
  const context = { project_root: 'default', operation_description: 'Prepare a test' };
  return call('reqlix_set_requirements', { ...context, section, index, text });
}

const PAYOUT = { title: 'Pay out', priority: 2, tags: ['payout'], description: 'To *any* bank.' };

/** Creates a user story, changes and deletes it. */
async function deletedStory(call, fields) {
  const reference = (await call('create_user_story', fields)).reference_id;
  await call('update_user_story', { user_story: reference, status: 'Backlog' });
  await call('delete_item', { reference });
  return reference;
}

/** A shop with two epics, as a team has it. Returns the references. */
export async function shop(call) {
  const epic = (await call('create_epic', {
    title: 'Checkout', priority: 1, tags: ['payment'], status: 'In Progress', assignee: 'ann',
    description: 'Customers pay **without** an account.',
  })).reference_id;
  await call('create_epic', { title: 'Search', priority: 3 });
  const story = (await call('create_user_story', {
    epic, title: 'Pay as a guest', priority: 1, description: `As a guest, see ${epic}.`,
  })).reference_id;
  await call('create_user_story', { epic, title: 'Pay by invoice', priority: 2 });
  const criterion = (await call('create_acceptance_criteria', {
    user_story: story, description: 'WHEN a guest pays THEN no account is made.',
  })).reference_id;
  const requirement = (await call('create_requirement', {
    user_story: story, title: 'Card payment', priority: 2, type: 'Functional', status: 'Draft',
    description: 'The shop SHALL accept cards.\n\n- Visa\n- Mastercard', tags: ['card'],
  })).reference_id;
  const other = (await call('create_requirement', {
    user_story: story, title: 'No stored numbers', priority: 1, type: 'Non-Functional',
    status: 'Active', description: 'The shop SHALL NOT store card numbers.',
  })).reference_id;
  await call('create_relationship', { source: requirement, target: other, type: 'depends_on' });
  const decision = (await call('ixchel_create', {
    kind: 'decision', title: 'No accounts for guests', body: `Because of ${story}.`,
  })).id;
  await setSection(call, 'payment', 'The shop SHALL answer within a second.');
  const deleted = await deletedStory(call, { ...PAYOUT, epic });
  return { epic, story, criterion, requirement, other, decision, deleted, section: 'payment' };
}

/** The same shape with hostile titles, tags and texts. */
export async function hostile(call) {
  const text = { title: HOSTILE, description: HOSTILE_TEXT, priority: 1 };
  const epic = (await call('create_epic', { ...text, tags: ['<b>tag</b>'] })).reference_id;
  await call('create_epic', { title: LONG_WORD, priority: 4 });
  const story = (await call('create_user_story', { ...text, epic })).reference_id;
  const criterion = (await call('create_acceptance_criteria', {
    user_story: story, description: HOSTILE_TEXT,
  })).reference_id;
  const requirement = (await call('create_requirement', {
    ...text, user_story: story, type: 'Functional',
  })).reference_id;
  const other = (await call('create_requirement', {
    ...text, title: LONG_WORD, user_story: story, type: 'Functional',
  })).reference_id;
  await call('create_relationship', { source: requirement, target: other, type: 'depends_on' });
  const decision = (await call('ixchel_create', {
    kind: 'decision', title: HOSTILE, body: HOSTILE_TEXT,
  })).id;
  await call('update_requirement', { requirement, title: `${HOSTILE} again` });
  await setSection(call, 'general', HOSTILE_TEXT);
  const deleted = await deletedStory(call, { ...text, epic });
  return { epic, story, criterion, requirement, other, decision, deleted, section: 'general' };
}

/** The path of each page for these items, with one state of each that its links lead to. */
export function pages({ epic, story, criterion, requirement, decision, deleted, section }) {
  const item = (reference, view = '') => `item/${reference}${view}`;
  const [parent, focus] = [`parent=${story}`, `focus=${requirement}`];
  return [
    'board?kind=epic', 'board?kind=user_story', 'board?kind=requirement', 'tree', 'table',
    ...[epic, story, criterion, requirement, decision].map((reference) => item(reference)),
    ...['/links', '/history', '/raw', '/edit', '/delete'].map((view) => item(requirement, view)),
    item(decision, '/edit'), item(epic, '/print'), item(story, '/print'), 'new', `new?kind=requirement&${parent}`, `graph?${focus}`,
    'sections', `sections/${section}`, `sections/${section}/edit?index=1`,
    item(section, '/history'), item(deleted), item(deleted, '/history'), 'knowledge', 'docsets', 'pictures', 'search?q=pay', 'activity',
    'schema', 'admin/users', 'admin/tokens', 'admin/audit',
  ].map((page) => `/p/default/${page}`);
}
