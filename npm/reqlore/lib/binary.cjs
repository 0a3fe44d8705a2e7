// Where the native binary for this machine is, and what to say when there is none.
//
// The package manager has already chosen the package by `os`, `cpu` and `libc`; old ones ignore
// `libc` and install two, and a copied node_modules holds those of another machine.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const PLATFORMS = require('../platforms.json');

/** No binary can be started; the message says why and what to do. */
class NoBinary extends Error {
  name = 'NoBinary';
}

/** The file to start: what REQLORE_BINARY names, else the one in the package for this machine. */
function binary(env = process.env) {
  if (env.REQLORE_BINARY) return named(env.REQLORE_BINARY);
  const platform = platformOf(thisMachine());
  const found = platform && resolve(platform);
  if (found) return found;
  const { version, optionalDependencies = {} } = require('../package.json');
  const names = Object.keys(PLATFORMS);
  throw new NoBinary(explain({
    machine: thisMachine(),
    version,
    published: names.filter((name) => packageOf(name) in optionalDependencies),
    installed: names.filter(resolve),
  }));
}

function named(file) {
  const found = path.resolve(file);
  try {
    fs.accessSync(found, fs.constants.X_OK);
  } catch ({ code }) {
    throw new NoBinary(`REQLORE_BINARY names ${found}, which can't be run (${code}).`);
  }
  return found;
}

function thisMachine() {
  const { platform: os, arch: cpu } = process;
  return os === 'linux' ? { os, cpu, libc: libcOfNode() } : { os, cpu };
}

/** The loader that this Node asks for; a static one tells nothing, and then neither does ours. */
function libcOfNode() {
  const head = Buffer.alloc(4096);
  const file = fs.openSync(process.execPath, 'r');
  fs.readSync(file, head, 0, head.length, 0);
  fs.closeSync(file);
  return head.includes('/ld-linux') ? 'glibc' : 'musl';
}

/** The name of a machine's row in the table. */
function platformOf({ os, cpu, libc }) {
  return Object.keys(PLATFORMS).find((name) => {
    const row = PLATFORMS[name];
    return row.os === os && row.cpu === cpu && row.libc === libc;
  });
}

function packageOf(platform) {
  return `@reqlore/${platform}`;
}

function fileOf(platform) {
  return PLATFORMS[platform].os === 'win32' ? 'bin/reqlore.exe' : 'bin/reqlore';
}

function resolve(platform) {
  try {
    return require.resolve(`${packageOf(platform)}/${fileOf(platform)}`);
  } catch {
    return undefined;
  }
}

/** Why there is no binary; `published` and `installed` are names of rows of the table. */
function explain({ machine, version, published, installed }) {
  const platform = platformOf(machine);
  if (platform && published.includes(platform)) return missing(platform, installed);
  const { os, cpu, libc } = machine;
  const words = [os, cpu, libc].filter(Boolean).join(' ');
  const lines = [
    `reqlore ${version ?? 'in a checkout'} has no binary for ${words}.`,
    `There are binaries for: ${published.join(', ') || 'no platform'}.`,
  ];
  if (os === 'win32') {
    lines.push('On Windows it runs in WSL: `wsl npx -y reqlore`.');
  }
  lines.push(
    'To build one from source, with Rust and a clone of the repository:',
    '  cargo install --path app --locked',
    'Then start the `reqlore` that Cargo installed, or name it in REQLORE_BINARY.',
  );
  return lines.join('\n');
}

function missing(platform, installed) {
  const name = packageOf(platform);
  if (installed.length) {
    return [
      `${name}, which holds the binary for this machine, is not installed, but ` +
        `${installed.map(packageOf).join(' and ')} is: node_modules was made on another machine.`,
      'Delete node_modules and install again on this one.',
    ].join('\n');
  }
  return [
    `${name}, which holds the binary for this machine, is not installed. It is an optional ` +
      'dependency: npm leaves it out with --omit=optional, with `omit` or `optional` in an ' +
      '.npmrc, and by a lock file that was made without it.',
    'Install again with it (and with -g, if it was so):',
    '  npm install --include=optional reqlore',
    'or name another binary in REQLORE_BINARY.',
  ].join('\n');
}

module.exports = { NoBinary, binary, explain, fileOf, libcOfNode, packageOf, platformOf };
