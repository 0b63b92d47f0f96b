import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { BankCode } from '../../src/banks/bank.ts'
import { authSignature } from '../../src/banks/providus/signature.ts'
import { notificationBody as ninePsbBody } from '../../src/fake-banks/9psb/transaction.ts'
import type { NotifyResult } from '../../src/fake-banks/notifier.ts'
import { notificationBody as providusBody } from '../../src/fake-banks/providus/transaction.ts'
import type { FakeBanks } from '../../src/fake-banks/start-fake-banks.ts'

/** A request to the notification door. */
export interface Told {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A payment that a fake bank has received. */
export interface Received {
  readonly session: string
  readonly account: string
  readonly kobo: bigint
  /** The bank tells of it, until it is acknowledged. */
  notify(): Promise<NotifyResult>
  /** Requests that are not the bank's, although they look like it. */
  readonly forged: readonly Told[]
  /** Requests with the bank's credentials that it did not send: with other facts, or another key. */
  readonly altered: readonly Told[]
}

/** How one fake bank is made to receive, to tell and to stumble. */
export interface Desk {
  readonly code: BankCode
  readonly bank: Bank
  /** An account that the service does not know. */
  strange(): string
  receive(account: string, naira: string, index: number): Received
  /** Told of, and no money: authentic. */
  noise(account: string): readonly Told[]
  /** The next question after a payment goes wrong. */
  stumble(turn: number): void
  /** Of its own words, those that leave a payment for dead. */
  readonly final: RegExp | undefined
}

const JSON_TYPE = { 'content-type': 'application/json' }
const FAULTS = ['500', 'cut', 'page', '500 after', 'cut after', 'hang'] as const

/** The body with another text in it, which has to be there. */
function with_(body: string, from: string | RegExp, to: string): string {
  const changed = body.replace(from, to)
  if (changed === body) throw new Error(`there is no ${from} in ${body}`)
  return changed
}

/** Another one of the same form. */
const other = (text: string) =>
  with_(text, /\d(?=\D*$)/, text.match(/\d(?=\D*$)/)?.[0] === '7' ? '8' : '7')

export function desksOf(banks: FakeBanks): readonly Desk[] {
  return [ninePsb(banks), safeHaven(banks), providus(banks), palmPay(banks)]
}

function ninePsb({ '9PSB': bank, environment }: FakeBanks): Desk {
  const path = '/banks/9psb/notifications'
  const password = environment['BANK_9PSB_NOTIFICATION_PASSWORD']!
  const basic = (text: string) => ({
    ...JSON_TYPE,
    authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  })
  const headers = basic(`${environment['BANK_9PSB_NOTIFICATION_USER']}:${password}`)
  return {
    code: '9PSB',
    bank: Bank.BANK_9PSB,
    strange: () => bank.openAccount('Nobody here').accountNumber,
    receive(account, naira) {
      const transaction = bank.receive(account, naira)
      const { sessionId, amountMinor } = transaction
      const body = ninePsbBody(transaction, password)
      const more = ninePsbBody({ ...transaction, amountMinor: amountMinor + 100n }, password)
      return {
        session: sessionId,
        account,
        kobo: amountMinor,
        notify: () => bank.notify(transaction),
        forged: [
          { path, headers: basic('9psb:guessed'), body },
          { path, headers, body: with_(body, '"amount":', '"amount":9') },
          { path, headers, body: with_(body, '"hash":"', '"hash":"x') },
        ],
        altered: [
          { path, headers, body: more },
          { path, headers, body: with_(body, sessionId, other(sessionId)) },
        ],
      }
    },
    noise: () => [],
    stumble: (turn) =>
      bank.faults.add('confirm', [...FAULTS, '99', 'not found'][turn % 8] as '500'),
    final: undefined,
  }
}

function providus({ PROVIDUS: bank, environment }: FakeBanks): Desk {
  const path = '/banks/providus/notifications'
  const id = environment['BANK_PROVIDUS_CLIENT_ID']!
  const signed = (secret: string) => ({
    ...JSON_TYPE,
    'client-id': id,
    'x-auth-signature': authSignature(id, secret),
  })
  const headers = signed(environment['BANK_PROVIDUS_CLIENT_SECRET']!)
  return {
    code: 'PROVIDUS',
    bank: Bank.BANK_PROVIDUS,
    strange: () => bank.openAccount('Nobody here').accountNumber,
    receive(account, naira) {
      const transaction = bank.receive(account, naira)
      const { sessionId, settlementId, amountMinor } = transaction
      const body = providusBody(transaction)
      return {
        session: sessionId,
        account,
        kobo: amountMinor,
        notify: () => bank.notify(transaction),
        forged: [
          { path, headers: signed('guessed'), body },
          { path, headers: { ...headers, 'client-id': 'another' }, body },
        ],
        altered: [
          { path, headers, body: with_(body, '"transactionAmount":"', '"transactionAmount":"9') },
          { path, headers, body: with_(body, settlementId, other(settlementId)) },
          { path, headers, body: with_(body, sessionId, other(sessionId)) },
        ],
      }
    },
    noise: () => [],
    stumble: (turn) =>
      bank.faults.add('settlement', [...FAULTS, '03', 'not found'][turn % 8] as '500'),
    final: /"responseCode":"02"/,
  }
}

function safeHaven({ SAFEHAVEN: bank, environment }: FakeBanks): Desk {
  const door = '/banks/safehaven/notifications'
  const path = `${door}/${environment['BANK_SAFEHAVEN_CALLBACK_SECRET']}`
  const spellings = ['type', 'eventType', 'event'] as const
  const told = (body: string): Told => ({ path, headers: JSON_TYPE, body })
  return {
    code: 'SAFEHAVEN',
    bank: Bank.BANK_SAFEHAVEN,
    strange: () => bank.openAccount('Nobody here', urlOf(bank, path)).accountNumber,
    receive(account, naira, index) {
      const transfer = bank.receive(account, naira)
      const { sessionId, amountMinor } = transfer
      const body = bank.notification(transfer)
      return {
        session: sessionId,
        account,
        kobo: amountMinor,
        notify: () => bank.notify(transfer, spellings[index % 3]),
        forged: [
          { path: door, headers: JSON_TYPE, body },
          { path: `${door}/guessed-secret-0123456789`, headers: JSON_TYPE, body },
        ],
        altered: [
          told(with_(body, '"amount":', '"amount":9')),
          told(body.replaceAll(sessionId, other(sessionId))),
          told(bank.notification({ ...transfer, isReversed: true })),
        ],
      }
    },
    noise(account) {
      const [failed, gone] = [bank.receive(account, '777'), bank.receive(account, '888')]
      failed.status = 'Failed'
      gone.isReversed = true
      return [
        told(bank.outward(failed)),
        told(bank.notification(failed)),
        told(bank.notification({ ...failed, status: 'Completed' })),
        told(bank.notification(gone)),
        told(bank.notification({ ...gone, isReversed: false })),
      ]
    },
    stumble: (turn) =>
      bank.faults.add('status', [...FAULTS, 'statusCode 500', 'statusCode 400'][turn % 8] as '500'),
    final: undefined,
  }
}

/** Where an account that was opened past the API sends its notifications: as the others do. */
function urlOf({ accounts }: FakeBanks['SAFEHAVEN'], path: string): string {
  const known = [...accounts.values()].find(({ callbackUrl }) => callbackUrl.endsWith(path))
  return known?.callbackUrl ?? ''
}

function palmPay({ PALMPAY: bank }: FakeBanks): Desk {
  const path = '/banks/palmpay/notifications'
  const told = (body: string): Told => ({ path, headers: JSON_TYPE, body })
  return {
    code: 'PALMPAY',
    bank: Bank.BANK_PALMPAY,
    strange: () => bank.openAccount('Nobody here').virtualAccountNo,
    receive(account, naira, index) {
      const order = bank.receive(account, naira, {
        ...(index % 11 === 0 && { sessionId: '' }),
        ...(index % 5 === 0 && { payerName: '  NGOZI   EZE ' }),
      })
      const body = bank.notification(order)
      return {
        session: order.sessionId || order.orderNo,
        account,
        kobo: order.amountMinor,
        notify: () => bank.notify(order),
        forged: [
          told(with_(body, '"orderAmount":', '"orderAmount":9')),
          told(with_(body, order.orderNo, other(order.orderNo))),
          told(with_(body, /"sign":"[^"]*"/, '"sign":""')),
          told(with_(body, /,"sign":"[^"]*"/, '')),
        ],
        altered: [],
      }
    },
    noise(account) {
      const open = bank.receive(account, '999', { orderStatus: 2n })
      return [told(bank.payout(500_000n)), told(bank.notification(open))]
    },
    stumble: (turn) =>
      bank.faults.add('detail', [...FAULTS, 'code AC100001', 'code 99'][turn % 8] as '500'),
    final: undefined,
  }
}
