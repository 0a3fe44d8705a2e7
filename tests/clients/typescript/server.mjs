// A server that starts before its clients and logs its address.

import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PATIENCE_MS = 20_000;
const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/\S+/;

/** A program in its own folder and home folder, so that no user settings apply. */
export class Listening {
  constructor(program, options = []) {
    this.folder = mkdtempSync(join(tmpdir(), 'reqlore-judge-'));
    this.project = join(this.folder, 'project');
    mkdirSync(this.project);
    this.common = { cwd: this.project, env: { ...process.env, HOME: this.folder, REQLORE_ANSWERS: 'both' } };
    this.program = program;
    this.options = options;
  }

  /** Creates a user with this role and returns a token. */
  user(name, role) {
    this.run('user', 'add', name, '--role', role);
    return this.run('token', 'create', '--user', name).trim();
  }

  run(...words) {
    const options = { ...this.common, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] };
    return execFileSync(this.program, [...this.options, ...words], options);
  }

  async start(...words) {
    const log = openSync(join(this.folder, 'stderr'), 'a');
    const stdio = ['ignore', 'ignore', log];
    this.process = spawn(this.program, [...this.options, ...words], { ...this.common, stdio });
    closeSync(log);
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    const late = Date.now() + PATIENCE_MS;
    while (!(this.url = this.log().match(ADDRESS)?.[0])) {
      const gone = this.process.exitCode !== null || Date.now() > late;
      if (gone) throw new Error(`it does not serve: ${this.log()}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  log() {
    return readFileSync(join(this.folder, 'stderr'), 'utf8');
  }

  /** Ends the program and returns its exit code. */
  async end() {
    this.process?.kill();
    return this.ended;
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
