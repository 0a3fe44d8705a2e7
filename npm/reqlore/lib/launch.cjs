// Replaces this process with the native binary, or runs the binary as a child process.
//
// On POSIX, Node can replace itself since 22.15 and 23.11. Signals and exit codes then belong to
// the binary. Older versions and Windows use a child process, see `runAsChild`.
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
  const childEnv = isFromNpx(env, __dirname) ? { ...env, REQLORE_LAUNCHER: 'npx' } : { ...env };
  if (process.execve && process.platform !== 'win32') {
    process.execve(file, [file, ...args], childEnv);
  }
  runAsChild(file, args, childEnv);
}

/**
 * True if npx started this process, from its own cache or from the project's node_modules. The
 * script is checked too: an agent that npx started passes npx's variables on to later commands.
 */
function isFromNpx(env, folder) {
  if (/[\\/]_npx[\\/]/.test(folder)) return true;
  const script = env.npm_lifecycle_event === 'npx' ? env.npm_lifecycle_script : '';
  return /^['"]?(reqlore|agentic-knowledge-mcp)\b/.test(script ?? '');
}

/**
 * At a terminal, the binary shares this process's group and reads the terminal itself. Otherwise
 * its input is piped through this process, so that the server ends when this process is killed. It
 * then has its own process group: SIGINT from the group and again from here would interrupt a
 * graceful shutdown.
 */
function runAsChild(file, args, env) {
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
    // Ignore errors after the server has ended; the `exit` handler reports the result.
    child.stdin.on('error', () => {});
    process.stdin.pipe(child.stdin);
  }
}

module.exports = { isFromNpx, launch };
