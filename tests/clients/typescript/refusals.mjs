// What clients see when a server over HTTP refuses them. Both SDKs make an error of HTTP of it, with
// the body in its message.

import { expect, expectMatch, refused } from './expect.mjs';

const ignore = () => {};

/** What counts no more looks like one that never did. */
async function wrongToken(contender, server) {
  const token = server.user('eve', 'user');
  server.run('user', 'disable', 'eve');
  const error = await refused(contender.connect(server.withToken(token), ignore));
  // Where the newer SDK discovers the server first, it keeps nothing of the body.
  expectMatch('message', error.message, /needs a valid token|requires authorization/);
}

async function readerWrites(contender, server) {
  const shown = server.withToken(server.user('bob', 'commenter'));
  const { client } = await contender.connect(shown, ignore);
  const { tools } = await client.listTools();
  expect('is there any tool', tools.length > 0, true);
  const writing = tools.filter((tool) => !tool.annotations.readOnlyHint);
  expect('tools that write', writing.map((tool) => tool.name), []);
  const given = { title: 'Not allowed', priority: 1 };
  const error = await refused(client.callTool({ name: 'create_epic', arguments: given }));
  expectMatch('message', error.message, /create_epic is a write operation; bob has read access only/);
  await client.close();
}

export const CHECKS = [
  ['a token that does not count is refused, in words', wrongToken],
  ['a reader sees no tool that writes, and can call none', readerWrites],
];
