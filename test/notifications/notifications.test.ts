import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { until } from '../protocols/rest/rest.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance, startWire, type Wire } from '../support/instance.ts'
import { useService } from '../support/service.ts'
import { notify, payee, payment, recordedIn } from './scene.ts'

const BANKS = '9PSB=live,PROVIDUS=live,PALMPAY=live'

const bank = useFakeBank()
const service = useService({ BANKS, BANK_PALMPAY_REQUERY: 'off' }, bank.connectors)

beforeEach(() => {
  bank.mishaps.clear()
  bank.asked.length = 0
})

const query = (text: string, values: unknown[] = []) =>
  service.database.pool.query(text, values).then(({ rows }) => rows)

/** What is kept of the notifications of a payment. */
const kept = (key: string) =>
  query('select state, outcome, cause from bank_notification where bank_key = $1 order by id', [
    key,
  ])

/** Makes what waits for its time due now. */
const hurry = (key: string) =>
  query('update bank_notification set next_try_at = now() where bank_key = $1 and state = $2', [
    key,
    'OPEN',
  ])

/** The bank gets a payment. */
function pay(told: FakePayment): FakePayment {
  bank.payments.set(told.key, told)
  return told
}

describe('a payment that the bank confirms', () => {
  test('is recorded before it is acknowledged, with texts that can be stored', async () => {
    const to = await payee(service)
    const told = pay(payment(to.accountNumber))
    expect(await notify(service, told)).toMatchObject({ status: 200, text: 'recorded' })
    expect(await recordedIn(service, to)).toEqual([
      { session: told.session, kobo: '150050', payer: 'BOLA ADE', narration: 'rent' },
    ])
    expect(bank.asked).toContain('GET payments')
    expect(await kept(told.key)).toEqual([{ state: 'DONE', outcome: 'recorded', cause: '' }])
  })

  test('is recorded once, however often and with whatever session it is told of', async () => {
    const to = await payee(service)
    const told = pay(payment(to.accountNumber))
    const without = { ...told, session: '' }
    bank.payments.set(told.key, without)
    const answers = await Promise.all(
      [told, told, without, told, without].map((each) => notify(service, each)),
    )
    for (const { text } of answers) expect(['recorded', 'duplicate']).toContain(text)
    bank.payments.set(told.key, told)
    expect((await notify(service, told)).text).toBe('duplicate')
    expect((await notify(service, { ...told, state: 'paid', extra: 1 } as FakePayment)).text).toBe(
      'duplicate',
    )
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test.each([
    [
      'with its session id, and then without',
      (told: FakePayment) => [told, { ...told, session: '' }],
    ],
    [
      'without its session id, and then with',
      (told: FakePayment) => [{ ...told, session: '' }, told],
    ],
  ])('is the same payment %s', async (_name, tellings) => {
    const to = await payee(service)
    const texts: string[] = []
    for (const told of tellings(payment(to.accountNumber))) {
      texts.push((await notify(service, pay(told))).text)
    }
    expect(texts).toEqual(['recorded', 'duplicate'])
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('is held when its session is that of another payment', async () => {
    const to = await payee(service)
    const first = pay(payment(to.accountNumber))
    const second = pay(payment(to.accountNumber, { session: first.session }))
    expect((await notify(service, first)).text).toBe('recorded')
    expect((await notify(service, second)).text).toBe('held')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('need not be asked for where a signature binds it and the setting says so', async () => {
    const to = await payee(service, Bank.BANK_PALMPAY)
    bank.asked.length = 0
    const path = 'PalmPay/notifications/some-secret'
    expect((await notify(service, payment(to.accountNumber), { path })).text).toBe('recorded')
    expect(bank.asked).toEqual([])
  })
})

test('two amounts for one payment, both signed: the first is recorded, the other is held', async () => {
  const to = await payee(service, Bank.BANK_PALMPAY)
  const path = 'palmpay/notifications'
  const first = payment(to.accountNumber)
  const tellings = [first, { ...first, kobo: '150051' }]
  const texts = await Promise.all(
    tellings.map(async (each) => (await notify(service, each, { path })).text),
  )
  expect(texts.toSorted()).toEqual(['held', 'recorded'])
  expect(await recordedIn(service, to)).toMatchObject([
    { kobo: tellings[texts.indexOf('recorded')]!.kobo },
  ])
})

describe('a payment that the bank does not confirm is not credited', () => {
  test('denied, until the bank knows of it', async () => {
    const to = await payee(service)
    const told = payment(to.accountNumber)
    expect((await notify(service, told)).text).toBe('denied')
    expect(await recordedIn(service, to)).toEqual([])
    pay(told)
    await hurry(told.key)
    await until(
      () => recordedIn(service, to),
      (rows) => rows.length === 1,
      30_000,
    )
    expect((await notify(service, told)).text).toBe('duplicate')
  })

  test('the bank does not answer: it has to come again, or is asked for by the service', async () => {
    const to = await payee(service)
    const told = pay(payment(to.accountNumber))
    bank.mishaps.set('GET payments', [500])
    expect(await notify(service, told)).toMatchObject({ status: 503, text: 'try again' })
    expect(await recordedIn(service, to)).toEqual([])
    await hurry(told.key)
    await until(
      () => kept(told.key),
      ([row]) => row.state === 'DONE',
      30_000,
    )
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test.each([
    ['amount', { kobo: '150051' }],
    ['account number', { account: '3999999999' }],
    ['session', { session: 'another' }],
  ])('another %s is held, and spoils nothing of the genuine one', async (what, overrides) => {
    const to = await payee(service)
    const genuine = pay(payment(to.accountNumber))
    expect((await notify(service, { ...genuine, ...overrides })).text).toBe('held')
    expect(await recordedIn(service, to)).toEqual([])
    expect(await kept(genuine.key)).toMatchObject([
      { state: 'HELD', cause: expect.stringContaining(what) },
    ])
    expect((await notify(service, genuine)).text).toBe('recorded')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test.each([
    ['no amount', { kobo: '0' }],
    ['an amount beyond all', { kobo: '9'.repeat(18) }],
    ['an account number of letters', { account: 'abcdefghij' }],
    ['a session that cannot be one', { session: 'a b' }],
  ])('%s is held', async (_name, overrides) => {
    const told = pay(payment('3999999999', overrides))
    expect((await notify(service, told)).text).toBe('held')
  })

  test('one that the bank has taken back is reversed when it was recorded, else not credited', async () => {
    const to = await payee(service)
    const told = pay(payment(to.accountNumber))
    expect((await notify(service, told)).text).toBe('recorded')
    const reversed = pay({ ...told, state: 'reversed' })
    expect((await notify(service, reversed)).text).toBe('recorded')
    const { rows } = await service.database.pool.query(
      'select t.status from transaction t join account a on a.id = t.account_id where a.account_number = $1',
      [to.accountNumber],
    )
    expect(rows).toEqual([{ status: 'REVERSED' }])
    const never = payment(to.accountNumber)
    pay({ ...never, state: 'reversed' })
    expect((await notify(service, never)).text).toBe('denied')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})

describe('what tells of no payment', () => {
  test('noise is acknowledged, and the same is kept once', async () => {
    for (let i = 0; i < 3; i++) expect((await notify(service, 'noise 1')).text).toBe('noise')
    const rows = await query("select 1 from bank_notification where outcome = 'noise'")
    expect(rows).toHaveLength(1)
  })

  test('what cannot be understood is held', async () => {
    expect((await notify(service, 'garbage')).text).toBe('held')
    expect(await query("select 1 from bank_notification where cause = 'no JSON'")).toHaveLength(1)
  })

  test('what is forged changes nothing and is not kept', async () => {
    const to = await payee(service)
    const told = pay(payment(to.accountNumber))
    expect((await notify(service, told, { signature: 'forged' })).text).toBe('forged')
    expect(await kept(told.key)).toEqual([])
    expect(await recordedIn(service, to)).toEqual([])
  })

  test('a defect of the connector is a fault of ours: try again', async () => {
    expect((await notify(service, 'throw')).text).toBe('try again')
  })
})

test('what is kept can be read with the master key alone', async () => {
  const told = pay(payment('3999999999'))
  await notify(service, told)
  const [row] = await query('select sealed from bank_notification where bank_key = $1', [told.key])
  expect(row.sealed.length).toBeGreaterThan(100)
  expect(row.sealed.toString('latin1')).not.toContain('3999999999')
  expect(Buffer.from(row.sealed.toString('latin1'), 'base64').toString()).not.toContain('kobo')
})

describe('the path', () => {
  test('of a bank that is not live, or is none, is no path', async () => {
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

  test('takes bodies of 64 KiB and no larger ones', async () => {
    expect((await notify(service, `noise${' '.repeat(65_531)}`)).text).toBe('noise')
    const { status, text } = await notify(service, `noise${' '.repeat(65_532)}`)
    expect([status, JSON.parse(text).code]).toEqual([413, 'payload_too_large'])
  })

  test('takes a notification without a body for what its connector takes it for', async () => {
    expect((await notify(service, '')).text).toBe('held')
  })
})

describe('an instance that allows other addresses, and one whose database goes away', () => {
  let strict: Instance
  let wire: Wire
  let away: Instance

  const start = (url: string, environment: NodeJS.ProcessEnv) => {
    const { banks, liveBanks } = readConfig({ BANKS, ...environment }, bank.connectors())
    return startInstance(url, { banks, liveBanks })
  }

  beforeAll(async () => {
    strict = await start(service.url, { BANK_9PSB_ALLOWED_CIDRS: '10.0.0.0/8,::2/128' })
    wire = await startWire(service.url)
    away = await start(wire.url, { BANK_9PSB_ALLOWED_CIDRS: '127.0.0.0/8' })
  })

  afterAll(async () => {
    await strict?.close()
    await away?.close()
    await wire?.close()
  })

  test('another address is refused', async () => {
    const { status, text } = await notify(strict, 'noise')
    expect([status, JSON.parse(text).code]).toEqual([403, 'permission_denied'])
    expect((await notify(strict, 'noise', { path: 'providus/notifications' })).text).toBe('noise')
  })

  test('without a database the bank is told to try again, and nothing is lost', async () => {
    const to = await payee(service)
    const told = pay(payment(to.accountNumber))
    await wire.cut()
    expect(await notify(away, told)).toMatchObject({ status: 503, text: 'try again' })
    await wire.mend()
    expect((await notify(away, told)).text).toBe('recorded')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})

test('while the database hangs a bounded number waits, and the rest is told to come again', async () => {
  const lock = await service.database.pool.connect()
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
      15_000,
    )
    expect(new Set(texts)).toEqual(new Set(['try again']))
  } finally {
    await lock.query('rollback')
    lock.release()
  }
  await sending
  expect((await notify(service, 'noise after it')).text).toBe('noise')
}, 60_000)

test('what became of notifications and requests is measured', async () => {
  const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
  expect(text).toMatch(/inflow_bank_notifications_total\{bank="9PSB",outcome="recorded"\} \d/)
  expect(text).toMatch(/inflow_bank_notifications_total\{bank="9PSB",outcome="forged"\} 1/)
  expect(text).toMatch(/inflow_bank_last_notification_timestamp_seconds\{bank="9PSB"\} \d{10}/)
  expect(text).toMatch(/inflow_bank_requests_total\{bank="9PSB",result="2xx"\} \d/)
  expect(text).toMatch(/inflow_bank_request_duration_seconds_count\{bank="9PSB"\} \d/)
  expect(text).toMatch(/inflow_bank_breaker_state\{bank="9PSB"\} 0/)
})

test('a storm of duplicates, reorderings and forgeries credits each genuine payment once', async () => {
  const to = await payee(service)
  const genuine = Array.from({ length: 300 }, (_, index) =>
    pay(payment(to.accountNumber, { kobo: String(100 + index) })),
  )
  const storm = genuine.flatMap((told) => [
    () => notify(service, told),
    () => notify(service, told),
    () => notify(service, { ...told, session: '' }),
    () => notify(service, { ...told, kobo: '999' }, { signature: 'forged' }),
    () => notify(service, { ...told, kobo: '99999' }),
  ])
  for (let i = storm.length - 1; i > 0; i--) {
    const at = (i * 7_919) % (i + 1)
    ;[storm[i], storm[at]] = [storm[at]!, storm[i]!]
  }
  for (let i = 0; i < storm.length; i += 60) {
    await Promise.all(storm.slice(i, i + 60).map((send) => send()))
  }
  // Where the bank was asked too much at once, the service asks again.
  await query("update bank_notification set next_try_at = now() where state = 'OPEN'")
  const rows = await until(
    () => recordedIn(service, to),
    (all) => all.length >= 300,
    60_000,
  )
  expect(rows.map((row) => Number(row.kobo)).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 300 }, (_, index) => 100 + index),
  )
})
