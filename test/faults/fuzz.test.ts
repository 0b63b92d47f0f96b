import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createClient } from '@connectrpc/connect'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { KEY_SCOPES } from '../../src/auth/caller.ts'
import { restPath } from '../../src/protobuf/contract-services.ts'
import { allMethods, nameOf } from '../protocols/matrix/protocols.ts'
import { BY_THEMSELVES } from '../protocols/matrix/snapshot.ts'
import { until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { SEED } from '../support/random.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { createGrpcSender, grpcRequest } from './fuzz/grpc-requests.ts'
import {
  type Admission,
  connectRequest,
  createHttpSender,
  restRequest,
} from './fuzz/http-requests.ts'
import { createRandom, type Random } from './fuzz/random.ts'
import { rawHttp, rawHttp2, sendBytes } from './fuzz/raw-bytes.ts'
import {
  judgeConnect,
  judgeGrpc,
  judgeRawHttp,
  judgeRest,
  seen,
  type Verdict,
} from './fuzz/verdicts.ts'
import type { World } from './fuzz/words.ts'

const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 2_000)
const LANES = 24

/** What the heap may have grown by from the first tenth to the end, in MiB. */
const GROWTH_MAX_MIB = 48

/** Each of these says that requests got that far. */
const OUTCOMES = [
  'REST 200',
  'REST 404',
  'REST 409',
  'REST 422',
  'Connect 200',
  'gRPC 0',
  'gRPC 3',
  'gRPC 5',
]

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const db = useDatabase()
const methods = await allMethods()
const rest = methods.flatMap((method) => {
  const path = restPath(method)
  return path === undefined ? [] : [{ method, path }]
})

/** What the service logged as a fault of its own. */
const logged: string[] = []
const log = pino(
  { level: 'error' },
  { write: (line: string) => void (logged.length < 20 && logged.push(line.slice(0, 2_000))) },
)

let instance: Instance
let world: World

beforeAll(async () => {
  // Every request is to be looked at, however many were wrong before it.
  const rateLimits = { key: undefined, token: undefined, address: undefined, failed: undefined }
  instance = await startInstance(db.url, { rateLimits }, log)
  world = await makeWorld()
})

afterAll(() => instance?.close())

async function makeWorld(): Promise<World> {
  const transport = grpcTransport(instance.grpcUrl)
  const businesses = createClient(BusinessService, transport)
  const { business } = await businesses.createBusiness({ name: 'Acme' })
  const businessId = business!.id
  const { secretKey } = await businesses.issueKey({
    businessId,
    scopes: [...KEY_SCOPES],
    allowedCidrs: ['127.0.0.0/8'],
  })
  const revoked = await businesses.issueKey({ businessId })
  await businesses.revokeKey({ keyId: revoked.key!.id })
  const webhooks = createClient(WebhookService, transport)
  const { endpoint } = await webhooks.createEndpoint({ businessId, url: 'http://127.0.0.1:9/' })
  const { accountNumber, reference } = await openAccountOver(transport, {
    businessId,
    bank: Bank.BANK_9PSB,
  })
  const transfer = { accountNumber, amountMinor: 100n, sessionId: 's-1' }
  await createClient(SandboxService, transport).simulateTransfer(transfer)
  const { deliveries } = await until(
    () => webhooks.listDeliveries({ endpointId: endpoint!.id }),
    (found) => found.deliveries.some((delivery) => delivery.attemptCount > 0),
  )
  return {
    businessId,
    key: secretKey,
    revokedKey: revoked.secretKey,
    adminToken: ADMIN_TOKEN,
    accountNumber,
    reference,
    sessionId: 's-1',
    endpointId: endpoint!.id,
    deliveryId: deliveries[0]!.id,
    keyId: revoked.key!.id,
  }
}

/** Sends one request over one of the protocols. @returns what was wrong with its response */
function createAttempt(): {
  run(index: number, admission: Admission): Promise<Verdict>
  close(): void
} {
  const http = createHttpSender(instance.httpUrl)
  const grpc = createGrpcSender(instance.grpcUrl)
  const attempt = async (random: Random, index: number, admission: Admission) => {
    const method = random.pick(methods)
    const protocol = random.int(100)
    if (protocol < 30) {
      const request = restRequest(random, world, random.pick(rest), admission)
      const verdict = await http.send(request).then(
        (answer) => judgeRest(request, answer),
        (error: Error) => judgeSilence(error, request.body),
      )
      return verdict && `REST ${request.method} ${request.path.slice(0, 80)}: ${verdict}`
    }
    if (protocol < 58) {
      const request = connectRequest(random, world, method, admission)
      const verdict = await http.send(request).then(
        (answer) => judgeConnect(request, answer),
        (error: Error) => judgeSilence(error, request.body),
      )
      const type = request.headers['content-type']
      return verdict && `Connect ${request.method} ${nameOf(method)} ${type}: ${verdict}`
    }
    if (protocol < 95) {
      const request = grpcRequest(random, world, method, admission)
      const verdict = await grpc
        .send(request, index)
        .then(judgeGrpc, (error: Error) => error.message)
      return verdict && `gRPC ${request.headers[':path']}: ${verdict}`
    }
    if (protocol < 98) {
      const bytes = rawHttp(random)
      const verdict = judgeRawHttp(await sendBytes(instance.httpUrl, bytes))
      return (
        verdict && `bytes ${JSON.stringify(bytes.toString('latin1').slice(0, 200))}: ${verdict}`
      )
    }
    await sendBytes(instance.grpcUrl, rawHttp2(random))
    return undefined
  }
  return {
    run: async (index, admission) => {
      const verdict = await attempt(createRandom(SEED, index), index, admission)
      return verdict && `#${index} ${verdict}`
    },
    close() {
      http.close()
      grpc.close()
    },
  }
}

/** A body that is too large may be cut off, along with its connection, before it was sent. */
function judgeSilence(error: Error, body: Buffer | undefined): Verdict {
  return (body?.length ?? 0) > 64_000 ? undefined : `no answer: ${error.message}`
}

/** Runs requests `from` to `to` in lanes. @returns the first failures */
async function run(from: number, to: number, admission: Admission): Promise<string[]> {
  const failures: string[] = []
  const attempt = createAttempt()
  let next = from
  const lane = async () => {
    while (next < to && failures.length < 20) {
      const verdict = await attempt.run(next++, admission)
      if (verdict) failures.push(verdict)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  attempt.close()
  return failures
}

/** Everything that callers could change. */
async function digest(): Promise<Record<string, string>> {
  const { durablePool } = db.database
  const { rows } = await durablePool.query(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace
      and relkind in ('r', 'p') and not relispartition`,
  )
  const digests: Record<string, string> = {}
  for (const { name } of rows) {
    if (BY_THEMSELVES.test(name) || name === 'webhook_delivery') continue
    const found = await durablePool.query(
      `select count(*) || ' ' || coalesce(md5(string_agg(r::text, '' order by r::text)), '') as d
        from ${JSON.stringify(name)} r`,
    )
    digests[name] = found.rows[0].d
  }
  return digests
}

function heapMib(): number {
  collectGarbage()
  collectGarbage()
  return process.memoryUsage().heapUsed / 1_048_576
}

test('hostile input over every protocol changes nothing, breaks nothing and gets an error', async () => {
  const strangers = Math.floor(REQUESTS * 0.3)
  const warm = Math.floor(REQUESTS * 0.1)

  const before = await digest()
  expect(await run(0, warm, 'wrong')).toEqual([])
  const heapBefore = heapMib()
  expect(await run(warm, strangers, 'wrong')).toEqual([])
  expect(logged).toEqual([])
  expect(await digest()).toEqual(before)

  const failures = await run(strangers, REQUESTS, 'right')
  expect({ failures, logged }).toEqual({ failures: [], logged: [] })
  const grown = heapMib() - heapBefore
  console.log(`hostile input: the heap grew by ${grown.toFixed(1)} MiB`)
  expect(grown).toBeLessThan(GROWTH_MAX_MIB)
  console.log(
    `hostile input: ${[...seen]
      .sort()
      .map((each) => each.join(' × '))
      .join(', ')}`,
  )
  // Of what was let in, enough was right to get all the way, and enough to get half of it. What comes by
  // chance may take longer with some seeds.
  const rare = () => OUTCOMES.filter((outcome) => (seen.get(outcome) ?? 0) <= REQUESTS / 1_000)
  for (let sent = REQUESTS; rare().length > 0 && sent < 10 * REQUESTS; sent += 200) {
    expect(await run(sent, sent + 200, 'right')).toEqual([])
  }
  expect(rare()).toEqual([])
  await waitFor(async () => expect((await fetch(`${instance.httpUrl}/readyz`)).status).toBe(200))
})
