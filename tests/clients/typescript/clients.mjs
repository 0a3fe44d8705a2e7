// The official TypeScript clients and their connections to the server.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as ClientOfSdk } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as TransportOfSdk } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  StreamableHTTPClientTransport as HttpTransportOfSdk,
} from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { Listening } from './server.mjs';

export const LEGACY = '2025-11-25';
export const MODERN = '2026-07-28';

const SELF = { name: 'reqlore-judge', version: '1.0.0' };

// Both SDKs validate structured content against the output schemas of listed tools, so `tools/list`
// is among the first checks.

/** Starts the server on pipes in its own folder and records how it ended. */
class Piped {
  isHttp = false;

  constructor(observe, binary) {
    this.folder = mkdtempSync(join(tmpdir(), 'reqlore-judge-'));
    this.project = join(this.folder, 'project');
    this.launch = { command: observe, args: [this.folder, binary], cwd: this.project };
    mkdirSync(this.project);
  }

  async start() {}

  transport(Pipes) {
    return new Pipes(this.launch);
  }

  log() {
    return this.read('stderr');
  }

  /** The exit code; empty if the server was killed. */
  async end() {
    return this.read('exit').trim();
  }

  read(file) {
    const path = join(this.folder, file);
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A server over HTTP. Every client sends a token. */
class Http extends Listening {
  isHttp = true;

  constructor(_, binary) {
    super(binary);
    this.token = this.user('ann', 'user');
  }

  start() {
    return super.start('--transport', 'http', '--listen', '127.0.0.1:0');
  }

  transport(_, Transport) {
    const headers = { Authorization: `Bearer ${this.token}` };
    return new Transport(new URL(this.url), { requestInit: { headers } });
  }

  /** The same server with another token. */
  withToken(token) {
    return Object.assign(Object.create(this), { token });
  }

  async end() {
    return String(await super.end());
  }
}

async function connectSdk(server, complain) {
  const transport = server.transport(TransportOfSdk, HttpTransportOfSdk);
  const connection = { client: new ClientOfSdk(SELF) };
  connection.client.onerror = complain;
  // This SDK passes the negotiated version to its transport only.
  const { setProtocolVersion } = transport;
  transport.setProtocolVersion = (version) => {
    connection.version = version;
    setProtocolVersion?.call(transport, version);
  };
  await connection.client.connect(transport);
  connection.hear = (updated, listChanged) => {
    connection.client.setNotificationHandler(ResourceUpdatedNotificationSchema, updated);
    connection.client.setNotificationHandler(ResourceListChangedNotificationSchema, listChanged);
  };
  return connection;
}

const connectClient = (mode) => async (server, complain) => {
  const client = new Client(SELF, { versionNegotiation: { mode } });
  client.onerror = complain;
  await client.connect(server.transport(StdioClientTransport, StreamableHTTPClientTransport));
  const hear = (updated, listChanged) => {
    client.setNotificationHandler('notifications/resources/updated', updated);
    client.setNotificationHandler('notifications/resources/list_changed', listChanged);
  };
  return { client, hear, version: client.getNegotiatedProtocolVersion() };
};

// The newer SDK maps both revisions' codes for a missing resource to one error.
const PIPED = [
  { name: 'sdk legacy', connect: connectSdk, version: LEGACY, notFound: -32002 },
  { name: 'client legacy', connect: connectClient('legacy'), version: LEGACY },
  { name: 'client modern', connect: connectClient('auto'), version: MODERN },
  { name: 'client modern pinned', connect: connectClient({ pin: MODERN }), version: MODERN },
].map((contender) => ({ ...contender, Server: Piped }));
const OVER_HTTP = PIPED.map((contender) => (
  { ...contender, name: `${contender.name} http`, Server: Http }
));
export const CONTENDERS = [...PIPED, ...OVER_HTTP];

/** Received notifications that no check has read yet. */
class News {
  heard = [];
  waiting = [];

  tell(what) {
    const next = this.waiting.shift();
    next ? next(what) : this.heard.push(what);
  }

  next() {
    if (this.heard.length) return Promise.resolve(this.heard.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

/** A connection of any client, as the checks use it. */
export class Session {
  constructor(contender, connection, { project, isHttp }, complaints) {
    const { version: expectedVersion, notFound = -32602 } = contender;
    Object.assign(this, connection, { expectedVersion, notFound, project, isHttp, complaints });
  }

  call(name, rest = {}) {
    const common = { project_root: this.project, operation_description: 'Judge the server' };
    return this.client.callTool({ name, arguments: { ...common, ...rest } });
  }

  /** Subscribes to this URI and the list. Returns functions to wait for the next one and to end. */
  async watch(uri) {
    const news = new News();
    this.hear(({ params }) => news.tell(params.uri), () => news.tell('list'));
    if (this.version === LEGACY) {
      await this.client.listResources();
      await this.client.subscribeResource({ uri });
      return { next: () => news.next(), end: () => this.client.unsubscribeResource({ uri }) };
    }
    const wanted = { resourcesListChanged: true, resourceSubscriptions: [uri] };
    const stream = await this.client.listen(wanted);
    return { next: () => news.next(), end: () => stream.close() };
  }

  get(section) {
    return this.call('reqlix_get_requirements', { section });
  }

  set(section, index, text) {
    return this.call('reqlix_set_requirements', { section, index, text });
  }

  delete(section, index) {
    return this.call('reqlix_delete_requirements', { section, index });
  }
}
