#!/usr/bin/env node
// The command `agentic-knowledge-mcp`: the same server with the documentation tools only, so that
// clients configured for the server of that name keep working. A flag or a variable can select
// other tools.
'use strict';

require('../lib/node-version.cjs');
const { launch } = require('../lib/launch.cjs');

// Commands of the other server that download documentation.
const FETCHING = ['create', 'init', 'refresh', 'status'];

const args = process.argv.slice(2);
if (FETCHING.includes(args[0])) {
  process.stderr.write(
    `agentic-knowledge-mcp: \`${args[0]}\` is not supported: Reqlore fetches no documentation. ` +
    'Put the files into a folder and set it as the local_path of a docset in ' +
    '.knowledge/config.yaml (`reqlore check` reports errors). To configure a client, run ' +
    '`reqlore init`.\n',
  );
  process.exitCode = 2;
} else {
  const REQLORE_TOOLSETS = process.env.REQLORE_TOOLSETS || 'docsets';
  launch(args, { ...process.env, REQLORE_TOOLSETS });
}
