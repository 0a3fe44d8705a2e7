// Checks of the package in programs: the module, and the type definitions under the compiler.

import { deepStrictEqual as same, match, ok } from 'node:assert';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { BINARY, CHECK, ROOT, folder, install, printed, run, text } from './place.mjs';
import { tarballs } from './packages.mjs';

const STRICT = [
  '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess',
  '--module', 'nodenext', '--target', 'es2022', '--types', 'node',
];
const OUT = join(CHECK, 'out');

/** Invalid programs and the compiler's error for each. */
const WRONG = {
  'argument.ts': /TS2322: Type 'string' is not assignable to type 'number'/,
  'missing.ts': /TS2741: Property 'generalized_keywords' is missing/,
  'name.ts': /TS2322: Type '"create_saga"' is not assignable/,
  'result.ts': /TS2339: Property 'nickname' does not exist/,
};

const compile = (file, ...words) => (
  run(join(CHECK, 'node_modules/.bin/tsc'), [...STRICT, ...words, file], { cwd: CHECK })
);

// S3: REQ-10.5
async function typesAreTrue() {
  await printed(join(ROOT, 'npm/generate-types'), ['--check', BINARY]);
}

// S3: REQ-10.5
async function sampleCompilesAndRuns() {
  await install(tarballs, '--prefix', CHECK, '--no-save');
  rmSync(OUT, { recursive: true, force: true });
  const { code, stdout } = await compile('sample.ts', '--outDir', OUT);
  same([code, stdout], [0, '']);
  const said = await printed(process.execPath, [join(OUT, 'sample.js'), folder('sample')]);
  const [made, refused] = said.split('\n');
  same(made, 'EP-001 In Progress: Sign in without a password');
  match(refused, /^get_item: not_found: .*EP-999/);
}

async function invalidProgramsDoNotCompile() {
  same(readdirSync(join(CHECK, 'wrong')).sort(), Object.keys(WRONG));
  for (const [file, error] of Object.entries(WRONG)) {
    const { code, stdout } = await compile(join('wrong', file), '--noEmit');
    ok(code > 0, `${file} compiles`);
    match(stdout, error);
    same(stdout.match(/error TS/g).length, 1);
  }
}

/** Assigns each answer to its type. The compiler reports missing and additional fields. */
async function answersHaveTheirTypes() {
  const answers = await run(process.execPath, ['answers.mjs', folder('answers')], { cwd: CHECK });
  same([answers.code, answers.stderr], [0, '']);
  writeFileSync(join(CHECK, 'answers.ts'), answers.stdout);
  const { code, stdout } = await compile('answers.ts', '--noEmit');
  same([code, stdout], [0, '']);
  ok(!/unknown/.test(text(ROOT, 'npm/reqlore/tools.d.ts')), 'a type is not known');
}

async function canBeRequired() {
  const project = folder('required');
  const source = `
    const { start } = require('reqlore');
    start({ root: ${JSON.stringify(project)}, readOnly: true }).then(async (client) => {
      const { tools } = await client.listTools();
      console.log(tools.some(({ name }) => name === 'create_epic'), tools.length > 5);
      await client.close();
    });
  `;
  same(await printed(process.execPath, ['--eval', source], { cwd: CHECK }), 'false true\n');
}

async function namesTheMissingClient() {
  const project = folder('alone');
  writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }\n');
  await install(tarballs, '--prefix', project, '--omit', 'peer');
  const source = `
    import { start } from 'reqlore';
    start().catch((error) => console.log(error.message));
  `;
  const words = ['--input-type', 'module', '--eval', source];
  const said = await printed(process.execPath, words, { cwd: project });
  match(said, /^start\(\) needs the official client.*: npm install @modelcontextprotocol\/.*@2$/m);
}

async function readmeShowsTheSample() {
  const shown = text(ROOT, 'npm/reqlore/README.md').split('```ts\n')[1].split('```')[0];
  same(shown, text(ROOT, 'tests/npm/sample.ts'));
}

export const CHECKS = [
  ['the type definitions match the tools\' schemas', typesAreTrue],
  ['the TypeScript sample compiles with strict, and runs', sampleCompilesAndRuns],
  ['wrong arguments, names and results do not compile', invalidProgramsDoNotCompile],
  ['the server\'s answers have the defined types', answersHaveTheirTypes],
  ['the module can be required', canBeRequired],
  ['without the official client start() names the package to install', namesTheMissingClient],
  ['the README shows the sample', readmeShowsTheSample],
];
