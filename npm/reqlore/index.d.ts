// Programmatic use: starts a server and connects the official client, with types for the arguments
// and results of every tool.

import type {
  CallToolRequest, CallToolRequestOptions, CallToolResult, Client, ClientOptions, Implementation,
  RequestOptions,
} from '@modelcontextprotocol/client';
import type { StdioServerParameters } from '@modelcontextprotocol/client/stdio';

import type { ToolName, Tools } from './tools.js';

export type * from './tools.js';

/** A toolset. */
export type Toolset = 'core' | 'sections' | 'backlog' | 'docsets' | 'knowledge';

/**
 * Options of the server. An omitted option has the same value as for the command `reqlore`: from
 * variables such as REQLORE_STORAGE, from the project's `reqlore.toml`, or the default.
 */
export interface StartOptions {
  /** The project's folder; the default is the working directory. */
  root?: string | URL;
  /** The storage: `fs`, `fs:DIR`, `sqlite`, `sqlite:FILE`, `sled` or `sled:DIR`. */
  storage?: string;
  /** The toolsets to serve; the default is all. */
  toolsets?: Toolset[];
  /** Serve only the tools that change nothing. */
  readOnly?: boolean;
  /** Log level on stderr: error, warn, info, debug, trace or off. */
  log?: string;
  /** Additional command-line arguments. */
  args?: string[];
  /** The server's working directory; the default is that of this process. */
  cwd?: string | URL;
  /** Additional environment variables for the server. */
  env?: Record<string, string>;
  /** The target of the server's stderr; the default is that of this process. */
  stderr?: StdioServerParameters['stderr'];
  /** The path of another binary; REQLORE_BINARY has the same effect. */
  binary?: string | URL;
  /** The name and version that the client sends. */
  clientInfo?: Implementation;
  /** Options of the official client. */
  clientOptions?: ClientOptions;
  /** Timeout and cancellation of the connection. */
  requestOptions?: RequestOptions;
}

/** The parameters of `callTool`: a tool's name and its arguments. */
export interface ToolCall<Name extends ToolName> {
  name: Name;
  arguments: Tools[Name]['arguments'];
  _meta?: CallToolRequest['params']['_meta'];
}

/** The result of a tool: text for a model in `content`, the same data in `structuredContent`. */
export type ToolAnswer<Name extends ToolName> = CallToolResult & {
  structuredContent: Tools[Name]['result'];
};

/** The official client with typed tools. */
export interface ReqloreClient extends Client {
  /**
   * Calls a tool.
   *
   * Rejects with `ToolError` if the tool returns an error, such as invalid arguments or a
   * conflict. Connection and protocol errors are those of the official client.
   */
  callTool<Name extends ToolName>(
    params: ToolCall<Name>, options?: CallToolRequestOptions,
  ): Promise<ToolAnswer<Name>>;
}

/** The kind of error. */
export type ToolErrorKind =
  | 'invalid_argument' | 'not_found' | 'forbidden' | 'conflict' | 'refused' | 'busy' | 'cancelled'
  | 'storage_unavailable' | 'unreadable';

/** An error from a tool; the message has the reason and the next step. */
export declare class ToolError extends Error {
  readonly name: 'ToolError';
  /** The tool's name. */
  readonly tool: string;
  /** Absent if the server did not send it; new kinds may be added. */
  readonly kind?: ToolErrorKind | (string & {});
  /** The JSON-RPC code of the kind, such as -32602. */
  readonly code?: number;
  /** The invalid argument. */
  readonly field?: string;
  /** The affected item. */
  readonly reference_id?: string;
  /** The next step. */
  readonly hint?: string;
  /** The unchanged result. */
  readonly result: CallToolResult;
}

/**
 * Starts a server and connects to it. The server ends with `client.close()` or with this process.
 *
 * Needs the official client, `@modelcontextprotocol/client` 2.x. Rejects if there is no binary for
 * this machine; the message has the next step.
 */
export declare function start(options?: StartOptions): Promise<ReqloreClient>;

/** The path of the binary that `start` runs. Throws if there is none for this machine. */
export declare function binary(options?: Pick<StartOptions, 'binary'>): string;
