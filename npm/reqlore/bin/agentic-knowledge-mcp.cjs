#!/usr/bin/env node
// The command `agentic-knowledge-mcp`: the same server with the tools for documentation alone, so
// that a configuration of the server of that name keeps working. A flag or a variable of the user
// still chooses other tools.
'use strict';

const { launch } = require('../lib/launch.cjs');

// What the other server's command line did beside serving: it fetched documentation.
const FETCHING = ['create', 'init', 'refresh', 'status'];

const args = process.argv.slice(2);
if (FETCHING.includes(args[0])) {
  process.stderr.write(
    `agentic-knowledge-mcp: \`${args[0]}\` is no command here: Reqlore fetches no ` +
    'documentation. Put the files into a folder and name it in .knowledge/config.yaml as the ' +
    'local_path of a docset (`reqlore check` says what is wrong there). To set up a client, use ' +
    '`reqlore init`.\n',
  );
  process.exitCode = 2;
} else {
  const REQLORE_TOOLSETS = process.env.REQLORE_TOOLSETS || 'docsets';
  launch(args, { ...process.env, REQLORE_TOOLSETS });
}
