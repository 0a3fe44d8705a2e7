// Finds the native binary for this machine, or explains why it is missing.
//
// The package manager selects the package by `os`, `cpu` and `libc`. Old versions ignore `libc` and
// install two packages, and a copied node_modules contains those of another machine.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const PLATFORMS = require('../platforms.json');

/** No binary was found; the message has the reason and the next step. */
class NoBinary extends Error {
  name = 'NoBinary';
}

/** The path of the binary: REQLORE_BINARY, else the one in the package for this machine. */
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

/** The libc of this Node, from its loader; musl for a static Node, as that build is static. */
function libcOfNode() {
  const head = Buffer.alloc(4096);
  const file = fs.openSync(process.execPath, 'r');
  fs.readSync(file, head, 0, head.length, 0);
  fs.closeSync(file);
  return head.includes('/ld-linux') ? 'glibc' : 'musl';
}

/** The name of this machine's row in the table, if any. */
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

/** The message for a missing binary; `published` and `installed` are row names. */
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
    lines.push('On Windows, use WSL: `wsl npx -y reqlore`.');
  }
  lines.push(
    'To build one from source, with Rust and a clone of the repository:',
    '  cargo install --path app --locked',
    'Then run the `reqlore` that Cargo installed, or set REQLORE_BINARY to its path.',
  );
  return lines.join('\n');
}

function missing(platform, installed) {
  const name = packageOf(platform);
  if (installed.length) {
    return [
      `${name}, which holds the binary for this machine, is not installed, but ` +
        `${installed.map(packageOf).join(' and ')} is: node_modules is from another machine.`,
      'Delete node_modules and install again on this machine.',
    ].join('\n');
  }
  return [
    `${name}, which holds the binary for this machine, is not installed. It is an optional ` +
      'dependency: npm skips it with --omit=optional, with `omit` or `optional` in an .npmrc, ' +
      'and with a lock file that was written without it.',
    'Install it (with -g for a global installation):',
    '  npm install --include=optional reqlore',
    'or set REQLORE_BINARY to the path of another binary.',
  ].join('\n');
}

module.exports = { NoBinary, binary, explain, fileOf, libcOfNode, packageOf, platformOf };
