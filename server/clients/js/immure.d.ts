export interface ImmureOptions {
  /** Where the server is. A password in it is the key, if there is no `key`. */
  url: string;
  key?: string;
  fetch?: typeof fetch;
  headers?: Record<string, string>;
  /** How long a request that a busy server has refused is tried again; default: 30000. */
  retryBudgetMs?: number;
}

/** An error of the server's, before anything ran; or, with status 0, no reply. */
export class ImmureError extends Error {
  readonly status: number;
  readonly code: string;
  /** Which field of the request is wrong. */
  readonly field: string | null;
  readonly retryAfterMs?: number;
}

/** A value that cannot cross. */
export class SerializationError extends TypeError {}

export interface InputFile {
  name: string;
  content?: string;
  /** base64 */
  data?: string;
}

export interface Limits {
  memory_bytes?: number;
  pids?: number;
  cpu_percent?: number;
  cpu_ms?: number;
  scratch_bytes?: number;
  output_bytes?: number;
}

/** The body of POST /execute. */
export interface ExecuteRequest {
  code: string;
  language?: string;
  runtime?: string;
  stdin?: string;
  timeout?: number;
  timeout_ms?: number;
  files?: InputFile[];
  outputs?: string[];
  args?: string[];
  env?: Record<string, string>;
  policy?: string;
  environment?: 'image';
  image?: string;
  limits?: Limits;
  session_id?: string;
  session?: 'kept';
  wait_ms?: number;
  queue_ms?: number;
  callback_url?: string;
  calls?: 'callback' | 'stream';
  results?: boolean;
  execution_id?: string;
}

/** What the program has shown: a mime bundle as Jupyter's, binary data in base64; or the exception that ended it. */
export type ShownResult =
  | {type: 'execute_result' | 'display'; data: Record<string, unknown>}
  | {type: 'error'; name: string; value: string; traceback: string};

export interface OutputFile {
  name: string;
  data: string;
  mime: string;
  [member: string]: unknown;
}

/** What became of the program, in the server's words. */
export interface ExecuteReply {
  status: 'success' | 'execution_error' | 'timeout' | 'oom' | 'cancelled' | 'setup_error';
  stdout: string;
  stderr: string;
  logs: string;
  truncated: boolean;
  /** JSON text of what the program gave to set_result; "" if nothing. */
  output: string;
  exit_code: number;
  signal: string | null;
  duration_ms: number;
  killed: boolean;
  oom: boolean;
  error: string | null;
  execution_id: string;
  session?: 'new' | 'kept';
  files?: OutputFile[];
  /** Where `results` were asked for, and in kernels. */
  results?: ShownResult[];
  results_truncated?: boolean;
  approval_id?: undefined;
  [member: string]: unknown;
}

/** Instead of a reply, where the policy wants an approval first: nothing has run yet. `approval_id` tells the two apart. */
export interface ApprovalRequired {
  status: 'approval_required' | 'approved' | 'running';
  approval_id: string;
  expires_at: string;
  execution_id: string;
}

export type Tools = Record<string, (args: any) => unknown>;

export interface ExecuteOptions {
  signal?: AbortSignal;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  tools?: Tools;
}

export interface CodeExecutionOptions {
  execute?: {fn?: string; args?: unknown[]};
  imports?: Record<string, Record<string, unknown>>;
  modules?: Record<string, string>;
  globals?: Record<string, unknown>;
  language?: 'javascript' | 'typescript';
  memoryLimitBytes?: number;
  filename?: string;
  report?: (value: any) => void;
  /** The server's safety cap for this run; a budget is terminate()'s to keep. */
  timeoutMs?: number;
  /** How long it may wait for a slot. */
  queueMs?: number;
  executionId?: string;
}

export interface CodeExecutionLog {
  level: 'log' | 'info' | 'warn' | 'error' | 'debug';
  args: unknown[];
  timestamp: number;
}

export interface CodeExecutionError {
  name: string;
  message: string;
  stack?: string;
  specifier?: string;
  filename?: string;
  line?: number;
  column?: number;
}

export interface CodeExecutionResult {
  status: 'success' | 'error' | 'memory' | 'terminated' | 'link_error';
  result?: any;
  reports: unknown[];
  logs: CodeExecutionLog[];
  error?: CodeExecutionError;
  /** From runCode() until it settled. */
  durationMs: number;
  memoryUsedBytes?: number;
}

export class CodeExecution implements PromiseLike<CodeExecutionResult> {
  readonly executionId: string;
  readonly running: boolean;
  /** What was reported so far. */
  readonly reports: readonly unknown[];
  /** Ends the run; again it does nothing. */
  terminate(reason?: string): void;
  then<T = CodeExecutionResult, E = never>(
    fulfilled?: ((result: CodeExecutionResult) => T | PromiseLike<T>) | null,
    rejected?: ((error: unknown) => E | PromiseLike<E>) | null): Promise<T | E>;
  catch<E = never>(rejected?: ((error: unknown) => E | PromiseLike<E>) | null): Promise<CodeExecutionResult | E>;
  finally(settled?: (() => void) | null): Promise<CodeExecutionResult>;
}

export interface SessionFile {
  path: string;
  size: number;
  modified_at: string;
}

/** Its files, names of other kinds that it has not, and what became of an interpreter. */
export interface SessionCopied {
  files: number;
  left_out: number;
  kernel: 'not_copied' | 'ended' | null;
}

export interface SessionDifference {
  path: string;
  size: number;
  /** Of one that has changed. */
  size_before?: number;
}

export interface SessionDiff {
  added: SessionDifference[];
  removed: SessionDifference[];
  changed: SessionDifference[];
  truncated: boolean;
}

export interface Session {
  readonly id: string;
  execute(request: ExecuteRequest, options?: ExecuteOptions): Promise<ExecuteReply | ApprovalRequired>;
  files(): Promise<SessionFile[]>;
  get(name: string): Promise<Uint8Array>;
  put(name: string, data: string | ArrayBuffer | ArrayBufferView): Promise<{session: 'new' | 'kept'}>;
  remove(name: string): Promise<void>;
  /** Copies of its files, each a session of its own: all of `ids`, or none. */
  fork(ids: string[]): Promise<SessionCopied>;
  /** What is other in the files of the session `other`. */
  diff(other: string): Promise<SessionDiff>;
  /** Its files become a copy of those of the session `from`. */
  restore(from: string): Promise<SessionCopied>;
  end(): Promise<void>;
}

export interface Call {
  id: string;
  name: string;
  args: any;
}

export interface Job {
  job_id: string;
  approval_id?: undefined;
  execution_id: string;
  runtime: string;
  status: string;
  created_at: string;
  ended_at: string | null;
  expires_at: string | null;
  reply?: ExecuteReply | null;
  calls?: Call[];
}

export interface Jobs {
  start(request: ExecuteRequest, options?: {signal?: AbortSignal}): Promise<Job | ApprovalRequired>;
  get(id: string): Promise<Job>;
  list(): Promise<Job[]>;
  cancel(id: string, reason?: string): Promise<void>;
  wait(id: string, options?: {signal?: AbortSignal; pollMs?: number; tools?: Tools}): Promise<Job>;
}

export interface Approvals {
  list(): Promise<any[]>;
  get(id: string): Promise<any>;
  approve(id: string, reason?: string): Promise<any>;
  reject(id: string, reason?: string): Promise<any>;
}

export class Immure {
  constructor(options: ImmureOptions);
  readonly jobs: Jobs;
  readonly approvals: Approvals;
  execute(request: ExecuteRequest, options?: ExecuteOptions): Promise<ExecuteReply | ApprovalRequired>;
  runCode(source: string, options?: CodeExecutionOptions): CodeExecution;
  session(id: string): Session;
  sessions(): Promise<any[]>;
  runtimes(): Promise<any[]>;
  policies(): Promise<any[]>;
}
