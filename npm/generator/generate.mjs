// Writes the types of every tool's arguments and result, or compares them with what is written.
//
// Usage: generate.mjs BINARY FILE [--check] (see ../generate-types).

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { compile } from 'json-schema-to-typescript';

const HEAD = `\
// The types of every tool's arguments and result. Made by npm/generate-types of the schemas that
// the server gives; do not edit.
`;
const OPTIONS = {
  bannerComment: '',
  additionalProperties: false,
  // Up to 50 keywords would be a union of 51 tuples.
  ignoreMinAndMaxItems: true,
  style: { singleQuote: true, printWidth: 100 },
};

/** What the server says of its tools when none is left out, in an empty folder. */
async function toolsOf(binary) {
  const folder = mkdtempSync(join(tmpdir(), 'reqlore-types-'));
  const env = { PATH: process.env.PATH, HOME: folder, REQLORE_LOG: 'error' };
  const server = spawn(binary, [], { cwd: folder, env, stdio: ['pipe', 'pipe', 'inherit'] });
  const failed = new Promise((_, reject) => server.on('error', reject));
  const ended = new Promise((resolve) => server.on('close', resolve));
  try {
    return await Promise.race([listed(server), failed]);
  } finally {
    server.stdin.end();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

async function listed(server) {
  const send = (message) => {
    server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  };
  const clientInfo = { name: 'reqlore-types', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  send({ id: 0, method: 'initialize', params });
  send({ method: 'notifications/initialized' });
  send({ id: 1, method: 'tools/list' });
  for await (const line of createInterface({ input: server.stdout })) {
    const { id, result, error } = JSON.parse(line);
    if (error) throw new Error(error.message);
    if (id === 1) return result.tools;
  }
  throw new Error('the server ended without a list of its tools');
}

/** An object of which the schema says nothing more may hold anything. */
function opened(schema) {
  if (Array.isArray(schema)) return schema.map(opened);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, opened(value)]);
  const isBare = schema.type === 'object' && !schema.properties;
  return { ...Object.fromEntries(entries), ...(isBare && { additionalProperties: true }) };
}

/** Aliases, since no interface passes where any object does, such as in the official `callTool`. */
function aliased(types) {
  return types.replace(/^export interface (\w+) \{([^]*?)\}$/gm, 'export type $1 = {$2};');
}

const pascal = (name) => name.replace(/(^|_)(.)/g, (_, __, letter) => letter.toUpperCase());

async function typesOf({ name, title, inputSchema, outputSchema }) {
  const type = (schema, suffix, words) => {
    const described = { ...opened(schema), description: schema.description ?? words };
    return compile(described, `${pascal(name)}${suffix}`, OPTIONS).then(aliased);
  };
  return [
    await type(inputSchema, 'Arguments', `${title}: the arguments of \`${name}\`.`),
    await type(outputSchema, 'Result', `${title}: the structured content of \`${name}\`.`),
  ].join('\n');
}

function table(tools) {
  const rows = tools.map(({ name, description }) => [
    `  /** ${description.replaceAll('*/', '*\\/')} */`,
    `  ${name}: { arguments: ${pascal(name)}Arguments; result: ${pascal(name)}Result };`,
  ].join('\n'));
  return [
    '/** Every tool with its arguments and its result. */',
    `export interface Tools {\n${rows.join('\n')}\n}`,
    '',
    '/** A tool\'s name. */',
    'export type ToolName = keyof Tools;',
    '',
  ].join('\n');
}

const [binary, file, check] = process.argv.slice(2);
try {
  const tools = await toolsOf(binary);
  const types = await Promise.all(tools.map(typesOf));
  const text = [HEAD, table(tools), ...types].join('\n');
  if (!check) {
    writeFileSync(file, text);
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${file} is not what the tools' schemas say; run npm/generate-types ${binary}`);
    process.exitCode = 1;
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 2;
}
