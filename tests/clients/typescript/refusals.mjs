// Errors that clients get when a server over HTTP refuses them. Both SDKs throw an HTTP error with the
// body in its message.

import { expect, expectMatch, refused } from './expect.mjs';

const ignore = () => {};

/** A revoked token gets the same error as an unknown one. */
async function wrongToken(contender, server) {
  const token = server.user('eve', 'user');
  server.run('user', 'disable', 'eve');
  const error = await refused(contender.connect(server.withToken(token), ignore));
  // If the newer SDK discovers the server first, it drops the body.
  expectMatch('message', error.message, /valid token is required|requires authorization/);
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
  ['an invalid token is refused with a message', wrongToken],
  ['a reader sees no writing tool and cannot call one', readerWrites],
];
