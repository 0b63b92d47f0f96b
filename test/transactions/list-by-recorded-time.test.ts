import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import type { Pool, PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type ListTransactionsRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { newId } from '../../src/core/ids.ts'
import { archiveEvents } from '../../src/events/retention.ts'
import { listTransactions } from '../../src/transactions/list-transactions.ts'
import { insertTransactions } from '../../src/transactions/store.ts'
import { createInstance, incoming, insertBusiness, testClock } from '../settlement/fixture.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { useSharedService } from '../support/service.ts'
import { openAccount, paymentInto, transactionsOf } from './fixture.ts'

const service = useSharedService()
const db = useDatabase(16)
const NOW_MS = Date.UTC(2026, 10, 20, 12)

type Filter = Partial<Parameters<typeof listTransactions>[1]>

/** Reads pages from a token on, until nothing is new. @returns the sessions, and the last token */
async function poll(businessId: string, pageToken: string, filter: Filter = {}) {
  const sessions: string[] = []
  let token = pageToken
  for (;;) {
    const request = {
      businessId,
      live: true,
      accountId: undefined,
      statuses: undefined,
      reference: '',
      sessionId: '',
    }
    const page = await listTransactions(db.database.durablePool, {
      fromMs: undefined,
      toMs: undefined,
      recordedFromMs: 0,
      recordedToMs: undefined,
      ...request,
      pageSize: 3,
      pageToken: token,
      ...filter,
    })
    sessions.push(...page.rows.map(({ sessionId }) => sessionId))
    if (page.nextPageToken === token || page.nextPageToken === '') {
      return { sessions, token: page.nextPageToken }
    }
    token = page.nextPageToken
  }
}

/** Records a payment whose commit waits. */
async function recordUncommitted(client: PoolClient, businessId: string, sessionId: string) {
  const { rows } = await db.database.durablePool.query(
    'select id from account where business_id = $1',
    [businessId],
  )
  const pool = {
    connect: async () => ({
      query: client.query.bind(client),
      release: () => undefined,
      on: () => undefined,
      off: () => undefined,
    }),
  } as unknown as Pool
  await client.query('begin')
  await insertTransactions(pool, [
    {
      ...incoming('', sessionId, 500n),
      id: newId('txn', NOW_MS),
      accountId: rows[0].id,
      businessId,
      live: true,
      createdAtMs: NOW_MS,
      eventId: newId('evt', NOW_MS),
      payload: new Uint8Array([0]),
    },
  ])
}

async function archiveAll(pool: Pool) {
  await sequence(pool)
  await pool.query('update event_retention set floor = (select position from sequencer)')
  while ((await archiveEvents(pool, 10_000)) > 0);
}

const steps = fc.array(
  fc.oneof(
    fc.record({
      step: fc.constant('record'),
      skewMs: fc.integer({ min: -3_600_000, max: 3_600_000 }),
    }),
    fc.record({
      step: fc.constantFrom('hold', 'commit', 'sequence', 'poll', 'archive', 'others', 'reverse'),
    }),
  ),
  { minLength: 5, maxLength: 30 },
)

const record = { step: 'record', skewMs: 0 } as const

test('polling lists each payment once, whatever is committed late and whose clock is wrong', async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 3 }), async (run, pageSize) => {
      const { durablePool } = db.database
      const clock = testClock(NOW_MS)
      const instance = createInstance(db.database, clock)
      const { id, accountNumber } = await insertBusiness(durablePool)
      const held: PoolClient[] = []
      const recorded: string[] = []
      const listed: string[] = []
      let token = ''
      let count = 0
      const commit = async () => {
        const client = held.pop()
        await client?.query('commit')
        client?.release()
      }
      const pollOnce = async () => {
        const { sessions, token: next } = await poll(id, token, { pageSize })
        listed.push(...sessions)
        token = next
      }
      for (const each of run) {
        if ('skewMs' in each) {
          clock.set(NOW_MS + each.skewMs)
          const payment = incoming(accountNumber, `${id}-${count++}`, 500n)
          const { transaction } = await instance.recordPayment(payment)
          recorded.push(transaction!.id)
        } else if (each.step === 'hold' && held.length < 4) {
          const client = await durablePool.connect()
          held.push(client)
          await recordUncommitted(client, id, `${id}-${count++}`)
        } else if (each.step === 'commit') await commit()
        else if (each.step === 'sequence') await sequence(durablePool)
        else if (each.step === 'poll') await pollOnce()
        else if (each.step === 'archive') await archiveAll(durablePool)
        else if (each.step === 'reverse' && recorded.length > 0) {
          await instance.reverse(recorded.pop()!)
        }
        // As many events without money as a page scans.
        else if (each.step === 'others') await writeEvents(durablePool, 1_000, { businessId: id })
      }
      while (held.length > 0) await commit()
      await sequence(durablePool)
      await pollOnce()
      expect(listed).toHaveLength(count)
      expect(new Set(listed).size).toBe(count)
      // What was polled bit by bit is the list as it is read at once.
      expect((await poll(id, '', { pageSize })).sessions).toEqual(listed)
    }),
    {
      numRuns: 12,
      // The archived reversal ends a page, and the events after the archive move no money.
      examples: [
        [[record, { step: 'reverse' }, record, { step: 'archive' }, { step: 'others' }], 1],
      ],
    },
  )
})

test('a payment is listed once it is successful, and keeps its place when it is reversed', async () => {
  const { number, businessId } = await openAccount(service)
  const client = service.client(TransactionService)
  const { PENDING, SUCCESS, FAILED, REVERSED } = TransactionStatus
  const pay = (sessionId: string, status: TransactionStatus) =>
    transactionsOf(service).recordPayment(paymentInto(number, { sessionId, status }))
  const list = (filter: MessageInitShape<typeof ListTransactionsRequestSchema> = {}) =>
    client.listTransactions({ businessId, live: true, recordedFrom: timestampFromMs(0), ...filter })
  const listed = async (filter?: Parameters<typeof list>[0]) =>
    (await list(filter)).transactions.map(({ sessionId }) => sessionId)
  await pay('timed-late', PENDING)
  await pay('timed-failed', FAILED)
  const { transaction } = await pay('timed-early', SUCCESS)
  await expect.poll(() => listed()).toEqual(['timed-early'])
  await pay('timed-late', SUCCESS)
  await expect.poll(() => listed()).toEqual(['timed-early', 'timed-late'])
  await client.reverseTransaction({ transactionId: transaction!.id, reason: 'x' })
  expect(await listed()).toEqual(['timed-early', 'timed-late'])
  expect(await listed({ status: REVERSED })).toEqual(['timed-early'])
  expect(await listed({ status: SUCCESS })).toEqual(['timed-late'])

  const { transactions } = await list()
  const [first, last] = transactions.map(({ recordedAt }) => timestampMs(recordedAt!))
  expect(first).toBeLessThanOrEqual(last!)
  expect(await listed({ recordedFrom: timestampFromMs(last!) })).toContain('timed-late')
  expect(await listed({ recordedFrom: timestampFromMs(last! + 1) })).toEqual([])
  const ended = await list({ recordedTo: timestampFromMs(last!) })
  expect(ended.transactions.map(({ sessionId }) => sessionId)).not.toContain('timed-late')
  expect(ended.nextPageToken).toBe('')
  expect((await list({ recordedTo: timestampFromMs(last! + 1_000) })).nextPageToken).not.toBe('')
  expect(await listed({ from: timestampFromMs(Date.now() + 3_600_000) })).toEqual([])
  expect(await listed({ reference: 'unknown' })).toEqual([])
})

test('needs a mode, a status that has events, and a token of its own', async () => {
  const { id: businessId } = await service.business()
  const client = service.client(TransactionService)
  const recordedFrom = timestampFromMs(0)
  const { nextPageToken } = await client.listTransactions({ businessId, live: true, recordedFrom })
  expect(nextPageToken).not.toBe('')
  for (const wrong of [
    { live: undefined },
    { status: TransactionStatus.PENDING },
    { status: TransactionStatus.FAILED },
    { pageToken: Buffer.from('["1","2"]').toString('base64url') },
    { pageToken: Buffer.from('["x"]').toString('base64url') },
    { pageToken: Buffer.from('["9999999999999999999"]').toString('base64url') },
  ]) {
    const request = { businessId, live: true, recordedFrom, ...wrong }
    await expect(client.listTransactions(request as never)).rejects.toThrow(/invalid_argument/)
  }
})
