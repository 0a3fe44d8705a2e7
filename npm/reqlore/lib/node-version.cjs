// Ends on a Node that cannot run the launcher. In the syntax of old versions, which parse it.
'use strict';

var OLDEST = 18;
var version = process.versions.node;
if (parseInt(version, 10) < OLDEST) {
  process.stderr.write(
    'reqlore: Node ' + version + ' is too old; install Node ' + OLDEST + ' or newer ' +
    '(https://nodejs.org), or build the program without Node: cargo install --path app --locked\n'
  );
  process.exit(1);
}
