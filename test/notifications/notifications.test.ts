import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { until } from '../protocols/rest/rest.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance, startWire, type Wire } from '../support/instance.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { notify, payee, payment, recordedIn } from './scene.ts'

const BANKS = '9PSB=live,PROVIDUS=live,PALMPAY=live'

const bank = useFakeBank()
const service = useService({ BANKS, BANK_PALMPAY_REQUERY: 'off' }, bank.connectors)

beforeEach(() => {
  bank.mishaps.clear()
  bank.asked.length = 0
})

const query = (text: string, values: unknown[] = []) =>
  service.database.durablePool.query(text, values).then(({ rows }) => rows)

/** The stored notifications of a payment. */
const stored = (key: string) =>
  query('select state, outcome, cause from bank_notification where bank_key = $1 order by id', [
    key,
  ])

/** Makes the pending notifications of a payment due now. */
const hurry = (key: string) =>
  query('update bank_notification set next_try_at = now() where bank_key = $1 and state = $2', [
    key,
    'PENDING',
  ])

/** The bank receives a payment. */
function pay(reported: FakePayment): FakePayment {
  bank.payments.set(reported.key, reported)
  return reported
}

describe('a payment that the bank confirms', () => {
  test('is recorded before it is acknowledged, with texts that can be stored', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    expect(await notify(service, reported)).toMatchObject({ status: 200, text: 'RECORDED' })
    expect(await recordedIn(service, to)).toEqual([
      { session: reported.session, kobo: '150050', payer: 'BOLA ADE', narration: 'rent' },
    ])
    expect(bank.asked).toContain('GET payments')
    expect(await stored(reported.key)).toEqual([
      { state: 'PROCESSED', outcome: 'RECORDED', cause: '' },
    ])
  })

  test('is recorded once, however often and with whichever session id the bank reports it', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    const without = { ...reported, session: '' }
    bank.payments.set(reported.key, without)
    const responses = await Promise.all(
      [reported, reported, without, reported, without].map((each) => notify(service, each)),
    )
    for (const { text } of responses) expect(['RECORDED', 'DUPLICATE']).toContain(text)
    bank.payments.set(reported.key, reported)
    expect((await notify(service, reported)).text).toBe('DUPLICATE')
    expect(
      (await notify(service, { ...reported, state: 'paid', extra: 1 } as FakePayment)).text,
    ).toBe('DUPLICATE')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test.each([
    [
      'with its session id, and then without',
      (reported: FakePayment) => [reported, { ...reported, session: '' }],
    ],
    [
      'without its session id, and then with',
      (reported: FakePayment) => [{ ...reported, session: '' }, reported],
    ],
  ])('is the same payment %s', async (_name, reports) => {
    const to = await payee(service)
    const texts: string[] = []
    for (const reported of reports(payment(to.accountNumber))) {
      texts.push((await notify(service, pay(reported))).text)
    }
    expect(texts).toEqual(['RECORDED', 'DUPLICATE'])
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('goes to manual review if another payment has its session id', async () => {
    const to = await payee(service)
    const first = pay(payment(to.accountNumber))
    const second = pay(payment(to.accountNumber, { session: first.session }))
    expect((await notify(service, first)).text).toBe('RECORDED')
    expect((await notify(service, second)).text).toBe('MANUAL_REVIEW')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('is not requeried if a signature covers it and the setting says so', async () => {
    const to = await payee(service, Bank.BANK_PALMPAY)
    bank.asked.length = 0
    const path = 'PalmPay/notifications/some-secret'
    expect((await notify(service, payment(to.accountNumber), { path })).text).toBe('RECORDED')
    expect(bank.asked).toEqual([])
  })
})

test('of two signed amounts for one payment records the first and queues the other for manual review', async () => {
  const to = await payee(service, Bank.BANK_PALMPAY)
  const path = 'palmpay/notifications'
  const first = payment(to.accountNumber)
  const reports = [first, { ...first, kobo: '150051' }]
  const texts = await Promise.all(
    reports.map(async (each) => (await notify(service, each, { path })).text),
  )
  expect(texts.toSorted()).toEqual(['MANUAL_REVIEW', 'RECORDED'])
  expect(await recordedIn(service, to)).toMatchObject([
    { kobo: reports[texts.indexOf('RECORDED')]!.kobo },
  ])
})

describe('a payment that the bank does not confirm', () => {
  test('is recorded only once the bank confirms it', async () => {
    const to = await payee(service)
    const reported = payment(to.accountNumber)
    expect((await notify(service, reported)).text).toBe('UNCONFIRMED')
    expect(await recordedIn(service, to)).toEqual([])
    pay(reported)
    await hurry(reported.key)
    await until(
      () => recordedIn(service, to),
      (rows) => rows.length === 1,
      30_000,
    )
    expect((await notify(service, reported)).text).toBe('DUPLICATE')
  })

  test('is recorded when its notification is repeated, even if all tries ended unconfirmed', async () => {
    const to = await payee(service)
    const reported = payment(to.accountNumber)
    expect((await notify(service, reported)).text).toBe('UNCONFIRMED')
    await query(
      `update bank_notification set tries = 53, received_at = received_at - interval '2 days'
        where bank_key = $1`,
      [reported.key],
    )
    await hurry(reported.key)
    await until(
      () => stored(reported.key),
      ([row]) => row.state === 'PROCESSED' && row.outcome === 'UNCONFIRMED',
      30_000,
    )
    pay(reported)
    expect((await notify(service, reported)).text).toBe('RECORDED')
    expect(await recordedIn(service, to)).toHaveLength(1)
    expect(await stored(reported.key)).toMatchObject([{ state: 'PROCESSED', outcome: 'RECORDED' }])
    expect((await notify(service, reported)).text).toBe('DUPLICATE')
  })

  test('is retried by the bank or by the service if the bank does not respond to the requery', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    bank.mishaps.set('GET payments', [500])
    expect(await notify(service, reported)).toMatchObject({ status: 503, text: 'RETRY' })
    expect(await recordedIn(service, to)).toEqual([])
    await hurry(reported.key)
    await until(
      () => stored(reported.key),
      ([row]) => row.state === 'PROCESSED',
      30_000,
    )
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test.each([
    ['amount', { kobo: '150051' }],
    ['account number', { account: '3999999999' }],
    ['session', { session: 'another' }],
  ])(
    'with another %s goes to manual review and does not affect the genuine one',
    async (field, overrides) => {
      const to = await payee(service)
      const genuine = pay(payment(to.accountNumber))
      expect((await notify(service, { ...genuine, ...overrides })).text).toBe('MANUAL_REVIEW')
      expect(await recordedIn(service, to)).toEqual([])
      expect(await stored(genuine.key)).toMatchObject([
        { state: 'MANUAL_REVIEW', cause: expect.stringContaining(field) },
      ])
      expect((await notify(service, genuine)).text).toBe('RECORDED')
      expect(await recordedIn(service, to)).toHaveLength(1)
    },
  )

  test.each([
    ['without an amount', { kobo: '0' }],
    ['with an amount out of range', { kobo: '9'.repeat(18) }],
    ['with an account number of letters', { account: 'abcdefghij' }],
    ['with an invalid session id', { session: 'a b' }],
  ])('%s goes to manual review', async (_name, overrides) => {
    const reported = pay(payment('3999999999', overrides))
    expect((await notify(service, reported)).text).toBe('MANUAL_REVIEW')
  })

  test('is reversed if it was recorded and the bank has reversed it, else not recorded', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    expect((await notify(service, reported)).text).toBe('RECORDED')
    const reversed = pay({ ...reported, state: 'reversed' })
    expect((await notify(service, reversed)).text).toBe('RECORDED')
    const { rows } = await service.database.durablePool.query(
      'select t.status from transaction t join account a on a.id = t.account_id where a.account_number = $1',
      [to.accountNumber],
    )
    expect(rows).toEqual([{ status: 'REVERSED' }])
    const never = payment(to.accountNumber)
    pay({ ...never, state: 'reversed' })
    expect((await notify(service, never)).text).toBe('UNCONFIRMED')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})

describe('a notification without a payment', () => {
  test('is acknowledged and stored once if it is to be ignored', async () => {
    for (let i = 0; i < 3; i++) expect((await notify(service, 'noise 1')).text).toBe('IGNORED')
    const rows = await query("select 1 from bank_notification where outcome = 'IGNORED'")
    expect(rows).toHaveLength(1)
  })

  test('goes to manual review if it cannot be parsed', async () => {
    expect((await notify(service, 'garbage')).text).toBe('MANUAL_REVIEW')
    expect(await query("select 1 from bank_notification where cause = 'no JSON'")).toHaveLength(1)
  })

  test('changes nothing and is not stored if it is not authentic', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    const count = async () => (await query('select from bank_notification')).length
    const before = await count()
    expect((await notify(service, reported, { signature: 'wrong' })).text).toBe('UNAUTHENTICATED')
    expect(await count()).toBe(before)
    expect(await recordedIn(service, to)).toEqual([])
  })

  test('asks the bank to retry if the connector has a defect', async () => {
    expect((await notify(service, 'throw')).text).toBe('RETRY')
  })
})

test('stored notifications can be read only with the master key', async () => {
  const reported = pay(payment('3999999999'))
  await notify(service, reported)
  const [row] = await query('select raw_encrypted from bank_notification where bank_key = $1', [
    reported.key,
  ])
  expect(row.raw_encrypted.length).toBeGreaterThan(100)
  expect(row.raw_encrypted.toString('latin1')).not.toContain('3999999999')
  expect(Buffer.from(row.raw_encrypted.toString('latin1'), 'base64').toString()).not.toContain(
    'kobo',
  )
})

describe('the path', () => {
  test('is unknown for a bank that is not live or does not exist', async () => {
    for (const path of ['safehaven/notifications', 'nobank/notifications', '9psb/other']) {
      const { status, text, headers } = await notify(service, 'x', { path })
      expect([path, status, JSON.parse(text).code]).toEqual([path, 404, 'unknown_path'])
      expect(headers.get('x-request-id')).toBeTruthy()
    }
  })

  test('accepts only POST', async () => {
    const response = await fetch(`${service.httpUrl}/banks/9psb/notifications`)
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('accepts bodies of up to 64 KiB', async () => {
    expect((await notify(service, `noise${' '.repeat(65_531)}`)).text).toBe('IGNORED')
    const { status, text } = await notify(service, `noise${' '.repeat(65_532)}`)
    expect([status, JSON.parse(text).code]).toEqual([413, 'payload_too_large'])
  })

  test('passes a notification without a body to its connector', async () => {
    expect((await notify(service, '')).text).toBe('MANUAL_REVIEW')
  })
})

describe('an instance that allows other addresses, and one whose database is unavailable', () => {
  let strict: Instance
  let wire: Wire
  let disconnected: Instance

  const start = (url: string, environment: NodeJS.ProcessEnv) => {
    const { banks, liveBanks } = readConfig({ BANKS, ...environment }, bank.connectors())
    return startInstance(url, { banks, liveBanks })
  }

  beforeAll(async () => {
    strict = await start(service.url, { BANK_9PSB_ALLOWED_CIDRS: '10.0.0.0/8,::2/128' })
    wire = await startWire(service.url)
    disconnected = await start(wire.url, { BANK_9PSB_ALLOWED_CIDRS: '127.0.0.0/8' })
  })

  afterAll(async () => {
    await strict?.close()
    await disconnected?.close()
    await wire?.close()
  })

  test('rejects another address', async () => {
    const { status, text } = await notify(strict, 'noise')
    expect([status, JSON.parse(text).code]).toEqual([403, 'permission_denied'])
    expect((await notify(strict, 'noise', { path: 'providus/notifications' })).text).toBe('IGNORED')
  })

  test('asks the bank to retry while the database is unavailable, and loses nothing', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    await wire.cut()
    expect(await notify(disconnected, reported)).toMatchObject({ status: 503, text: 'RETRY' })
    await wire.mend()
    expect((await notify(disconnected, reported)).text).toBe('RECORDED')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})

test('while the database hangs, a bounded number waits and the bank is asked to retry the rest', async () => {
  const lock = await service.database.durablePool.connect()
  const texts: string[] = []
  let sending: Promise<unknown>
  try {
    await lock.query('begin; lock table bank_notification in exclusive mode')
    sending = Promise.all(
      Array.from({ length: 1_100 }, async (_, index) => {
        texts.push((await notify(service, `noise in a hang ${index}`)).text)
      }),
    )
    await until(
      async () => texts.length,
      (count) => count >= 1_100 - 1_024,
      60_000,
    )
    expect(new Set(texts)).toEqual(new Set(['RETRY']))
  } finally {
    await lock.query('rollback')
    lock.release()
  }
  await sending
  expect((await notify(service, 'noise after it')).text).toBe('IGNORED')
})

test('metrics count notifications and requests by outcome', async () => {
  const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
  expect(text).toMatch(/inflow_bank_notifications_total\{bank="9PSB",outcome="RECORDED"\} \d/)
  expect(text).toMatch(/inflow_bank_notifications_total\{bank="9PSB",outcome="UNAUTHENTICATED"\} 1/)
  expect(text).toMatch(/inflow_bank_last_notification_timestamp_seconds\{bank="9PSB"\} \d{10}/)
  expect(text).toMatch(/inflow_bank_requests_total\{bank="9PSB",result="2xx"\} \d/)
  expect(text).toMatch(/inflow_bank_request_duration_seconds_count\{bank="9PSB"\} \d/)
  expect(text).toMatch(/inflow_bank_breaker_state\{bank="9PSB"\} 0/)
})

test('records each genuine payment once in a storm of duplicates, reorderings and forgeries', async () => {
  const to = await payee(service)
  const genuine = Array.from({ length: 100 }, (_, index) =>
    pay(payment(to.accountNumber, { kobo: String(100 + index) })),
  )
  const storm = genuine.flatMap((reported) => [
    () => notify(service, reported),
    () => notify(service, reported),
    () => notify(service, { ...reported, session: '' }),
    () => notify(service, { ...reported, kobo: '999' }, { signature: 'wrong' }),
    () => notify(service, { ...reported, kobo: '99999' }),
  ])
  for (let i = storm.length - 1; i > 0; i--) {
    const at = (i * 7_919) % (i + 1)
    ;[storm[i], storm[at]] = [storm[at]!, storm[i]!]
  }
  for (let i = 0; i < storm.length; i += 60) {
    await Promise.all(storm.slice(i, i + 60).map((send) => send()))
  }
  const keys = genuine.map(({ key }) => key)
  await waitFor(async () => {
    // The service retries requeries that were too many for the bank at once.
    const pending = await query(
      `update bank_notification set next_try_at = least(next_try_at, now())
        where bank_key = any ($1) and state = 'PENDING' returning id`,
      [keys],
    )
    expect(pending).toEqual([])
  })
  const rows = await recordedIn(service, to)
  expect(rows.map((row) => Number(row.kobo)).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 100 }, (_, index) => 100 + index),
  )
})
