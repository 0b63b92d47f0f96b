/** What the first process tells a worker. */
export type ToWorker =
  | { readonly kind: 'start'; readonly order: StartOrder }
  /** The work that one worker does for all is yours from now on. */
  | { readonly kind: 'background' }
  /** Commits of another worker added events. */
  | { readonly kind: 'published' }
  /** Webhooks are due. */
  | { readonly kind: 'deliveries' }
  | { readonly kind: 'measure'; readonly id: number }
  /** The answer to a `gather`: of each worker what it measured. */
  | { readonly kind: 'gathered'; readonly id: number; readonly parts: readonly Measured[] }
  /** Read certificates again. */
  | { readonly kind: 'reload' }
  | { readonly kind: 'stop' }

/** What a worker tells the first process. */
export type ToPrimary =
  | { readonly kind: 'ready' }
  /** It cannot start: one line for each fault. */
  | { readonly kind: 'failed'; readonly faults: readonly string[] }
  | { readonly kind: 'published' }
  | { readonly kind: 'deliveries' }
  | { readonly kind: 'measured'; readonly id: number; readonly metrics: Measured }
  | { readonly kind: 'gather'; readonly id: number }

/** What a worker needs beside the environment, and what no environment or command line should show. */
export interface StartOrder {
  /** From 1; a worker that takes another's place has its number. */
  readonly number: number
  readonly databaseUrl: string
  readonly adminToken: string | undefined
  /** Whether webhooks may go to this machine over http. */
  readonly localWebhooks: boolean
  /** Where to listen: neither is 0. */
  readonly ports: Ports
}

export interface Ports {
  readonly httpPort: number
  readonly grpcPort: number
}

/** A metric with its values, as prom-client writes it for aggregation. */
export interface Metric {
  readonly name: string
  /** "counter", "gauge", "histogram" or "summary". */
  readonly type: string
}

/** The metrics of one worker. */
export type Measured = readonly Metric[]
