import { start, ToolError } from 'reqlore';

const client = await start({ root: process.argv[2] ?? '.', toolsets: ['backlog'], log: 'warn' });
try {
  const made = await client.callTool({
    name: 'create_epic',
    arguments: { title: 'Sign in without a password', priority: 2 },
  });
  const { reference_id, version } = made.structuredContent;
  await client.callTool({
    name: 'update_epic',
    arguments: { epic: reference_id, status: 'In Progress', if_version: version },
  });
  const { structuredContent } = await client.callTool({
    name: 'get_item',
    arguments: { reference: reference_id },
  });
  const { item } = structuredContent;
  // get_item also reads decisions and rules, which have other fields.
  if ('reference_id' in item) console.log(`${item.reference_id} ${item.status}: ${item.title}`);

  await client.callTool({ name: 'get_item', arguments: { reference: 'EP-999' } });
} catch (error) {
  if (!(error instanceof ToolError)) throw error;
  console.log(`${error.tool}: ${error.kind}: ${error.message}`);
} finally {
  await client.close();
}
