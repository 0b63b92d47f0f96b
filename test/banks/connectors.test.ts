import { describe, expect, onTestFinished, test } from 'vitest'
import type { AccountOrder, BankCode, LiveConnector } from '../../src/banks/bank.ts'
import type { Faults } from '../../src/banks/fake/faults.ts'
import { createNotifier } from '../../src/banks/fake/notifier.ts'
import { BankUnreachableError } from '../../src/banks/http/bank-http.ts'
import { startFakePalmPay } from '../../src/banks/palmpay/fake.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
import { abortedOnce, accountOrder, bankPayment, signal } from './fixture.ts'
import { usePalmPay } from './palmpay/fixture.ts'
import { providusFixture } from './providus-fixture.ts'
import { useSafeHaven, VIRTUAL } from './safehaven/fixture.ts'

/** A fake bank of its own, and a connector to it. */
interface Connected {
  readonly connector: LiveConnector
  readonly order: AccountOrder
  readonly bank: {
    readonly accounts: ReadonlyMap<string, unknown>
    readonly requests: Readonly<Record<string, number>>
    close(): Promise<void>
  }
  /** Makes the next requests of an operation fail. */
  fail(operation: string, fault: string): void
}

const palm = usePalmPay()
const haven = useSafeHaven()

function connected(
  bank: Connected['bank'] & { readonly faults: unknown },
  connector: LiveConnector,
  order: AccountOrder,
): Connected {
  const faults = bank.faults as Faults<string, string>
  return { bank, connector, order, fail: (operation, fault) => faults.add(operation, fault) }
}

const safeHaven = (environment: NodeJS.ProcessEnv) => async () => {
  const bank = await haven.start()
  return connected(bank, haven.connector(environment, { bank }), haven.order())
}

const START: Readonly<Record<string, () => Promise<Connected>>> = {
  async '9PSB'() {
    const { bank, connector } = await ninePsbFixture()
    return connected(bank, connector, accountOrder())
  },
  async PROVIDUS() {
    const { bank, connector } = await providusFixture()
    return connected(bank, connector, accountOrder({ bank: 'PROVIDUS' }))
  },
  async PALMPAY() {
    const bank = await startFakePalmPay({ port: 0, credentials: palm.credentials })
    onTestFinished(() => bank.close())
    return connected(bank, palm.connector({}, bank.url), palm.order())
  },
  'SAFEHAVEN, permanent': safeHaven({}),
  'SAFEHAVEN, expiring': safeHaven(VIRTUAL),
}

const OPERATIONS: Readonly<Record<BankCode, { requery: string; list: string; close: string }>> = {
  '9PSB': { requery: 'confirm', list: 'confirm', close: 'deactivate' },
  PROVIDUS: { requery: 'settlement', list: '', close: '' },
  PALMPAY: { requery: 'detail', list: 'pageList', close: 'update' },
  SAFEHAVEN: { requery: 'status', list: 'statement', close: 'delete' },
}

/** Makes a call that the caller aborts if the bank hangs. */
function resultOf<T>(
  fault: string,
  isReceived: () => boolean,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return fault === 'hang' ? abortedOnce(isReceived, call) : call(signal)
}

describe.each(Object.entries(START))('%s', (name, start) => {
  const operations = OPERATIONS[name.split(',')[0] as BankCode]

  test.each(['cut', '500', 'page', 'hang'])(
    'says that an opening without a response (%s) is unclear, and how to go on',
    async (fault) => {
      for (const [when, opened] of [
        [fault, 0],
        [`${fault} after`, 1],
      ] as const) {
        const { bank, connector, order, fail } = await start()
        fail('create', when)
        const result = await resultOf(
          fault,
          () => bank.requests['create'] === 1,
          (abort) => connector.openAccount(order, abort),
        )
        expect(result).toMatchObject({ kind: 'unknown', next: connector.afterCrash })
        await expect.poll(() => bank.accounts.size).toBe(opened)
      }
    },
  )

  test('says that nothing was opened if the bank cannot be reached', async () => {
    const { bank, connector, order } = await start()
    await bank.close()
    expect(await connector.openAccount(order, signal)).toMatchObject({ kind: 'unavailable' })
  })

  test.each(['cut', '500', 'page', 'hang'])(
    'neither confirms nor denies a payment after %s',
    async (fault) => {
      const { bank, connector, fail } = await start()
      const { requery } = operations
      fail(requery, fault)
      if (name === 'PROVIDUS') fail('session', fault)
      const result = await resultOf(
        fault,
        () => bank.requests[requery] === 1,
        (abort) => connector.requery(bankPayment(), abort),
      )
      expect(result.kind).toBe('unknown')
    },
  )

  test('lists nothing if the bank does not respond', async () => {
    const { connector, order, fail } = await start()
    const { listPayments } = connector
    const opened = await connector.openAccount(order, signal)
    if (listPayments === undefined || opened.kind !== 'opened') return
    const account = { ...opened, reference: order.reference }
    for (const fault of ['cut', '500', 'page']) {
      fail(operations.list, fault)
      const listed = listPayments({ fromMs: 0, toMs: 1, page: undefined, account }, signal)
      await expect(listed, fault).rejects.toBeInstanceOf(BankUnreachableError)
    }
  })

  test('closes an account, which can be repeated after a lost response', async () => {
    const { connector, order, fail } = await start()
    const opened = await connector.openAccount(order, signal)
    if (connector.closeAccount === undefined || opened.kind !== 'opened') return
    const account = { ...opened, reference: order.reference }
    for (const fault of ['500', 'cut after']) {
      fail(operations.close, fault)
      const result = await connector.closeAccount(account, signal)
      expect(result, fault).toMatchObject({ kind: 'unavailable' })
    }
    expect(await connector.closeAccount(account, signal)).toEqual({ kind: 'closed' })
  })
})

test('fake banks notify only this machine of payments', () => {
  const options = { headers: {}, retryDelaysMs: [], classify: () => 'retry' as const }
  for (const url of ['http://bank.example/n', 'http://10.0.0.1/n', 'http://127.0.0.1.example/']) {
    expect(() => createNotifier({ ...options, url })).toThrow(
      'only notifies addresses of this machine',
    )
  }
})
