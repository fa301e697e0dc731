import type {ExecuteRequest, Immure, Tools} from '../immure.js';

export interface ExecuteCodeOptions {
  /** The languages to offer; default: python. */
  runtimes?: string[];
  /** Further fields of each job. */
  request?: Partial<ExecuteRequest>;
  /** What its programs may call. */
  tools?: Tools;
}

/** A tool, `execute_code`, of the framework whose adapter this is. */
export function executeCode(client: Immure, options?: ExecuteCodeOptions): any;
