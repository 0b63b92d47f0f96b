/** A message from the primary process to a worker. */
export type ToWorker =
  | { readonly kind: 'start'; readonly order: StartOrder }
  /** This worker does the background work of all from now on. */
  | { readonly kind: 'background' }
  /** Commits of another worker added events. */
  | { readonly kind: 'committed' }
  /** Webhooks are due. */
  | { readonly kind: 'deliveries-due' }
  | { readonly kind: 'report-metrics'; readonly id: number }
  /** The response to `collect-metrics`: the aggregated metrics of all workers, and how old they are. */
  | {
      readonly kind: 'collected-metrics'
      readonly id: number
      readonly text: string
      readonly ageMs: number
    }
  /** Read certificates again. */
  | { readonly kind: 'reload' }
  /** The service is about to stop: see `Service.announceStop`. */
  | { readonly kind: 'announce-stop' }
  | { readonly kind: 'stop' }

/** A message from a worker to the primary process. */
export type ToPrimary =
  | { readonly kind: 'ready' }
  /** The worker cannot start: one line for each fault. */
  | { readonly kind: 'failed'; readonly faults: readonly string[] }
  | { readonly kind: 'committed' }
  | { readonly kind: 'deliveries-due' }
  | { readonly kind: 'metrics'; readonly id: number; readonly metrics: WorkerMetrics }
  | { readonly kind: 'collect-metrics'; readonly id: number }

/** What a worker needs beside its environment: secrets must not show in a process list. */
export interface StartOrder {
  /** From 1; a replacement has the number of the worker that it replaces. */
  readonly number: number
  readonly databaseUrl: string
  readonly adminToken: string | undefined
  /** Whether webhooks may go to this machine over http. */
  readonly localWebhooks: boolean
  /** Where to listen: none is 0. */
  readonly ports: Ports
}

export interface Ports {
  readonly httpPort: number
  readonly grpcPort: number
  readonly opsPort: number | undefined
}

/** A metric with its values, as prom-client writes it for aggregation. */
export interface Metric {
  readonly name: string
  /** "counter", "gauge", "histogram" or "summary". */
  readonly type: string
  readonly values: readonly MetricValue[]
}

export interface MetricValue {
  /** Absent: the metric's. */
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string | number>>
  exemplar?: Exemplar | null
}

export interface Exemplar {
  /** In seconds since the Unix epoch. */
  readonly timestamp: number
}

/** The metrics of one worker. */
export type WorkerMetrics = readonly Metric[]
