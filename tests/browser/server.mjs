// Servers of the real binary, each with an own scratch project and home folder.

import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PROGRAM = process.env.TEST_PROGRAM;
const START_LIMIT_MS = 20_000;
const ADDRESS = /http:\/\/127\.0\.0\.1:\d+/;
const LINK = /http:\/\/127\.0\.0\.1:\d+\/signin\/\S+/;

/** Waits until `condition` returns something, and fails with `problem()` after a limit. */
export async function until(condition, problem, limit_ms = START_LIMIT_MS) {
  const late = Date.now() + limit_ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > late) throw new Error(problem());
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export class Server {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'reqlore-browser-'));
    this.project = join(this.folder, 'project');
    mkdirSync(this.project);
    const { PATH, LANG, TMPDIR } = process.env;
    this.common = { cwd: this.project, env: { PATH, LANG, TMPDIR, HOME: this.folder } };
    this.common.env.REQLORE_ANSWERS = 'both';
    this.tokens = {};
  }

  /** A server of a team on SQLite, with one user for each role: ann, ben (user) and cleo. */
  static async team(...options) {
    const server = new Server();
    server.common.env.REQLORE_STORAGE = 'sqlite';
    server.addUser('ann', 'administrator');
    server.addUser('ben', 'user');
    server.addUser('cleo', 'commenter');
    await server.start(ADDRESS, '--transport', 'http', '--listen', '127.0.0.1:0', ...options);
    return server;
  }

  /** The board of one developer on the project's files; `link` opens it once. */
  static async solo(prepare = () => {}) {
    const server = new Server();
    await prepare(server);
    await server.start(LINK, 'board', '--no-open');
    return server;
  }

  addUser(name, role) {
    this.run('user', 'add', name, '--role', role);
    this.tokens[name] = this.newToken(name);
  }

  newToken(name, ...options) {
    return this.run('token', 'create', '--user', name, ...options).trim();
  }

  /** Runs a command of the program in the project and returns its standard output. */
  run(...words) {
    const options = { ...this.common, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] };
    return execFileSync(PROGRAM, words, options);
  }

  /** Starts the program and waits until it has printed an address like this. */
  async start(address, ...words) {
    const log = openSync(join(this.folder, 'log'), 'a');
    this.process = spawn(PROGRAM, words, { ...this.common, stdio: ['ignore', log, log] });
    closeSync(log);
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.link = await until(() => {
      if (this.process.exitCode !== null) throw new Error(`it does not serve: ${this.log()}`);
      return this.log().match(address)?.[0];
    }, () => `it does not serve: ${this.log()}`);
    this.origin = new URL(this.link).origin;
  }

  log() {
    return readFileSync(join(this.folder, 'log'), 'utf8');
  }

  /** Calls a tool over MCP as this user and returns its structured answer. */
  async call(name, args, user = 'ann') {
    const response = await fetch(`${this.origin}/api/v1/mcp`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${this.tokens[user]}`,
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({
        jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args },
      }),
    });
    const text = await response.text();
    const { result, error } = JSON.parse(text);
    if (error || result.isError) throw new Error(`${name}: ${text}`);
    return result.structuredContent;
  }

  /** Ends the process and starts `reqlore board` again. */
  async restart() {
    this.process.kill('SIGINT');
    await this.ended;
    rmSync(join(this.folder, 'log'));
    await this.start(LINK, 'board', '--no-open');
  }

  async end() {
    if (this.process) {
      this.process.kill();
      await this.ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
