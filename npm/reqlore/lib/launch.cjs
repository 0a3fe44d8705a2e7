// Becomes the native binary, or starts it and stands before it.
//
// Node can become another program since 22.15 and 23.11 on POSIX; then nothing of it remains, and
// signals, exit codes and the end are the binary's own. Before that and on Windows it stays as a
// parent, and everything below `stand` is for that case.
'use strict';

const { NoBinary, binary } = require('./binary.cjs');

/** Runs the binary with these arguments and this environment. */
function launch(args, env) {
  let file;
  try {
    file = binary(env);
  } catch (error) {
    if (!(error instanceof NoBinary)) throw error;
    process.stderr.write(`reqlore: ${error.message}\n`);
    process.exitCode = 1;
    return;
  }
  const told = isFromNpx(env, __dirname) ? { ...env, REQLORE_LAUNCHER: 'npx' } : { ...env };
  if (process.execve && process.platform !== 'win32') {
    process.execve(file, [file, ...args], told);
  }
  stand(file, args, told);
}

/**
 * Did npx start this? Either from its own cache or from the project's node_modules. What npx starts
 * inherits its variables, such as an agent that calls an installed `reqlore` later.
 */
function isFromNpx(env, folder) {
  if (/[\\/]_npx[\\/]/.test(folder)) return true;
  const script = env.npm_lifecycle_event === 'npx' ? env.npm_lifecycle_script : '';
  return /^['"]?(reqlore|agentic-knowledge-mcp)\b/.test(script ?? '');
}

/**
 * At a terminal the binary shares this process's group and reads the terminal itself. Else its
 * input comes through here: when this process is killed, that ends, and so does the server. And it
 * has a group of its own there, since a second SIGINT, one from the terminal and one from here,
 * would cut short an orderly end.
 */
function stand(file, args, env) {
  const { spawn } = require('node:child_process');
  const isAtTerminal = require('node:tty').isatty(0);
  const child = spawn(file, args, {
    env,
    stdio: [isAtTerminal ? 'inherit' : 'pipe', 'inherit', 'inherit'],
    detached: !isAtTerminal && process.platform !== 'win32',
    windowsHide: true,
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    const isShared = isAtTerminal && signal === 'SIGINT';
    process.on(signal, () => isShared || child.kill(signal));
  }
  child.on('error', (error) => {
    process.stderr.write(`reqlore: ${file} can't be started: ${error.message}\n`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
  if (child.stdin) {
    // A server that has ended reads no more; its exit is what counts.
    child.stdin.on('error', () => {});
    process.stdin.pipe(child.stdin);
  }
}

module.exports = { isFromNpx, launch };
