import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { notificationBody as ninePsbBody } from '../../src/banks/9psb/fake.ts'
import type { BankCode } from '../../src/banks/bank.ts'
import type { NotifyResult } from '../../src/banks/fake/notifier.ts'
import type { FakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import { notificationBody as providusBody } from '../../src/banks/providus/fake.ts'
import { authSignature } from '../../src/banks/providus/providus.ts'

/** A request to the notification endpoint. */
export interface NotificationRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A payment that a fake bank has received. */
export interface Received {
  readonly session: string
  readonly account: string
  readonly kobo: bigint
  /** The bank sends its notification until it is acknowledged. */
  notify(): Promise<NotifyResult>
  /** Requests that resemble the bank's but are not authentic. */
  readonly forged: readonly NotificationRequest[]
  /** Requests with the bank's credentials that it did not send: with other facts or another key. */
  readonly altered: readonly NotificationRequest[]
}

/** Makes one fake bank receive payments, send notifications and fail. */
export interface BankReceiver {
  readonly code: BankCode
  readonly bank: Bank
  /** Opens an account that the service does not know. */
  openUnknown(): string
  receive(account: string, naira: string, index: number): Received
  /** Authentic notifications without money for the account. */
  ignored(account: string): readonly NotificationRequest[]
  /** Makes the next requery fail. */
  failRequery(turn: number): void
  /** A response after which the bank gives a payment up; undefined if it has none. */
  readonly rejection: RegExp | undefined
}

const JSON_TYPE = { 'content-type': 'application/json' }
const FAULTS = ['500', 'cut', 'page', '500 after', 'cut after', 'hang'] as const

/** Replaces a text in the body. @throws if the body does not contain it */
function replaceIn(body: string, from: string | RegExp, to: string): string {
  const changed = body.replace(from, to)
  if (changed === body) throw new Error(`there is no ${from} in ${body}`)
  return changed
}

/** Another text of the same form. */
const other = (text: string) =>
  replaceIn(text, /\d(?=\D*$)/, text.match(/\d(?=\D*$)/)?.[0] === '7' ? '8' : '7')

export function receiversOf(banks: FakeBanks): readonly BankReceiver[] {
  return [ninePsb(banks), safeHaven(banks), providus(banks), palmPay(banks)]
}

function ninePsb({ '9PSB': bank, environment }: FakeBanks): BankReceiver {
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
    openUnknown: () => bank.openAccount('Unknown Customer').accountNumber,
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
          { path, headers, body: replaceIn(body, '"amount":', '"amount":9') },
          { path, headers, body: replaceIn(body, '"hash":"', '"hash":"x') },
        ],
        altered: [
          { path, headers, body: more },
          { path, headers, body: replaceIn(body, sessionId, other(sessionId)) },
        ],
      }
    },
    ignored: () => [],
    failRequery: (turn) =>
      bank.faults.add('confirm', [...FAULTS, '99', 'not found'][turn % 8] as '500'),
    rejection: undefined,
  }
}

function providus({ PROVIDUS: bank, environment }: FakeBanks): BankReceiver {
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
    openUnknown: () => bank.openAccount('Unknown Customer').accountNumber,
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
          {
            path,
            headers,
            body: replaceIn(body, '"transactionAmount":"', '"transactionAmount":"9'),
          },
          { path, headers, body: replaceIn(body, settlementId, other(settlementId)) },
          { path, headers, body: replaceIn(body, sessionId, other(sessionId)) },
        ],
      }
    },
    ignored: () => [],
    failRequery: (turn) =>
      bank.faults.add('settlement', [...FAULTS, '03', 'not found'][turn % 8] as '500'),
    rejection: /"responseCode":"02"/,
  }
}

function safeHaven({ SAFEHAVEN: bank, environment }: FakeBanks): BankReceiver {
  const base = '/banks/safehaven/notifications'
  const path = `${base}/${environment['BANK_SAFEHAVEN_CALLBACK_SECRET']}`
  const spellings = ['type', 'eventType', 'event'] as const
  const request = (body: string): NotificationRequest => ({ path, headers: JSON_TYPE, body })
  return {
    code: 'SAFEHAVEN',
    bank: Bank.BANK_SAFEHAVEN,
    openUnknown: () => bank.openAccount('Unknown Customer', urlOf(bank, path)).accountNumber,
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
          { path: base, headers: JSON_TYPE, body },
          { path: `${base}/guessed-secret-0123456789`, headers: JSON_TYPE, body },
        ],
        altered: [
          request(replaceIn(body, '"amount":', '"amount":9')),
          request(body.replaceAll(sessionId, other(sessionId))),
          request(bank.notification({ ...transfer, isReversed: true })),
        ],
      }
    },
    ignored(account) {
      const [failed, reversed] = [bank.receive(account, '777'), bank.receive(account, '888')]
      failed.status = 'Failed'
      reversed.isReversed = true
      return [
        request(bank.outward(failed)),
        request(bank.notification(failed)),
        request(bank.notification({ ...failed, status: 'Completed' })),
        request(bank.notification(reversed)),
        request(bank.notification({ ...reversed, isReversed: false })),
      ]
    },
    failRequery: (turn) =>
      bank.faults.add('status', [...FAULTS, 'statusCode 500', 'statusCode 400'][turn % 8] as '500'),
    rejection: undefined,
  }
}

/** The callback URL of the other accounts, for one that was not opened through the API. */
function urlOf({ accounts }: FakeBanks['SAFEHAVEN'], path: string): string {
  const known = [...accounts.values()].find(({ callbackUrl }) => callbackUrl.endsWith(path))
  return known?.callbackUrl ?? ''
}

function palmPay({ PALMPAY: bank }: FakeBanks): BankReceiver {
  const path = '/banks/palmpay/notifications'
  const request = (body: string): NotificationRequest => ({ path, headers: JSON_TYPE, body })
  return {
    code: 'PALMPAY',
    bank: Bank.BANK_PALMPAY,
    openUnknown: () => bank.openAccount('Unknown Customer').virtualAccountNo,
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
          request(replaceIn(body, '"orderAmount":', '"orderAmount":9')),
          request(replaceIn(body, order.orderNo, other(order.orderNo))),
          request(replaceIn(body, /"sign":"[^"]*"/, '"sign":""')),
          request(replaceIn(body, /,"sign":"[^"]*"/, '')),
        ],
        altered: [],
      }
    },
    ignored(account) {
      const pending = bank.receive(account, '999', { orderStatus: 2n })
      return [request(bank.payout(500_000n)), request(bank.notification(pending))]
    },
    failRequery: (turn) =>
      bank.faults.add('detail', [...FAULTS, 'code AC100001', 'code 99'][turn % 8] as '500'),
    rejection: undefined,
  }
}
