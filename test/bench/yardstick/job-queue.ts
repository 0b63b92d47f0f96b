import { randomBytes, randomUUID } from 'node:crypto'
import { Logger, run as runGraphile } from 'graphile-worker'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { Webhook } from 'standardwebhooks'
import { Agent, request } from 'undici'
import { childProcessMain } from '../child-process-main.ts'

/**
 * A job queue in PostgreSQL whose jobs are POSTs, as its library's documentation shows: signed by
 * `standardwebhooks`, sent by undici, and each attempt recorded in a row.
 */
export interface JobQueueOptions {
  readonly kind: 'graphile-worker' | 'pg-boss'
  readonly databaseUrl: string
  readonly urls: readonly string[]
  readonly concurrency: number
  readonly bodyBytes: number
  /** Whether requests are signed and attempts recorded. */
  readonly logged: boolean
}

/** Adds this many jobs. */
export interface JobQueueCommand {
  readonly jobs: number
}

interface Job {
  readonly id: string
  readonly url: string
}

const QUEUE = 'post'

const BOSS_WORKERS = 4
const BOSS_BATCH = 1_000

childProcessMain<JobQueueOptions, undefined, JobQueueCommand, undefined>(async (options) => {
  const { urls } = options
  const post = await createPost(options)
  const add = await (options.kind === 'pg-boss' ? startBoss : startGraphile)(options, post)
  return {
    ready: undefined,
    async run({ jobs }) {
      await add(
        Array.from({ length: jobs }, (_, i) => ({
          id: `evt_${randomUUID()}`,
          url: urls[i % urls.length] as string,
        })),
      )
      return undefined
    },
  }
})

async function createPost(options: JobQueueOptions): Promise<(job: Job) => Promise<void>> {
  const agent = new Agent({ connections: options.concurrency })
  const body = 'x'.repeat(options.bodyBytes)
  const send = async (url: string, headers: Record<string, string>) => {
    const response = await request(url, { method: 'POST', body, headers, dispatcher: agent })
    const text = await response.body.text()
    if (response.statusCode !== 204) throw new Error(`answered ${response.statusCode}`)
    return { status: response.statusCode, text }
  }
  if (!options.logged) {
    return async ({ url }) => void (await send(url, { 'content-type': 'application/json' }))
  }
  const signer = new Webhook(`whsec_${randomBytes(32).toString('base64')}`)
  const log = await openAttemptLog(options.databaseUrl)
  return async ({ id, url }) => {
    const startedAt = new Date()
    const { status, text } = await send(url, {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': `${Math.floor(startedAt.getTime() / 1_000)}`,
      'webhook-signature': signer.sign(id, startedAt, body),
    })
    await log([id, startedAt, Date.now() - startedAt.getTime(), status, text])
  }
}

/** Commits do not wait for the disk, as in Inflow. */
async function openAttemptLog(databaseUrl: string): Promise<(row: unknown[]) => Promise<unknown>> {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 10,
    options: '-c synchronous_commit=off',
  })
  await pool.query(
    `create table attempt (job text, started_at timestamptz, latency_ms int, status int, response text,
      primary key (job, started_at))`,
  )
  return (values) =>
    pool.query({ name: 'attempt', text: 'insert into attempt values ($1, $2, $3, $4, $5)', values })
}

type Add = (jobs: readonly Job[]) => Promise<void>

/** Its documentation's settings for throughput: a local queue, and completions in batches. */
async function startGraphile(
  { databaseUrl, concurrency }: JobQueueOptions,
  post: (job: Job) => Promise<void>,
): Promise<Add> {
  await runGraphile({
    connectionString: databaseUrl,
    noHandleSignals: true,
    logger: new Logger(() => () => undefined),
    taskList: { [QUEUE]: (payload) => post(payload as Job) },
    preset: {
      worker: {
        concurrentJobs: concurrency,
        maxPoolSize: 10,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  })
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 })
  return async (jobs) => {
    await pool.query(
      `select graphile_worker.add_jobs(array(
        select json_populate_record(null::graphile_worker.job_spec,
          json_build_object('identifier', $2::text, 'payload', payload))
        from unnest($1::json[]) as payload))`,
      [jobs.map((job) => JSON.stringify(job)), QUEUE],
    )
  }
}

/**
 * Workers that fetch as often as allowed, in batches so large that waiting costs little; the HTTP
 * connections bound the concurrent requests.
 */
async function startBoss(
  { databaseUrl }: JobQueueOptions,
  post: (job: Job) => Promise<void>,
): Promise<Add> {
  const boss = new PgBoss({ connectionString: databaseUrl, max: 10 })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(QUEUE)
  for (let worker = 0; worker < BOSS_WORKERS; worker++) {
    const options = { batchSize: BOSS_BATCH, pollingIntervalSeconds: 0.5 }
    await boss.work<Job>(QUEUE, options, async (jobs) => {
      await Promise.all(jobs.map((job) => post(job.data)))
    })
  }
  return async (jobs) => {
    await boss.insert(
      QUEUE,
      jobs.map((data) => ({ data })),
    )
  }
}
