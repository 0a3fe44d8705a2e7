// Tests the packed and installed npm packages.
//
// Usage: judge.mjs ROOT BINARY (see run). One line per check; exit code 1 if any failed.

import * as commands from './commands.mjs';
import * as packages from './packages.mjs';
import * as programs from './programs.mjs';
import { PLATFORM } from './place.mjs';

// Time limit of a check, sufficient on the slowest machine.
const PATIENCE_MS = 600_000;

async function inTime(work) {
  let timer;
  const late = new Promise((_, reject) => {
    const error = new Error(`not done within ${PATIENCE_MS} ms`);
    timer = setTimeout(() => reject(error), PATIENCE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

if (!PLATFORM) {
  console.error(`no package for ${process.platform} ${process.arch}`);
  process.exit(2);
}
let [passed, failed] = [0, 0];
for (const [title, check] of [...packages.CHECKS, ...commands.CHECKS, ...programs.CHECKS]) {
  try {
    const said = await inTime(check());
    passed += 1;
    console.log(`ok npm: ${title}`);
    if (said) console.log(said);
  } catch (error) {
    failed += 1;
    console.log(`FAILED npm: ${title}: ${error.message.replace(/\s+/g, ' ').trim()}`);
  }
}
console.log(`npm: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
