// Programmatic use: a server of your own, and the official client connected to it, which knows the
// arguments and results of every tool.

import type {
  CallToolRequest, CallToolRequestOptions, CallToolResult, Client, ClientOptions, Implementation,
  RequestOptions,
} from '@modelcontextprotocol/client';
import type { StdioServerParameters } from '@modelcontextprotocol/client/stdio';

import type { ToolName, Tools } from './tools.js';

export type * from './tools.js';

/** A set of tools. */
export type Toolset = 'sections' | 'backlog' | 'docsets' | 'knowledge';

/**
 * How the server is started. What is left out is as it is configured for the command `reqlore`: by
 * variables such as REQLORE_STORAGE, by the project's `reqlore.toml`, by default.
 */
export interface StartOptions {
  /** The project's folder; the working directory when left out. */
  root?: string | URL;
  /** Where documents are kept: `fs`, `fs:DIR`, `sqlite`, `sqlite:FILE`, `sled` or `sled:DIR`. */
  storage?: string;
  /** Which tools are served; all when left out. */
  toolsets?: Toolset[];
  /** Serve only the tools that change nothing. */
  readOnly?: boolean;
  /** What the server logs to its stderr: error, warn, info, debug, trace or off. */
  log?: string;
  /** Further arguments of the command line. */
  args?: string[];
  /** The server's working directory; this process's when left out. */
  cwd?: string | URL;
  /** Variables for the server, besides those of this process. */
  env?: Record<string, string>;
  /** Where the server's stderr goes; to this process's when left out. */
  stderr?: StdioServerParameters['stderr'];
  /** Another binary than the one that was installed. REQLORE_BINARY names one as well. */
  binary?: string | URL;
  /** As whom the client introduces itself. */
  clientInfo?: Implementation;
  /** The official client's own options. */
  clientOptions?: ClientOptions;
  /** How long connecting may take, and what cancels it. */
  requestOptions?: RequestOptions;
}

/** What `callTool` takes: a tool's name with that tool's arguments. */
export interface ToolCall<Name extends ToolName> {
  name: Name;
  arguments: Tools[Name]['arguments'];
  _meta?: CallToolRequest['params']['_meta'];
}

/** What a tool answers: words for a model in `content`, the same for programs as data. */
export type ToolAnswer<Name extends ToolName> = CallToolResult & {
  structuredContent: Tools[Name]['result'];
};

/** The official client, which here knows the tools. */
export interface ReqloreClient extends Client {
  /**
   * Calls a tool.
   *
   * Rejects with `ToolError` when the tool refuses: bad arguments, nothing found, a conflict. What
   * is wrong with the connection or the protocol rejects with the official client's own errors.
   */
  callTool<Name extends ToolName>(
    params: ToolCall<Name>, options?: CallToolRequestOptions,
  ): Promise<ToolAnswer<Name>>;
}

/** What kind of refusal it is. */
export type ToolErrorKind =
  | 'invalid_argument' | 'not_found' | 'forbidden' | 'conflict' | 'refused' | 'busy' | 'cancelled'
  | 'storage_unavailable' | 'unreadable';

/** A tool has refused; the message says why and what to do. */
export declare class ToolError extends Error {
  readonly name: 'ToolError';
  /** The tool's name. */
  readonly tool: string;
  /** Absent when the server did not say; kinds may be added. */
  readonly kind?: ToolErrorKind | (string & {});
  /** The kind as a code of JSON-RPC, such as -32602. */
  readonly code?: number;
  /** The argument that is wrong. */
  readonly field?: string;
  /** The item that it is about. */
  readonly reference_id?: string;
  /** What to do instead. */
  readonly hint?: string;
  /** The answer as it came. */
  readonly result: CallToolResult;
}

/**
 * Starts a server and connects to it. It ends with `client.close()`, and with this process.
 *
 * Needs the official client, `@modelcontextprotocol/client` 2.x, beside this package. Rejects when
 * there is no binary for this machine; the message says what to do then.
 */
export declare function start(options?: StartOptions): Promise<ReqloreClient>;

/** The native binary that `start` runs. Throws when there is none for this machine. */
export declare function binary(options?: Pick<StartOptions, 'binary'>): string;
