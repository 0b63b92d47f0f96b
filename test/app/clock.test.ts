import { createClient } from '@connectrpc/connect'
import { expect, onTestFinished, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { startInstance } from '../support/instance.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { startReceiver } from '../support/receiver.ts'
import { scrape } from '../support/scrape.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase(2)

test('an instance that is an hour ahead of the database works by the clock of the database', async () => {
  const { log, lines } = captureLog('warn')
  const clock = { now: () => Date.now() + HOUR_MS }
  const instance = await startInstance(db.url, {}, log, clock)
  onTestFinished(instance.close)
  const receiver = await startReceiver()
  onTestFinished(receiver.close)
  receiver.answer({ status: 500 })
  const transport = grpcTransport(instance.grpcUrl)
  const { businessId, accountNumber } = await openBusinessOver(transport)
  const { secret } = await createClient(WebhookService, transport).createEndpoint({
    businessId,
    url: receiver.url,
  })
  const { transaction } = await createClient(TransactionService, transport).recordPayment({
    bank: Bank.BANK_PROVIDUS,
    accountNumber,
    sessionId: 'session-1',
    amountMinor: 700n,
  })

  // Receivers refuse timestamps that are five minutes off.
  const { rawBody, headers } = await receiver.next()
  expect(verifyWebhook(rawBody, headers, secret)).toMatchObject({ ok: true })
  const { rows } = await waitFor(async () => {
    const found = await db.database.durablePool.query(
      `select extract(epoch from due_at - now())::int as due_seconds
        from webhook_delivery join webhook_endpoint e on e.id = endpoint_id
        where business_id = $1 and attempts > 0`,
      [businessId],
    )
    expect(found.rowCount).toBeGreaterThan(0)
    return found
  })
  // Retries come soon, but not at once.
  for (const { due_seconds: due } of rows) expect(Math.abs(due)).toBeLessThan(HOUR_MS / 2_000)
  const { rows: recorded } = await db.database.durablePool.query(
    'select extract(epoch from now() - created_at)::int as age from transaction where id = $1',
    [transaction!.id],
  )
  expect(Math.abs(recorded[0].age)).toBeLessThan(60)

  // A slow round trip is part of what is measured.
  const note = /this machine's clock is (359\d|360\d)(\.\d)? s ahead of the database's/
  await waitFor(async () => {
    const ready = await fetch(`${instance.httpUrl}/readyz`)
    expect([ready.status, await ready.json()]).toEqual([
      200,
      { status: 'ready', notes: [expect.stringMatching(note)] },
    ])
  })
  await waitFor(async () => {
    const offset = (await scrape(instance.httpUrl)).value('inflow_clock_offset_seconds')
    expect(offset).toBeCloseTo(HOUR_MS / 1_000, -1)
  })
  expect(lines.filter((line) => note.test(JSON.stringify(line)))).toHaveLength(1)
})
