#!/usr/bin/env node
// The command `reqlore`: the native binary with the same arguments.
'use strict';

require('../lib/node-version.cjs');
const { launch } = require('../lib/launch.cjs');

launch(process.argv.slice(2), process.env);
