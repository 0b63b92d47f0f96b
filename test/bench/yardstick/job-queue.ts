import { Logger, run as runGraphile } from 'graphile-worker'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { Agent, request } from 'undici'
import { asProgram } from '../as-program.ts'

/** A queue of jobs in PostgreSQL whose jobs are POSTs. */
export interface JobQueueOptions {
  readonly kind: 'graphile-worker' | 'pg-boss'
  readonly databaseUrl: string
  readonly urls: readonly string[]
  readonly concurrency: number
  readonly bodyBytes: number
}

/** Adds so many jobs. */
export interface JobQueueCommand {
  readonly jobs: number
}

interface Job {
  readonly url: string
}

const QUEUE = 'post'

const BOSS_WORKERS = 4
const BOSS_BATCH = 1_000

asProgram<JobQueueOptions, undefined, JobQueueCommand, undefined>(async (options) => {
  const { urls, concurrency } = options
  const agent = new Agent({ connections: concurrency })
  const body = 'x'.repeat(options.bodyBytes)
  const headers = { 'content-type': 'application/json' }
  const post = async ({ url }: Job): Promise<void> => {
    const answer = await request(url, { method: 'POST', body, headers, dispatcher: agent })
    await answer.body.dump()
    if (answer.statusCode !== 204) throw new Error(`answered ${answer.statusCode}`)
  }
  const add = await (options.kind === 'pg-boss' ? startBoss : startGraphile)(options, post)
  return {
    ready: undefined,
    async run({ jobs }) {
      await add(Array.from({ length: jobs }, (_, i) => ({ url: urls[i % urls.length] as string })))
      return undefined
    },
  }
})

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
          json_build_object('identifier', $2::text, 'payload', json_build_object('url', url)))
        from unnest($1::text[]) as url))`,
      [jobs.map((job) => job.url), QUEUE],
    )
  }
}

/**
 * Workers that fetch as often as it allows, and so much at a time that waiting costs little; how
 * many requests are under way at once is up to the connections.
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
