// Checks of the packages' content and installation.

import { deepStrictEqual as same, match, ok } from 'node:assert';
import { createHash } from 'node:crypto';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

import {
  BINARY, LAUNCHER, PLATFORM, PLATFORMS, PREFIX, ROOT, command, connected, install, installGlobally,
  isThere, pack, packageOf, printed, run, text, toolsOf,
} from './place.mjs';

// Semantic Versioning 2.0.0.
const SEMANTIC = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;

const BESIDE = join(PREFIX, 'lib/node_modules', packageOf(PLATFORM));

export let tarballs;

// S3: REQ-10.1
async function packs() {
  tarballs = await pack('first');
  const hashes = (files) => files.map((file) => (
    createHash('sha256').update(readFileSync(file)).digest('hex')
  ));
  same(hashes(await pack('second')), hashes(tarballs));
}

// S3: REQ-10.1, REQ-10.3
async function installsGlobally() {
  await installGlobally(tarballs);
  ok(isThere(command('reqlore')), 'no command reqlore');
  ok(isThere(command('agentic-knowledge-mcp')), 'no command agentic-knowledge-mcp');
  const platform = JSON.parse(text(BESIDE, 'package.json'));
  const { os, cpu, libc } = PLATFORMS[PLATFORM];
  same([platform.os, platform.cpu, platform.libc], [[os], [cpu], libc && [libc]]);
}

async function showsLicences() {
  for (const name of ['LICENSE-MIT', 'LICENSE-APACHE']) {
    ok(isThere(LAUNCHER, name), `the launcher has no ${name}`);
    ok(isThere(BESIDE, name), `the binary has no ${name}`);
  }
  const foreign = text(BESIDE, 'THIRD-PARTY-LICENSES');
  ok(/\bserde_json \d/.test(foreign), 'serde_json is linked, and its licence is not there');
}

async function hasNoDependencies() {
  const manifest = JSON.parse(text(LAUNCHER, 'package.json'));
  same([manifest.dependencies, manifest.scripts], [undefined, undefined]);
  same(manifest.optionalDependencies, { [packageOf(PLATFORM)]: manifest.version });
  match(manifest.mcpName, /^io\.github\.[\w-]+\/reqlore$/);
  ok(statSync(tarballs.at(-1)).size < 50_000, 'the launcher is large');
}

// S3: REQ-10.4
async function hasOneVersion() {
  const { version } = JSON.parse(text(LAUNCHER, 'package.json'));
  match(version, SEMANTIC);
  ok(text(ROOT, 'Cargo.toml').includes(`[workspace.package]\nversion = "${version}"\n`), version);
  same(await printed(command('reqlore'), ['--version']), `reqlore ${version}\n`);
  same(await printed(BINARY, ['--version']), `reqlore ${version}\n`);
  for (const folder of ['npm/reqlore', 'npm/generator', 'tests/npm']) {
    same(JSON.parse(text(ROOT, folder, 'package.json')).version, undefined);
  }
}

async function refusesUnknownPlatforms() {
  const tool = `${ROOT}/npm/pack`;
  const cases = [
    [['--binary', `riscv=${BINARY}`, '--out', 'out'], /the target is not in x86_64-unknown-linux-gnu, /],
    [['--binary', 'aarch64-apple-darwin=none', '--out', 'out'], /no file none/],
    [['--out', 'out'], /--binary TARGET=PATH is missing/],
  ];
  for (const [args, words] of cases) {
    const { code, stderr } = await run(tool, args);
    same(code, 2);
    match(stderr, words);
  }
}

async function explainsMissingDependency() {
  const prefix = `${PREFIX}-without`;
  rmSync(prefix, { recursive: true, force: true });
  await install([tarballs.at(-1)], '--global', '--prefix', prefix, '--omit', 'optional');
  const { code, stdout, stderr } = await run(`${prefix}/bin/reqlore`, []);
  same([code, stdout], [1, '']);
  match(stderr, new RegExp(`^reqlore: ${packageOf(PLATFORM)}, which holds .* is not installed`));
  match(stderr, /npm install --include=optional reqlore/);
}

/** Measures with a warm npm cache. Not a check, because machines differ. */
async function answersAfterInstall() {
  const begin = performance.now();
  await installGlobally(tarballs);
  await connected(command('reqlore'), [], {}, toolsOf);
  const seconds = (performance.now() - begin) / 1000;
  return `   ${seconds.toFixed(1)} s from npm install to the first answer`;
}

export const CHECKS = [
  ['two runs of npm/pack create the same tarballs', packs],
  ['npm install -g of the tarballs installs both commands', installsGlobally],
  ['the launcher has no dependencies and no scripts', hasNoDependencies],
  ['packages contain their licences and those of linked crates', showsLicences],
  ['crate, packages and command have the same semantic version', hasOneVersion],
  ['npm/pack refuses unknown platforms and binaries', refusesUnknownPlatforms],
  ['without the optional dependency the command explains the fix', explainsMissingDependency],
  ['a new installation answers its first client', answersAfterInstall],
];
