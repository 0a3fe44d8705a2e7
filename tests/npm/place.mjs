// Folders for packing and installing, and functions to run the installed commands.

import { execFile, spawn } from 'node:child_process';
import {
  existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const require = createRequire(import.meta.url);

export const [, , ROOT, BINARY] = process.argv;
export const CHECK = dirname(fileURLToPath(import.meta.url));
export const PREFIX = join(ROOT, 'target/npm/prefix');
export const LAUNCHER = join(PREFIX, 'lib/node_modules/reqlore');

export const { explain, libcOfNode, platformOf, packageOf } =
  require(join(ROOT, 'npm/reqlore/lib/binary.cjs'));
export const PLATFORMS = require(join(ROOT, 'npm/reqlore/platforms.json'));

const { platform: os, arch: cpu } = process;
export const PLATFORM = platformOf({ os, cpu, ...(os === 'linux' && { libc: libcOfNode() }) });

const OUT = join(ROOT, 'target/npm/out');

/** A temporary folder that is also the home folder, so that no user settings apply. */
export const FOLDER = mkdtempSync(join(tmpdir(), 'reqlore-npm-'));
export const ENVIRONMENT = { ...process.env, HOME: FOLDER };
process.on('exit', () => rmSync(FOLDER, { recursive: true, force: true }));

export function folder(name) {
  const made = join(FOLDER, name);
  mkdirSync(made, { recursive: true });
  return made;
}

/** Runs a program to its end: `{ code, signal, stdout, stderr }`. */
export function run(file, args, { env = {}, ...options } = {}) {
  const all = { cwd: FOLDER, ...options, env: { ...ENVIRONMENT, ...env }, encoding: 'utf8' };
  return new Promise((resolve) => {
    const child = execFile(file, args, all, (error, stdout, stderr) => {
      resolve({ code: child.exitCode, signal: child.signalCode, stdout, stderr });
    });
    child.stdin.end();
  });
}

/** Returns standard output. Rejects unless the exit code is 0. */
export async function printed(file, args, options) {
  const { code, stdout, stderr } = await run(file, args, options);
  if (code === 0) return stdout;
  throw new Error(`${file} ${args.join(' ')}: exit code ${code}: ${stdout}${stderr}`);
}

/** Packs the tarballs; the launcher's is the last one. */
export async function pack(name) {
  const out = join(OUT, name);
  rmSync(out, { recursive: true, force: true });
  const given = `${PLATFORMS[PLATFORM].target}=${BINARY}`;
  // Cargo lists the licences to pack and keeps its crates in the real home folder.
  const options = { env: { HOME: process.env.HOME } };
  const said = await printed(join(ROOT, 'npm/pack'), ['--binary', given, '--out', out], options);
  return said.trim().split('\n');
}

/** Installs from tarballs, because the registry has no packages before a release. */
export function install(tarballs, ...words) {
  return printed('npm', ['install', '--offline', ...words, ...tarballs]);
}

export function installGlobally(tarballs) {
  rmSync(PREFIX, { recursive: true, force: true });
  return install(tarballs, '--global', '--prefix', PREFIX);
}

export const command = (name) => join(PREFIX, 'bin', name);

/** Starts a command with the official client, runs `work` and closes the connection. */
export async function connected(file, args, { env, cwd = folder('empty') }, work) {
  const client = new Client(clientInfo);
  const launch = { command: file, args, cwd, env: { ...ENVIRONMENT, ...env }, stderr: 'ignore' };
  await client.connect(new StdioClientTransport(launch));
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

export async function toolsOf(client) {
  return (await client.listTools()).tools.map(({ name }) => name);
}

const clientInfo = { name: 'reqlore-npm-check', version: '1' };
const HELLO = {
  jsonrpc: '2.0', id: 1, method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
};

/** Starts a server and waits for one answer. `ended` resolves to its exit code and signal. */
export async function serving(file, args, { env, input } = {}) {
  const options = { cwd: folder('empty'), env: { ...ENVIRONMENT, ...env }, detached: true };
  const stdio = [input?.reader ?? 'pipe', 'pipe', 'ignore'];
  const child = spawn(file, args, { ...options, stdio });
  // It closes when no process has its output open, including the server started by the launcher.
  const ended = new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  const line = `${JSON.stringify(HELLO)}\n`;
  if (child.stdin) child.stdin.write(line);
  else writeSync(input.writer, line);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return { child, ended };
}

/** An input that only this process can close. */
export async function endless() {
  const fifo = join(FOLDER, 'endless');
  rmSync(fifo, { force: true });
  await printed('mkfifo', [fifo]);
  const writer = openSync(fifo, 'r+');
  return { writer, reader: openSync(fifo, 'r') };
}

export const text = (...path) => readFileSync(join(...path), 'utf8');
export const isThere = (...path) => existsSync(join(...path));
