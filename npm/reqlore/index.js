// Programmatic use: starts the server and returns the official client, connected to it.

import { fileURLToPath } from 'node:url';

import launcher from './lib/binary.cjs';

const PEER = '@modelcontextprotocol/client';
const ERROR_META = 'reqlore/error';

export class ToolError extends Error {
  name = 'ToolError';

  constructor(tool, result) {
    const text = result.content.filter(({ type }) => type === 'text').map(({ text }) => text);
    const detail = result._meta?.[ERROR_META] ?? {};
    super(detail.message ?? text.join('\n'));
    const { kind, code, field, reference_id, hint } = detail;
    Object.assign(this, { tool, kind, code, field, reference_id, hint, result });
  }
}

export async function start(options = {}) {
  const { cwd, env, stderr, clientInfo, clientOptions, requestOptions } = options;
  const command = binary(options);
  const [{ Client }, { StdioClientTransport }] = await peer();

  class ReqloreClient extends Client {
    async callTool(params, options) {
      const result = await super.callTool(params, options);
      if (result.isError) throw new ToolError(params.name, result);
      return result;
    }
  }

  const self = { name: 'reqlore-npm', version: '1' };
  const client = new ReqloreClient(clientInfo ?? self, clientOptions);
  const childEnv = { ...process.env, ...env };
  await client.connect(new StdioClientTransport({
    command, args: flags(options), cwd: pathOf(cwd), env: childEnv, stderr,
  }), requestOptions);
  return client;
}

export function binary({ binary } = {}) {
  if (!binary) return launcher.binary();
  return launcher.binary({ REQLORE_BINARY: pathOf(binary) });
}

function flags({ root, storage, toolsets, readOnly, log, args = [] }) {
  const given = { root: pathOf(root), storage, toolsets: toolsets?.join(','), log };
  const flags = Object.entries(given).filter(([, value]) => value !== undefined);
  const words = flags.flatMap(([name, value]) => [`--${name}`, value]);
  // Data for programs, which a model does not get by default.
  return [...words, '--answers', 'both', ...(readOnly ? ['--read-only'] : []), ...args];
}

function pathOf(place) {
  return place instanceof URL ? fileURLToPath(place) : place;
}

async function peer() {
  try {
    return await Promise.all([import(PEER), import(`${PEER}/stdio`)]);
  } catch (cause) {
    if (cause.code !== 'ERR_MODULE_NOT_FOUND' || !cause.message.includes(`'${PEER}'`)) throw cause;
    throw new Error(
      `start() needs the official client, which is not installed: npm install ${PEER}@2`, { cause },
    );
  }
}
