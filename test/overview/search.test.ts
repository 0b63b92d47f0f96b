import { beforeAll, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../gen/inflow/overview/v1/search_pb.ts'
import type { Transaction } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { readQuery } from '../../src/overview/search.ts'
import { startReceiver } from '../support/receiver.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  fresh,
  nameOf,
  openAccount,
  openShop,
  pay,
  restricted,
  type Shop,
  settleAll,
} from './scene.ts'

const service = useService()
type SearchClient = ReturnType<typeof operator>

let shop: Shop
let other: Shop
let paid: Transaction
/** Clients of tokens that see one of them. */
let ofShop: SearchClient
let ofOther: SearchClient
/** Of the shop. */
const ids = { settlement: '', event: '', delivery: '', endpoint: '', key: '', account: '' }

const name = fresh('Ọjà 100%')

beforeAll(async () => {
  shop = await openShop(service, { name, email: 'Ada.Obi@example.com' })
  other = await openShop(service)
  ofShop = await restricted(service, shop.businessId)
  ofOther = await restricted(service, other.businessId)
  const receiver = await startReceiver()
  const webhooks = service.client(WebhookService)
  const { endpoint } = await webhooks.createEndpoint({
    businessId: shop.businessId,
    url: receiver.url,
  })
  paid = await pay(service, shop)
  ids.endpoint = endpoint!.id
  ids.settlement = await settleAll(service, shop.businessId, 1n)
  const { deliveries } = await waitFor(async () => {
    const page = await webhooks.listDeliveries({ endpointId: ids.endpoint })
    expect(page.deliveries.length).toBeGreaterThan(0)
    return page
  })
  ids.delivery = deliveries[0]!.id
  ids.event = deliveries[0]!.eventId
  const { keys } = await service.client(BusinessService).listKeys({ businessId: shop.businessId })
  ids.key = keys[0]!.id
  const { timeline } = await service.client(OverviewService).getTimeline({ transactionId: paid.id })
  ids.account = timeline!.accountId
  await receiver.close()
})

const operator = () => service.client(OverviewService)

async function find(query: string, filter: object = {}, client = operator()) {
  const { results } = await client.search({ query, ...filter })
  return results.map(({ kind, id }) => [nameOf(ResultKind, kind), id] as const)
}

/** What finds the shop's own, and the only result. */
const NAMES: Readonly<Record<string, () => readonly [query: string, kind: string, id: string]>> = {
  'a session id': () => [paid.sessionId, 'TRANSACTION', paid.id],
  'a transaction id': () => [` ${paid.id}  `, 'TRANSACTION', paid.id],
  'a returned reference': () => [shop.reference, 'ACCOUNT', ids.account],
  'a reference of the business': () => [shop.merchantReference, 'ACCOUNT', ids.account],
  'an account id': () => [ids.account, 'ACCOUNT', ids.account],
  'an account number': () => [shop.accountNumber, 'ACCOUNT', ids.account],
  'an event id': () => [ids.event, 'EVENT', ids.event],
  'a delivery id': () => [ids.delivery, 'DELIVERY', ids.delivery],
  'an endpoint id': () => [ids.endpoint, 'ENDPOINT', ids.endpoint],
  'a settlement id': () => [ids.settlement, 'SETTLEMENT', ids.settlement],
  'a business id': () => [shop.businessId, 'BUSINESS', shop.businessId],
  'the beginning of a name, in any case': () => [
    name.slice(0, -1).toUpperCase(),
    'BUSINESS',
    shop.businessId,
  ],
  'a key id': () => [ids.key, 'KEY', ids.key],
  'a secret key': () => [shop.key, 'KEY', ids.key],
  'the prefix of a key': () => [shop.key.slice(0, 'sk_live_'.length + 10), 'KEY', ids.key],
}

test.each(Object.keys(NAMES))(
  'finds by %s, for an operator, for its business, and for no other',
  async (by) => {
    const [query, kind, id] = NAMES[by]!()
    const found = [[kind, id]]
    expect(await find(query)).toEqual(found)
    expect(await find(query, { businessId: shop.businessId, live: true })).toEqual(found)
    expect(await find(query, { businessId: other.businessId })).toEqual([])
    expect(await find(query, {}, ofShop)).toEqual(found)
    expect(await find(query, {}, ofOther)).toEqual([])
    expect(await find(query, { live: false })).toEqual(kind === 'BUSINESS' ? found : [])
  },
)

test('finds a customer before their accounts by the e-mail address, and for no other business', async () => {
  const email = 'Ada.Obi@example.com'
  const found = [
    ['CUSTOMER', email],
    ['ACCOUNT', ids.account],
  ]
  expect(await find(email)).toEqual(found)
  expect(await find(email, { businessId: shop.businessId, live: true })).toEqual(found)
  expect(await find(email, { businessId: other.businessId })).toEqual([])
  expect(await find(email, {}, ofShop)).toEqual(found)
  expect(await find(email, {}, ofOther)).toEqual([])
})

test('says what a result is', async () => {
  const { results } = await operator().search({ query: paid.sessionId })
  expect(results).toMatchObject([
    {
      title: paid.sessionId,
      subtitle: expect.stringContaining(shop.accountNumber),
      businessId: shop.businessId,
      at: paid.paidAt,
      amountMinor: 150_050n,
      status: 'SUCCESS',
      bank: Bank.BANK_9PSB,
      live: true,
      reference: paid.sessionId,
    },
  ])
})

test('a token is found by operators only, by its id, its secret or its prefix', async () => {
  const { id, secret } = await issueToken(service, ['read'])
  for (const query of [id, secret, secret.slice(0, 13)]) {
    expect(await find(query)).toContainEqual(['TOKEN', id])
    expect(await find(query, {}, ofShop)).toEqual([])
  }
})

test('what belongs to no business is found by operators only', async () => {
  const sessionId = fresh('stray')
  const stray = { bank: Bank.BANK_9PSB, accountNumber: '0000000001', sessionId, amountMinor: 7n }
  await service.client(TransactionService).recordPayment(stray)
  const [unmatched] = await find(sessionId)
  expect(unmatched).toEqual(['UNMATCHED_PAYMENT', expect.stringMatching(/^unm_/)])
  expect(await find(unmatched![1])).toEqual([unmatched])
  expect(await find(sessionId, { businessId: shop.businessId })).toEqual([])
  expect(await find(sessionId, { live: false })).toEqual([])
  expect(await find(sessionId, {}, ofShop)).toEqual([])
  expect(await find(unmatched![1], {}, ofShop)).toEqual([])

  const report = { ...stray, accountNumber: shop.accountNumber, sessionId: paid.sessionId }
  await service.client(TransactionService).recordPayment(report)
  const { rows } = await service.database.durablePool.query(
    'select id from payment_conflict where transaction_id = $1',
    [paid.id],
  )
  expect(await find(rows[0].id)).toEqual([['PAYMENT_CONFLICT', rows[0].id]])
  expect(await find(rows[0].id, { businessId: other.businessId })).toEqual([])
  expect(await find(rows[0].id, {}, ofShop)).toEqual([])
})

test('returns ten results of a kind, and says that there are more', async () => {
  const email = `${fresh('many')}@example.com`
  for (let i = 0; i < 11; i++) await openAccount(service, shop.businessId, { email })
  const { results, more } = await operator().search({ query: email })
  expect(results).toHaveLength(11)
  expect(more).toEqual([ResultKind.ACCOUNT])
  // However many accounts of other businesses have the address.
  await openAccount(service, other.businessId, { email })
  expect(await ofOther.search({ query: email })).toMatchObject({
    results: [{ businessId: other.businessId }, { businessId: other.businessId }],
    more: [],
  })
})

test('finds the latest payments and accounts by a part of what identifies them, or by the amount', async () => {
  const buyer = { firstName: 'Oluwaseun', lastName: 'Adékúnlé', phone: '+2348039990001' }
  const merchantReference = fresh('basket')
  const { account } = await service.client(AccountService).createAccount({
    businessId: shop.businessId,
    bank: Bank.BANK_9PSB,
    ...buyer,
    email: 'seun.kunle@example.com',
    reference: merchantReference,
  })
  const sessionId = fresh('090405')
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: account!.accountNumber,
    sessionId,
    amountMinor: 77_312_345n,
    payer: { name: 'HAJIYA KHADIJAT' },
  })
  const toAccount = ['ACCOUNT', account!.id]
  const toPayment = ['TRANSACTION', transaction!.id]
  for (const [query, result] of [
    ['waseun adé', toAccount],
    ['0803 999 0001', toAccount],
    ['9990001', toAccount],
    ['seun.kunle@', toAccount],
    [merchantReference.slice(0, -1), toAccount],
    [account!.id.slice(0, -1), toAccount],
    ['773123.45', toPayment],
    ['₦773,123.45', toPayment],
    ['hajiya k', toPayment],
    [sessionId.slice(0, -1), toPayment],
    [transaction!.id.slice(8), toPayment],
  ] as const) {
    expect(await find(query), query).toContainEqual(result)
    const one = await find(query, { businessId: shop.businessId, live: true })
    expect(one, query).toContainEqual(result)
    expect(await find(query, { live: false }), query).toEqual([])
    const foreign = await find(query, {}, ofOther)
    expect(foreign, query).not.toContainEqual(result)
  }
  expect(await find('wa')).toEqual([])
  const { searchedSince } = await operator().search({ query: 'waseun' })
  expect(searchedSince).toBeUndefined()
})

test('finds nothing by a text that nothing has, whatever it contains', async () => {
  for (const query of [
    'nothing at all',
    '%',
    '_',
    "'; drop table account; --",
    'txn_',
    'sk_live_',
    'x'.repeat(254),
    '₦',
  ])
    expect(await find(query), query).toEqual([])
})

test('refuses an empty text, a long one, and control characters', async () => {
  for (const query of ['', 'x'.repeat(255), 'a\u0000b', 'a\nb']) {
    await expect(operator().search({ query })).rejects.toMatchObject({
      rawMessage: expect.stringContaining('query'),
    })
  }
})

const UNIQUE = '01m83cw9qnqv8d4h0yt9a4hsdz'

test('recognises what a text may be by its shape', () => {
  expect(readQuery(` txn_${UNIQUE} `)).toEqual({
    text: `txn_${UNIQUE}`,
    prefix: 'txn',
    isForeignId: false,
    isName: false,
    isPart: false,
    credential: undefined,
  })
  expect(readQuery('ada@example.com')).toMatchObject({ isForeignId: false, isName: false })
  expect(readQuery('0123456789')).toMatchObject({
    prefix: undefined,
    isForeignId: true,
    isName: true,
  })
  expect(readQuery('   ')).toMatchObject({ text: '', isName: false })
})

test('reads the range of ids from an id, a secret or the prefix of a secret, and not the secret itself', () => {
  const whole = (kind: string) => ({ first: `${kind}_${UNIQUE}`, last: `${kind}_${UNIQUE}` })
  for (const text of [`tok_${UNIQUE}`, `it_${UNIQUE}_${'A'.repeat(43)}`]) {
    expect(readQuery(text).credential).toEqual({ kind: 'tok', ...whole('tok') })
  }
  for (const text of [
    `key_${UNIQUE}`,
    `sk_live_${UNIQUE}_${'A'.repeat(43)}`,
    `sk_test_${UNIQUE}`,
  ]) {
    expect(readQuery(text).credential).toEqual({ kind: 'key', ...whole('key') })
  }
  expect(readQuery('it_01m83cw9qn').credential).toEqual({
    kind: 'tok',
    first: `tok_01m83cw9qn${'0'.repeat(16)}`,
    last: `tok_01m83cw9qn${'z'.repeat(16)}`,
  })
  for (const text of ['it_01m83cw9q', 'sk_other_01m83cw9qn', `tok_${UNIQUE}x`]) {
    expect(readQuery(text).credential).toBeUndefined()
  }
})
