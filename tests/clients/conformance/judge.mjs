// Runs the official conformance suite for both protocol revisions against the product and against the
// same transport with the suite's fixtures (tests/conformance).
//
// Usage: judge.mjs SUITE FIXTURES OBSERVE BINARY (see ../run). One line per scenario; exit code 1 if
// any failed. The YAML files in this folder list the expected failures with reasons. An expected
// failure that passes is a failure.

import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { proxy } from './proxy.mjs';
import { Listening } from '../typescript/server.mjs';

const ERAS = ['2025-11-25', '2026-07-28'];

const [suite, fixtures, , binary] = process.argv.slice(2);
const here = import.meta.dirname;
let failures = 0;

function say(verdict, subject, words) {
  if (verdict === 'FAILED') failures += 1;
  console.log(`${verdict} conformance ${subject}: ${words}`);
}

function run(...words) {
  return new Promise((resolve) => {
    const options = { encoding: 'utf8', maxBuffer: 1 << 26 };
    execFile(process.execPath, [suite, 'server', ...words], options, (error, out, err) => {
      resolve({ code: error ? (error.code ?? 'none') : 0, words: `${out}\n${err}` });
    });
  });
}

/** The scenarios that a revision requires, as the suite froze them when it was released. */
function required(era) {
  const text = readFileSync(join(dirname(dirname(suite)), 'requirements', `${era}.yaml`), 'utf8');
  const [, listed] = text.match(/^server:\n((?: +- .*\n)+)/m);
  return listed.match(/[\w-]+(?=\n)/g);
}

/** Scenarios that are expected to fail. The suite evaluates those with single failing checks. */
function expected(file) {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const entries = lines.filter((line) => line.trimStart().startsWith('- '));
  const known = new Map();
  for (const line of entries) {
    const [, scenario, reason] = line.match(/^ +- ([\w-]+)(?::[\w-]+)? # (\S.*)$/);
    known.set(scenario, [...(known.get(scenario) ?? []), reason]);
  }
  return known;
}

async function judge(name, era, url, folder) {
  const subject = `${name} ${era}`;
  const file = join(here, `${name}-${era}.yaml`);
  const known = expected(file);
  const baseline = known.size ? ['--expected-failures', file] : [];
  // All scenarios: the frozen list, later ones and those that were not scored.
  const chosen = ['--suite', 'all', '--spec-version', era];
  const results = join(folder, `results-${era}`);
  const done = await run('--url', url, ...chosen, ...baseline, '--output-dir', results);
  const before = failures;
  const seen = new Set();
  // Deviations from the baseline that the suite reports: scenarios and single checks.
  const surprises = [...done.words.matchAll(/^  ✗ (\S+)$/gm)].map(([, name]) => name);
  for (const name of surprises) say('FAILED', subject, name);
  const [, stale = ''] = done.words.match(/^.*Stale baseline.*\n((?:  ✓ \S+\n)+)/m) ?? [];
  for (const [name] of stale.matchAll(/(?<=✓ )\S+/g)) say('FAILED', subject, `${name} passes`);
  const lines = /^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed/gm;
  for (const [, mark, scenario, passed, failed] of done.words.matchAll(lines)) {
    seen.add(scenario);
    const reasons = known.get(scenario);
    if (surprises.some((one) => one.split(':')[0] === scenario)) continue;
    if (reasons) say('expected', subject, `${scenario}: ${[...new Set(reasons)].join('; ')}`);
    else if (mark === '✓') say('ok', subject, `${scenario} (${passed})`);
    else say('FAILED', subject, `${scenario}: ${failed} of its checks failed`);
  }
  const missed = required(era).filter((scenario) => !seen.has(scenario));
  if (missed.length) say('FAILED', subject, `not run: ${missed.join(', ')}`);
  if (done.code !== 0) {
    process.stderr.write(done.words);
    if (failures === before) say('FAILED', subject, `exit code ${done.code}, see above`);
  }
}

async function runSuite(name, server, token) {
  const front = await proxy(server.url, token());
  try {
    for (const era of ERAS) await judge(name, era, front.url, server.folder);
  } finally {
    front.close();
  }
}

async function judgeProduct() {
  const product = new Listening(binary, ['--storage', 'sqlite']);
  try {
    const token = product.user('judge', 'user');
    await product.start('--transport', 'http', '--listen', '127.0.0.1:0');
    await runSuite('product', product, () => token);
    const code = await product.end();
    say(code === 0 ? 'ok' : 'FAILED', 'product', `the server ends by itself, exit code ${code}`);
  } finally {
    await product.end();
    product.remove();
  }
}

async function judgeFixtures() {
  const server = new Listening(fixtures);
  try {
    await server.start();
    await runSuite('fixtures', server, () => server.log().match(/reqlore_pat_\w+/)[0]);
  } finally {
    await server.end();
    server.remove();
  }
}

await judgeFixtures();
await judgeProduct();
process.exit(failures ? 1 : 0);
