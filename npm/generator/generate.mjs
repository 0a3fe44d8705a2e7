// Writes the types of every tool's arguments and result, or compares them with what is written.
//
// Usage: generate.mjs BINARY FILE [--check] (see ../generate-types).

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';

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

/** What several tools answer with, and where a schema describes it. */
const shapesOf = ({ get_item, list_epics }) => ({
  Item: get_item.properties.item,
  ItemBrief: list_epics.properties.epics.items,
  Relationship: get_item.properties.relationships.properties.outgoing.items,
  Link: {
    type: 'object',
    description: 'The other end of a link.',
    properties: {
      relation: { type: 'string', description: '"mentions", or what an entity calls it.' },
      id: { type: 'string', description: 'A reference, or an entity\'s id.' },
      kind: { type: 'string', description: 'Such as "requirement" or "decision".' },
      title: { type: 'string', description: 'Absent where there is nothing of that name.' },
    },
    required: ['relation', 'id', 'kind'],
  },
});

/** Where schemas say no more than "object", to be short for models; a test compares answers. */
const NOT_SAID = {
  'epic_hierarchy.epic': 'ItemBrief',
  'epic_hierarchy.user_stories.requirements': 'ItemBrief',
  'epic_hierarchy.user_stories.acceptance_criteria': 'ItemBrief',
  'get_item.children': 'ItemBrief',
  'get_item.relationships.incoming': 'Relationship',
  'get_item.links.outgoing': 'Link',
  'get_item.links.incoming': 'Link',
};

/** A result's schema with the shapes' names, and without null where a key is left out instead. */
function named(schema, place, shapes) {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((part) => named(part, place, shapes));
  const isBare = schema.type === 'object' && !schema.properties;
  if (isBare && !NOT_SAID[place]) throw new Error(`say in generate.mjs what ${place} holds`);
  const same = (name) => isDeepStrictEqual(shapes[name], schema);
  const tsType = isBare ? NOT_SAID[place] : Object.keys(shapes).find(same);
  if (tsType) return { tsType };
  const { properties, required = [], ...rest } = schema;
  const inner = Object.entries(properties ?? {}).map(([key, value]) => {
    const isLeftOut = !required.includes(key) && Array.isArray(value.type);
    const type = isLeftOut ? value.type.filter((type) => type !== 'null') : value.type;
    return [key, named(type ? { ...value, type } : value, `${place}.${key}`, shapes)];
  });
  const items = rest.items && { items: named(rest.items, place, shapes) };
  const told = properties && { properties: Object.fromEntries(inner), required };
  return { ...rest, ...items, ...told };
}

/** Aliases, since no interface passes where any object does, such as in the official `callTool`. */
function aliased(types) {
  return types.replace(/^export interface (\w+) \{([^]*?)\}$/gm, 'export type $1 = {$2};');
}

const pascal = (name) => name.replace(/(^|_)(.)/g, (_, __, letter) => letter.toUpperCase());

/** Tools that write answer with the whole item, of which their schemas tell three keys. */
const isWriter = ({ properties }) => (
  Object.keys(properties).sort().join() === 'project,reference_id,version'
);

const typeOf = (schema, name) => compile(schema, name, OPTIONS).then(aliased);

function typesOf({ name, title, inputSchema, outputSchema }, shapes) {
  const asked = `${title}: the arguments of \`${name}\`.`;
  const answered = `${title}: the structured content of \`${name}\`.`;
  const written = `/**\n * ${answered}\n */\nexport type ${pascal(name)}Result = Item;\n`;
  const result = named(outputSchema, name, shapes);
  return Promise.all([
    typeOf({ description: asked, ...inputSchema }, `${pascal(name)}Arguments`),
    isWriter(outputSchema)
      ? written
      : typeOf({ description: answered, ...result }, `${pascal(name)}Result`),
  ]);
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
  const shapes = shapesOf(Object.fromEntries(tools.map((tool) => [tool.name, tool.outputSchema])));
  const types = await Promise.all([
    ...Object.entries(shapes).map(([name, shape]) => typeOf(named({ ...shape }, name, {}), name)),
    ...tools.map((tool) => typesOf(tool, shapes)),
  ]);
  const text = [HEAD, table(tools), ...types.flat()].join('\n');
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
