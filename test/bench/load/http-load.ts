import { childProcessMain } from '../child-process-main.ts'
import { accountNumberOf, sessionIdOf } from '../seed.ts'
import { openHttpConnection } from './http-connection.ts'
import { type Caller, type LoadCommand, type LoadResult, runCallers } from './run-callers.ts'

/** What is posted over keep-alive connections, one request at a time on each. */
export interface HttpLoadOptions {
  /** `http://127.0.0.1:…` and the path. */
  readonly url: string
  /** The bearer token; undefined: none. */
  readonly key: string | undefined
  readonly connections: number
  readonly body: LookUps | { readonly kind: 'creation' }
}

/** Look-ups of random payments. */
interface LookUps {
  readonly kind: 'look-up'
  readonly transactions: number
  /** How many of the last ones are looked up; absent: all. */
  readonly newest?: number
}

childProcessMain<HttpLoadOptions, undefined, LoadCommand, LoadResult>(async (options) => {
  const callers = await Promise.all(
    Array.from({ length: options.connections }, (_, caller) => openCaller(options, caller)),
  )
  return { ready: undefined, run: ({ seconds }) => runCallers(callers, seconds) }
})

async function openCaller({ url, key, body }: HttpLoadOptions, caller: number): Promise<Caller> {
  const authorization = key === undefined ? undefined : `Bearer ${key}`
  const connection = await openHttpConnection({ url, authorization })
  const next = body.kind === 'creation' ? creations(caller) : lookups(body)
  return (done) => connection.post(next(), done)
}

function lookups({ transactions, newest = transactions }: LookUps): () => string {
  return () => `{"session_id":"${sessionIdOf(transactions - Math.floor(Math.random() * newest))}"}`
}

/** References are unique by process, caller and request. */
function creations(caller: number): () => string {
  const prefix = `b${process.pid}-${caller}`.padEnd(14, '-')
  let count = 0
  return () => {
    count += 1
    const number = accountNumberOf(count)
    return `{"reference":"${prefix}${number}","email":"ada.obi${number}@example.com","phone":"080${number.slice(2).replace(/^0/, '9')}","firstName":"Ada","lastName":"Obi","bank":"9PSB"}`
  }
}
