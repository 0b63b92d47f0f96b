import { Code } from '@connectrpc/connect'
import { beforeAll, expect, test } from 'vitest'
import { AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { deleteEndedNotes } from '../../src/overview/update-review-item.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { pageTokenOf } from '../../src/postgres/page-token.ts'
import { lockDue } from '../../src/settlement/due-index.ts'
import { DEAF_URL } from '../protocols/matrix/scene.ts'
import { pages } from '../support/pages.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { fresh, nameOf, openAccount, openShop, pay, restricted, type Shop } from './scene.ts'

const service = useService()
const operator = () => service.client(OverviewService)

let shop: Shop
let other: Shop
/** The ids of what waits, by its kind. */
const waiting = {} as Record<keyof typeof ReviewKind, string>

beforeAll(async () => {
  shop = await openShop(service, { terms: { amountMinor: 500n } })
  other = await openShop(service)
  const { durablePool } = service.database
  const held = await pay(service, shop, 400n)
  waiting.HELD_PAYMENT = held.id
  const payments = service.client(TransactionService)
  const sessionId = fresh('stray')
  const stray = { bank: Bank.BANK_9PSB, accountNumber: '0000000001', sessionId, amountMinor: 7n }
  await payments.recordPayment(stray)
  const paid = await pay(service, other)
  await payments.recordPayment({
    ...stray,
    accountNumber: other.accountNumber,
    sessionId: paid.sessionId,
  })
  const { endpoint } = await service
    .client(WebhookService)
    .createEndpoint({ businessId: other.businessId, url: `${DEAF_URL}?secret=x` })
  waiting.ENDPOINT = endpoint!.id
  await pay(service, other)
  await waitFor(async () => {
    const { rows } = await durablePool.query(
      'select from webhook_endpoint where failing_since is not null',
    )
    expect(rows).toHaveLength(1)
  })
  const opening = await openAccount(service, shop.businessId)
  waiting.ACCOUNT_OPENING = opening.reference
  await durablePool.query(
    `update account set status = 'PENDING', opening_state = 'MANUAL_REVIEW', last_cause = 'no response',
      account_number = null, account_name = null where reference = $1`,
    [opening.reference],
  )
  await durablePool.query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state, outcome, cause,
        tries, amount_minor)
      values ('ntf_1', 'PALMPAY', '', now() - interval '1 day', '', '', 'MANUAL_REVIEW', 'MANUAL_REVIEW', 'unreadable', 1, 3)`,
  )
  waiting.HELD_NOTIFICATION = 'ntf_1'
  await inTransaction(durablePool, async (client) => {
    // The first sweep would correct the row.
    await lockDue(client, 'exclusive')
    await client.query("update settlement_sweep set next_at = 'infinity'")
    await client.query(
      `insert into settlement_due (business_id, live, due_at, next_at, failures)
        values ($1, true, now() - interval '11 minutes', now() + interval '1 hour', 2)
        on conflict (business_id, live) do update set due_at = excluded.due_at, next_at = excluded.next_at,
          failures = excluded.failures`,
      [other.businessId],
    )
  })
  waiting.SETTLEMENT = other.businessId
  waiting.UNMATCHED_PAYMENT = await idOf('unmatched_payment')
  waiting.PAYMENT_CONFLICT = await idOf('payment_conflict')
})

async function idOf(table: string): Promise<string> {
  const { rows } = await service.database.durablePool.query(`select id from ${table}`)
  expect(rows).toHaveLength(1)
  return rows[0].id
}

const idsOf = (items: readonly ReviewItem[]) =>
  items.map(({ kind, id }) => `${nameOf(ReviewKind, kind)} ${id}`)
const named = (...kinds: (keyof typeof ReviewKind)[]) =>
  kinds.map((kind) => `${kind} ${waiting[kind]}`)

/** Every page, of so many items each. */
const listAll = (request: object = {}, pageSize = 50, client = operator()) =>
  pages(async (pageToken) => {
    const response = await client.listReviewItems({ ...request, pageSize, pageToken })
    expect(response.items.length).toBeLessThanOrEqual(pageSize)
    if (pageToken !== '') expect(response.counts).toEqual([])
    return { items: response.items, next: response.nextPageToken }
  })

const ALL = [
  'HELD_NOTIFICATION',
  'SETTLEMENT',
  'HELD_PAYMENT',
  'UNMATCHED_PAYMENT',
  'PAYMENT_CONFLICT',
  'ENDPOINT',
  'ACCOUNT_OPENING',
] as const

test.each([2, 50])('lists every kind, oldest first, in pages of %d', async (pageSize) => {
  const items = await listAll({}, pageSize)
  expect(idsOf(items).sort()).toEqual(named(...ALL).sort())
  const { counts } = await operator().listReviewItems({ pageSize })
  expect(counts.map(({ kind }) => nameOf(ReviewKind, kind)).sort()).toEqual([...ALL].sort())
  expect(counts.every(({ count, more }) => count === 1 && !more)).toBe(true)
  expect(idsOf(items).slice(0, 3)).toEqual(named('HELD_NOTIFICATION', 'SETTLEMENT', 'HELD_PAYMENT'))
})

test('states what is known of each, and the rpcs that can end it', async () => {
  const byKind = new Map((await listAll()).map((item) => [nameOf(ReviewKind, item.kind), item]))
  expect(byKind.get('UNMATCHED_PAYMENT')).toMatchObject({
    amountMinor: 7n,
    accountNumber: '0000000001',
    bank: Bank.BANK_9PSB,
    live: true,
    text: expect.stringContaining('not an open account'),
    actions: [
      'inflow.reconciliation.v1.ReconciliationService/AssignUnmatchedPayment',
      'inflow.payout.v1.PayoutService/RefundUnmatchedPayment',
      'inflow.reconciliation.v1.ReconciliationService/ReturnUnmatchedPayment',
    ],
  })
  expect(byKind.get('PAYMENT_CONFLICT')).toMatchObject({
    businessId: other.businessId,
    text: expect.stringContaining('instead of 1500.50'),
  })
  expect(byKind.get('ACCOUNT_OPENING')).toMatchObject({
    text: expect.stringContaining('no response'),
    actions: ['inflow.account.v1.AccountService/ResolveAccount'],
  })
  expect(byKind.get('HELD_PAYMENT')).toMatchObject({
    text: 'The payment is less than its account expects; the business decides.',
    transactionId: waiting.HELD_PAYMENT,
  })
  // Paths and queries of endpoints may hold secrets.
  expect(byKind.get('ENDPOINT')!.text).toBe(
    `The endpoint at ${new URL(DEAF_URL).origin} has failed since its last success.`,
  )
  expect(byKind.get('SETTLEMENT')!.text).toContain('failed 2 times in a row')
  expect([...byKind.values()].every(({ since, actions }) => since && actions.length > 0)).toBe(true)
})

test('names the business, the account and its state, who paid, and what was expected', async () => {
  const { accountNumber } = other
  await service.client(AccountService).closeAccount({
    businessId: other.businessId,
    reference: other.reference,
  })
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: fresh('late'),
    amountMinor: 9n,
    payer: { name: 'BOLA ADE' },
  })
  const items = await listAll()
  const closed = { customerName: 'Ada Obi', status: AccountStatus.CLOSED, accountNumber }
  const of = (kind: ReviewKind) => items.filter((item) => item.kind === kind)
  const [unowned, late] = of(ReviewKind.UNMATCHED_PAYMENT)
  expect(unowned).toMatchObject({ businessName: '' })
  expect(unowned!.account).toBeUndefined()
  // The money belongs to no business until it is assigned.
  expect(late).toMatchObject({
    businessId: '',
    payerName: 'BOLA ADE',
    businessName: expect.stringMatching(/^Shop/),
    account: { ...closed, businessId: other.businessId, reference: other.reference },
  })
  expect(of(ReviewKind.PAYMENT_CONFLICT)[0]).toMatchObject({
    account: closed,
    amountMinor: 7n,
    expectedAmountMinor: 150_050n,
  })
  expect(of(ReviewKind.HELD_PAYMENT)[0]).toMatchObject({
    account: { reference: shop.reference },
    payerName: 'BOLA ADE',
    amountMinor: 400n,
    expectedAmountMinor: 500n,
  })
  expect(of(ReviewKind.ACCOUNT_OPENING)[0]).toMatchObject({
    account: {
      reference: waiting.ACCOUNT_OPENING,
      accountNumber: '',
      status: AccountStatus.PENDING,
    },
  })
  expect(of(ReviewKind.ENDPOINT)[0]).toMatchObject({ endpointUrl: `${DEAF_URL}?secret=x` })
  expect(of(ReviewKind.SETTLEMENT)[0]!.businessName).toMatch(/^Shop/)
  const { payments } = await service.client(ReconciliationService).listUnmatchedPayments({})
  const { id: unmatchedPaymentId } = payments.find(({ amountMinor }) => amountMinor === 9n)!
  const returned = { unmatchedPaymentId, note: 'sent back' }
  await service.client(ReconciliationService).returnUnmatchedPayment(returned)
})

test('a restricted token sees what its own businesses decide about, and nothing else', async () => {
  const ofShop = await restricted(service, shop.businessId)
  expect(idsOf(await listAll({}, 1, ofShop))).toEqual(named('HELD_PAYMENT', 'ACCOUNT_OPENING'))
  const ofOther = await restricted(service, other.businessId)
  expect(idsOf(await listAll({}, 50, ofOther))).toEqual(named('ENDPOINT'))
  const { counts } = await ofOther.listReviewItems({})
  expect(counts).toMatchObject([{ kind: ReviewKind.ENDPOINT, count: 1 }])
  const kinds = [ReviewKind.UNMATCHED_PAYMENT, ReviewKind.PAYMENT_CONFLICT, ReviewKind.SETTLEMENT]
  expect(await ofOther.listReviewItems({ kinds })).toMatchObject({ items: [], counts: [] })
})

test('an item of every kind is taken and noted about, once, with its audit entry', async () => {
  const admin = service.client(AdminService)
  const update = (kind: keyof typeof ReviewKind, change: object) =>
    operator().updateReviewItem({ itemId: waiting[kind], kind: ReviewKind[kind], ...change })
  const newest = async () => (await admin.listAuditEntries({ pageSize: 1 })).entries[0]!
  for (const kind of ALL) await update(kind, { assignee: 'Ada', note: `of ${kind}` })
  for (const { kind, assignee, note, notedAt, notedBy } of await listAll()) {
    const expected = {
      assignee: 'Ada',
      note: `of ${nameOf(ReviewKind, kind)}`,
      notedBy: 'bootstrap',
    }
    expect({ assignee, note, notedBy }).toEqual(expected)
    expect(notedAt).toBeDefined()
  }
  const { number, ...entry } = await newest()
  await update('HELD_PAYMENT', { assignee: 'Ada' })
  expect((await newest()).number).toBe(number)
  expect(entry).toMatchObject({ action: 'review_item.update', targetKind: 'review_item' })
  // What is absent stays; what is empty is removed, and its row with the last of it.
  expect(await update('HELD_PAYMENT', { assignee: '' })).toMatchObject({
    assignee: '',
    note: 'of HELD_PAYMENT',
    notedBy: 'bootstrap',
  })
  expect(await newest()).toMatchObject({
    number: number + 1n,
    targetId: waiting.HELD_PAYMENT,
    businessId: '',
  })
  expect(JSON.parse((await newest()).details)).toEqual({
    kind: 'HELD_PAYMENT',
    live: true,
    before: { assignee: 'Ada', note: 'of HELD_PAYMENT' },
    after: { assignee: '', note: 'of HELD_PAYMENT' },
  })
  const none = await update('HELD_PAYMENT', { note: '' })
  expect(none).toMatchObject({ assignee: '', note: '', notedBy: '' })
  expect(none.notedAt).toBeUndefined()
  expect(await notedItems()).not.toContain(waiting.HELD_PAYMENT)
  // A business sees neither the note nor its audit entry.
  const portal = await restricted(service, shop.businessId, other.businessId)
  const { items } = await portal.listReviewItems({})
  expect(items.length).toBeGreaterThan(1)
  expect(items.filter(({ assignee, note, notedBy }) => assignee || note || notedBy)).toEqual([])
  for (const { businessId } of [shop, other]) {
    const request = { businessId, action: 'review_item.update' }
    expect((await admin.listAuditEntries(request)).entries).toEqual([])
  }
})

const notedItems = async () => {
  const { rows } = await service.database.durablePool.query(
    'select item_id from review_note order by item_id',
  )
  return rows.map(({ item_id }) => item_id)
}

test('an item that does not wait is not found', async () => {
  const before = await notedItems()
  const request = { kind: ReviewKind.HELD_PAYMENT, note: 'x', itemId: waiting.HELD_PAYMENT }
  const unseen: readonly object[] = [
    { itemId: 'txn_unknown' },
    { live: false },
    { kind: ReviewKind.UNMATCHED_PAYMENT },
  ]
  for (const change of unseen) {
    const asked = { ...request, ...change }
    await expect(operator().updateReviewItem(asked)).rejects.toMatchObject({
      code: Code.NotFound,
      rawMessage: `No item ${asked.itemId} of the kind ${nameOf(ReviewKind, asked.kind)} waits in ${'live' in asked ? 'test' : 'live'} mode`,
    })
  }
  expect(await notedItems()).toEqual(before)
})

test('the notes of what was decided are deleted, and no others', async () => {
  const held = await pay(service, shop, 300n)
  const note = { kind: ReviewKind.HELD_PAYMENT, note: 'gone soon', itemId: held.id }
  await operator().updateReviewItem(note)
  const others = (await notedItems()).filter((id) => id !== held.id)
  expect(others.length).toBeGreaterThan(5)
  await service.client(HeldPaymentService).acceptPayment({ transactionId: held.id })
  await expect(operator().updateReviewItem(note)).rejects.toThrow('waits in live mode')
  await deleteEndedNotes(createTestRuntime(service.database))
  expect(await notedItems()).toEqual(others)
})

test('what was decided is gone; a return that was requested waits for its completion', async () => {
  const held = await pay(service, shop, 300n)
  const client = service.client(HeldPaymentService)
  await client.returnPayment({ transactionId: held.id, reason: 'too little' })
  const find = async () =>
    (await listAll({ kinds: [ReviewKind.HELD_PAYMENT] })).find(({ id }) => id === held.id)
  expect(await find()).toMatchObject({
    text: expect.stringContaining('its return is requested: too little'),
    actions: ['inflow.transaction.v1.HeldPaymentService/CompleteReturn'],
  })
  await client.completeReturn({ transactionId: held.id, note: 'done' })
  expect(await find()).toBeUndefined()
})

test('refuses the token of another list, and places that it never named', async () => {
  const place = (endpoint: string) => pageTokenOf(['', '', '', '', '', endpoint, ''])
  for (const pageToken of ['x', pageTokenOf(['a']), place("1' or true"), place('now')]) {
    await expect(operator().listReviewItems({ pageToken })).rejects.toMatchObject({
      rawMessage: expect.stringContaining('pageToken'),
    })
  }
})
