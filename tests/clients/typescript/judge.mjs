// Tests the real binary with the official TypeScript clients.
//
// Usage: judge.mjs OBSERVE BINARY (see ../run). One line per check; exit code 1 if any failed.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import * as backlog from './backlog.mjs';
import { CONTENDERS, MODERN, Session } from './clients.mjs';
import {
  Mismatch, expect, expectAnswer, expectMatch, expectToolError, versionOf,
} from './expect.mjs';
import * as refusals from './refusals.mjs';

const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const NOT_FOUND = -32002;

const PARALLEL = 20;
const PATIENCE_MS = 20_000;

const READING_HINTS = ['readOnlyHint'];
const WRITING_HINTS = ['destructiveHint', 'openWorldHint'];
const HINTS = [...READING_HINTS, ...WRITING_HINTS];
const TYPING = ['type', 'enum', 'anyOf'];
/** The arguments of each tool, by its name. */
const ARGUMENTS = Object.fromEntries(
  Object.entries(JSON.parse(readFileSync(new URL('arguments.json', import.meta.url), 'utf8')))
    .map(([name, tool]) => [name, tool.arguments]),
);
const WRITING = Object.keys(ARGUMENTS)
  .filter((name) => /^(apply|claim|import|(ixchel_)?(create|update)|(reqlix_)?delete|reqlix_set)/.test(name));
const TEXT = 'Größe ≤ 3 µm, "quoted" \\ slashed, and a crab: 🦀.\n\n- one item\n- another one';

// Checks, in the order of execution.

async function handshake({ client, version, expectedVersion }) {
  expect('protocol version', version, expectedVersion);
  expect('server', client.getServerVersion().name, 'reqlore');
  expectMatch('server version', client.getServerVersion().version, /^\d+\.\d+\.\d+/);
  expectMatch('instructions', client.getInstructions(), /reqlix_get_instructions/);
}

async function tools({ client }) {
  const listed = (await client.listTools()).tools;
  expect('names', listed.map((tool) => tool.name), Object.keys(ARGUMENTS).sort());
  for (const tool of listed) {
    expectMatch(`${tool.name}: title`, tool.title, /\S/);
    expectMatch(`${tool.name}: description`, tool.description, /\S/);
    const given = Object.keys(tool.inputSchema.properties).sort();
    expect(`${tool.name}: arguments`, given, [...ARGUMENTS[tool.name]].sort());
    expectTyped(`${tool.name}: inputSchema`, tool.inputSchema);
    expectTyped(`${tool.name}: outputSchema`, tool.outputSchema);
    expectHints(tool);
  }
}

function expectTyped(where, schema) {
  expect(`${where}: type`, schema.type, 'object');
  for (const [name, value] of Object.entries(schema.properties)) {
    expect(`${where}: ${name} says what it takes`, TYPING.some((word) => word in value), true);
  }
}

/** Destructive and idempotent hints have no meaning for read-only tools. */
function expectHints({ name, annotations }) {
  const reads = !WRITING.includes(name);
  const given = HINTS.filter((hint) => typeof annotations[hint] === 'boolean');
  expect(`${name}: hints`, given, reads ? READING_HINTS : WRITING_HINTS);
  expect(`${name}: readOnlyHint`, annotations.readOnlyHint === true, reads);
}

async function instructions(session) {
  const result = await session.call('reqlix_get_instructions');
  const stored = join(session.project, 'docs/development/requirements/AGENTS.md');
  const data = { project: 'default', version: versionOf(result) };
  expectAnswer(result, readFileSync(stored, 'utf8'), data);
}

async function missingSection(session) {
  const place = { project: 'default', section: 'missing' };
  expectNoRequirements(await session.get('missing'), place);
}

function expectNoRequirements(result, place) {
  const data = { ...place, version: null, count: 0, notes: ['This project has no sections yet.'] };
  expectAnswer(result, 'No requirements in this section.', data, /no sections yet/);
}

async function roundTrip(session) {
  const place = { project: 'default', section: 'round_trip' };
  const requirement = { index: '1.2', text: TEXT };
  const stored = `**1.2.** ${TEXT}`;

  const set = await session.set('round_trip', '1.2', TEXT);
  const version = versionOf(set);
  const change = { version, reindexed: [], warnings: [] };
  expectAnswer(set, stored, { ...place, ...requirement, ...change });

  const got = await session.get('round_trip');
  expectAnswer(got, `${stored}\n`, { ...place, version, count: 1 });

  const deleted = await session.delete('round_trip', '1.2');
  expectAnswer(deleted, stored, { ...place, ...requirement, version: null });

  expectNoRequirements(await session.get('round_trip'), place);
}

async function badSection(session) {
  const result = await session.get('../x');
  const words = /section: "\.\.\/x" /;
  expectToolError(result, words, 'invalid_argument', INVALID_PARAMS, 'section');
}

async function knowledge(session) {
  const write = (path, text) => {
    const file = join(session.project, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  };
  write('.ixchel/decisions/dec-1d2c8f.md', '---\nid: dec-1d2c8f\ntags: [storage]\n---\nFiles first.\n');
  write('.knowledge/config.yaml', 'docsets: {react: {version: 18.2}}\n');
  const data = async (name, given) =>
    (await session.client.callTool({ name, arguments: given })).structuredContent;
  const found = await data('ixchel_search', { query: 'files first' });
  expect('hits', found.hits.map((hit) => hit.id), ['dec-1d2c8f']);
  const tags = await data('ixchel_tags', {});
  expect('tags', tags, { total: 1, tags: [{ tag: 'storage', count: 1 }] });
  const { docsets } = await data('list_docsets', {});
  expect('docsets', docsets.map((docset) => docset.name), ['react']);
}

async function missingRequirement(session) {
  await session.set('sparse', '1', 'The only one.');
  const result = await session.delete('sparse', '2');
  const hint = /the rules are: 1$/;
  expectToolError(result, /^Requirement not found\.$/, 'not_found', NOT_FOUND, 'index', hint);
}

async function unknownTool(session) {
  // Since 2026-07-28, -32601 is HTTP status 404, which the client reports as a missing server.
  const code = session.isHttp && session.version === MODERN ? INVALID_PARAMS : METHOD_NOT_FOUND;
  const answer = await session.call('reqlix_no_such_tool').catch((error) => error);
  expect('code', answer.code, code);
  expectMatch('message', answer.message, /reqlix_no_such_tool/);
}

async function parallelGets(session) {
  const version = versionOf(await session.set('read', '1', 'Read me.'));
  const data = { project: 'default', section: 'read', version, count: 1 };
  const results = await Promise.all(Array.from({ length: PARALLEL }, () => session.get('read')));
  for (const result of results) {
    expectAnswer(result, '**1.** Read me.\n', data);
  }
}

async function parallelSets(session) {
  const stored = (index) => `**${index}.** Number ${index}.`;
  const indices = Array.from({ length: PARALLEL }, (_, at) => String(at + 1));
  const isOdd = (_, at) => at % 2 === 0;
  const isEven = (_, at) => at % 2 === 1;
  const shuffled = [...indices.filter(isOdd), ...indices.filter(isEven).reverse()];
  const setting = shuffled.map((index) => session.set('written', index, `Number ${index}.`));
  for (const [at, result] of (await Promise.all(setting)).entries()) {
    expectAnswer(result, stored(shuffled[at]), { index: shuffled[at] });
  }

  const result = await session.get('written');
  const data = { project: 'default', section: 'written', version: versionOf(result) };
  expectAnswer(result, `${indices.map(stored).join('\n\n')}\n`, { ...data, count: PARALLEL });
}

// The newer SDK cancels a stream with a message that lacks a header required by 2026-07-28, and reports
// the refusal. It also closes the connection, which ends the stream.
const OWN_FAULT = /"code":-32020,"message":"missing required Mcp-Method header"/;

async function logsNothing({ complaints, isHttp, version }) {
  const tolerated = (complaint) => isHttp && version === MODERN && OWN_FAULT.test(complaint);
  expect('logged', complaints.filter((complaint) => !tolerated(complaint)), []);
}

const CHECKS = [
  ['handshake negotiates the version and introduces the server', handshake],
  ['tools/list returns all tools, sorted and fully described', tools],
  ['reqlix_get_instructions creates AGENTS.md and returns its text', instructions],
  ['get of a missing section reports it', missingSection],
  ['set, get and delete agree on text and structured content', roundTrip],
  ['an invalid section is a tool error that names it', badSection],
  ['answers of knowledge and docset tools match their schemas', knowledge],
  ['delete of a missing requirement reports it', missingRequirement],
  ['an unknown tool is the JSON-RPC error of its revision and transport', unknownTool],
  [`${PARALLEL} parallel gets are all answered`, parallelGets],
  [`${PARALLEL} parallel sets all land`, parallelSets],
  ...backlog.CHECKS,
  ['the SDK logs no warnings or errors', logsNothing],
];

// Results.

/** Prints one line per check and counts the failures. */
class Verdicts {
  failures = 0;

  constructor(client) {
    this.client = client;
  }

  async report(title, work, silent = false) {
    try {
      const value = await inTime(work());
      if (!silent) console.log(`ok ${this.client}: ${title}`);
      return value;
    } catch (error) {
      this.failures += 1;
      console.log(`FAILED ${this.client}: ${title}: ${describe(error)}`);
    }
  }
}

async function inTime(work) {
  let timer;
  const late = new Promise((_, reject) => {
    const error = new Error(`no answer within ${PATIENCE_MS} ms`);
    timer = setTimeout(() => reject(error), PATIENCE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The reason of a failure in one line. */
function describe(error) {
  const words = error.message.replace(/\s+/g, ' ').trim();
  return error instanceof Mismatch ? words : `${error.name}: ${words}`;
}

/** Collects warnings and errors that the SDKs print instead of throwing them. */
function gatherComplaints() {
  const complaints = [];
  const complain = (...words) => complaints.push(words.map(String).join(' '));
  console.warn = complain;
  console.error = complain;
  return { complaints, complain };
}

async function judge(contender, observe, binary) {
  const verdicts = new Verdicts(`typescript ${contender.name}`);
  const server = new contender.Server(observe, binary);
  const { complaints, complain } = gatherComplaints();
  try {
    const connect = async () => {
      await server.start();
      return contender.connect(server, complain);
    };
    const connection = await verdicts.report('connection', connect, true);
    if (connection) {
      const session = new Session(contender, connection, server, complaints);
      for (const [title, check] of CHECKS) {
        await verdicts.report(title, () => check(session));
      }
      for (const [title, check] of server.isHttp ? refusals.CHECKS : []) {
        await verdicts.report(title, () => check(contender, server));
      }
      await verdicts.report('the server ends by itself with exit code 0', async () => {
        await connection.client.close();
        expect('exit code, none if it was killed', await server.end(), '0');
      });
    }
    if (verdicts.failures) process.stderr.write(server.log());
  } finally {
    await server.end();
    server.remove();
  }
  return verdicts.failures;
}

let failures = 0;
for (const contender of CONTENDERS) {
  failures += await judge(contender, ...process.argv.slice(2));
}
process.exit(failures ? 1 : 0);
