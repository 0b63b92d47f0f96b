import { expect, onTestFinished, test } from 'vitest'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { migrated } from '../../support/database.ts'
import { grpcTransport } from '../../support/grpc-client.ts'
import { openBusinessOver } from '../../support/opened-account.ts'
import { generator, SEED } from '../../support/random.ts'
import { type ReceivedRequest, startReceiver } from '../../support/receiver.ts'
import { postRest } from '../../support/service.ts'
import { untilServed, waitFor } from '../../support/wait-for.ts'
import { startPair } from '../standby.ts'
import { pause, pay, readsOf, resume, startReader, untilUsed } from './scene.ts'

const INSTANCES = 3
const PAYMENTS = Number(process.env['PAYMENTS'] ?? 240)
const AT_ONCE = 4
/** How many payments there are between a pause of the replay and its end. */
const PAUSE_EVERY = 25
const REVERSE_EVERY = 10
const SETTLE_EVERY = 60

/** What a look-up by a session id returns. */
interface Shown {
  readonly status: string
  readonly is_settled: boolean
}

const isSettled = (shown: Shown) => shown.is_settled

test('a webhook, an answer and a settlement are never ahead of the next look-up at any instance', async () => {
  const random = generator(SEED)
  const pair = await startPair()
  await migrated(pair.primary.url)
  const readers = await Promise.all(
    Array.from({ length: INSTANCES }, () => startReader(pair.primary.url, pair.standby.url)),
  )
  const any = () => readers[Math.floor(random() * INSTANCES)]!
  const { businessId, secretKey, accountNumber } = await openBusinessOver(
    grpcTransport(any().grpcUrl),
  )
  const receiver = await startReceiver()
  onTestFinished(receiver.close)
  for (const reader of readers) await untilUsed(reader, true)

  const wrong: string[] = []
  const look = async (sessionId: string, why: string, isRight: (shown: Shown) => boolean) => {
    const request = { session_id: sessionId }
    const answer = await untilServed(() =>
      postRest(any().httpUrl, secretKey, 'getTransaction/', request),
    )
    const shown: Shown | undefined = answer.body.data
    if (shown === undefined || !isRight(shown)) {
      wrong.push(`${why} of ${sessionId}: ${answer.status} ${answer.text}`)
    }
  }
  const recorded: string[] = []
  let reversed = 0
  /** Payments that the settlement in progress settles. */
  let due: string[] = []
  let settlements = 0
  const completed = new Set<string>()
  const looks: Promise<void>[] = []
  const onWebhook = ({ rawBody }: ReceivedRequest) => {
    const { event, data } = JSON.parse(rawBody)
    if (event === 'PAYMENT_NOTIFICATION') {
      looks.push(look(data.transaction_ref, event, () => true))
    } else if (event === 'PAYMENT_REVERSED') {
      looks.push(look(data.transaction_ref, event, ({ status }) => status === 'REVERSED'))
    } else {
      looks.push(...due.map((sessionId) => look(sessionId, event, isSettled)))
      completed.add(data.event_id)
    }
    return { status: 200 } as const
  }
  receiver.answer(onWebhook)
  const kinds = ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED', 'SETTLEMENT_COMPLETED']
  await any().client(WebhookService).createEndpoint({ businessId, url: receiver.url, kinds })

  const reverse = async (transactionId: string, sessionId: string) => {
    reversed += 1
    await any().client(TransactionService).reverseTransaction({ transactionId, reason: 'test' })
    await look(sessionId, 'reversal', ({ status }) => status === 'REVERSED')
  }
  const settle = async () => {
    due = recorded.slice(-5)
    settlements += 1
    const requestId = `request-${settlements}`
    await waitFor(async () => {
      const request = { businessId, requestId, force: true }
      expect((await any().client(SettlementService).settle(request)).completed).toBe(true)
    })
    await Promise.all(due.map((sessionId) => look(sessionId, 'settlement', isSettled)))
    await waitFor(() => expect(completed.size).toBe(settlements))
  }
  let settling = Promise.resolve()
  let started = 0
  let paused = false
  const payNext = async (): Promise<void> => {
    const number = started++
    const sessionId = `session-${number}`
    if (number % PAUSE_EVERY === PAUSE_EVERY - 1) {
      paused = !paused
      await (paused ? pause : resume)(pair.standby.url)
    }
    const transactionId = await pay(any(), accountNumber, sessionId)
    await look(sessionId, 'answer', ({ status }) => status === 'SUCCESS')
    if (number % REVERSE_EVERY === 0) await reverse(transactionId, sessionId)
    else recorded.push(sessionId)
    if (number % SETTLE_EVERY === SETTLE_EVERY - 1) {
      settling = settling.then(settle)
      await settling
    }
  }
  const payAll = async () => {
    while (started < PAYMENTS) await payNext()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, payAll))
  await resume(pair.standby.url)
  await waitFor(() => {
    expect(receiver.requests.length).toBeGreaterThanOrEqual(PAYMENTS + reversed + settlements)
  })
  await Promise.all(looks)
  expect(wrong).toEqual([])
  const reads = await Promise.all(readers.map(readsOf))
  const total = reads.reduce((sum, { primary, replica }) => ({
    primary: sum.primary + primary,
    replica: sum.replica + replica,
  }))
  console.log(`${total.replica} reads by the replica, ${total.primary} by the primary`)
  expect(total.replica).toBeGreaterThan(0)
  expect(total.primary).toBeGreaterThan(0)
})
