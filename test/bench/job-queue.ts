import { randomBytes, randomUUID } from 'node:crypto'
import { Logger, run as runGraphile } from 'graphile-worker'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { Webhook } from 'standardwebhooks'
import { Agent, request } from 'undici'

interface JobQueueOptions {
  readonly kind: 'graphile-worker' | 'pg-boss'
  readonly databaseUrl: string
  readonly urls: readonly string[]
  readonly concurrency: number
  /** Whether requests are signed and attempts recorded. */
  readonly logged: boolean
}

interface Job {
  readonly id: string
  readonly url: string
}

/**
 * A job queue in PostgreSQL whose jobs are POSTs, as its library's documentation shows: signed by `standardwebhooks`,
 * sent by undici, and each attempt recorded in a row. Command: to add so many jobs.
 */
export async function jobQueue(options: JobQueueOptions) {
  const { urls, kind } = options
  const post = await createPost(options)
  const add = await (kind === 'pg-boss' ? startBoss : startGraphile)(options, post)
  const run = (count: number) => {
    const url = (at: number) => urls[at % urls.length] as string
    return add(
      Array.from({ length: count }, (_, at) => ({ id: `evt_${randomUUID()}`, url: url(at) })),
    )
  }
  return { ready: undefined, run }
}

type Post = (job: Job) => Promise<unknown>

/** The size of a webhook's body. */
const BODY = 'x'.repeat(750)

async function createPost({ databaseUrl, concurrency, logged }: JobQueueOptions): Promise<Post> {
  const agent = new Agent({ connections: concurrency })
  const send = async (url: string, headers: Record<string, string>) => {
    const all = { 'content-type': 'application/json', ...headers }
    const options = { method: 'POST', body: BODY, headers: all, dispatcher: agent } as const
    const { statusCode, body } = await request(url, options)
    const text = await body.text()
    if (statusCode !== 204) throw new Error(`answered ${statusCode}`)
    return { status: statusCode, text }
  }
  if (!logged) return ({ url }) => send(url, {})
  const signer = new Webhook(`whsec_${randomBytes(32).toString('base64')}`)
  // Commits do not wait for the disk, as in Inflow.
  const options = '-c synchronous_commit=off'
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 10, options })
  await pool.query(
    `create table attempt (job text, started_at timestamptz, latency_ms int, status int, response text,
      primary key (job, started_at))`,
  )
  return async ({ id, url }) => {
    const startedAt = new Date()
    const { status, text } = await send(url, {
      'webhook-id': id,
      'webhook-timestamp': `${Math.floor(startedAt.getTime() / 1_000)}`,
      'webhook-signature': signer.sign(id, startedAt, BODY),
    })
    const values = [id, startedAt, Date.now() - startedAt.getTime(), status, text]
    const insert = 'insert into attempt values ($1, $2, $3, $4, $5)'
    await pool.query({ name: 'attempt', text: insert, values })
  }
}

const QUEUE = 'post'

type Add = (jobs: readonly Job[]) => Promise<void>

/** Its documentation's settings for throughput: a local queue, and completions in batches. */
async function startGraphile(
  { databaseUrl, concurrency }: JobQueueOptions,
  post: Post,
): Promise<Add> {
  await runGraphile({
    connectionString: databaseUrl,
    noHandleSignals: true,
    logger: new Logger(() => () => undefined),
    taskList: { [QUEUE]: async (payload) => void (await post(payload as Job)) },
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
 * Four workers that fetch as often as allowed, in batches so large that waiting costs little; the HTTP connections
 * bound the concurrent requests.
 */
async function startBoss({ databaseUrl }: JobQueueOptions, post: Post): Promise<Add> {
  const boss = new PgBoss({ connectionString: databaseUrl, max: 10 })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(QUEUE)
  const options = { batchSize: 1_000, pollingIntervalSeconds: 0.5 }
  for (let worker = 0; worker < 4; worker++)
    await boss.work<Job>(QUEUE, options, async (jobs) => {
      await Promise.all(jobs.map(({ data }) => post(data)))
    })
  return async (jobs) => {
    const rows = jobs.map((data) => ({ data }))
    await boss.insert(QUEUE, rows)
  }
}
