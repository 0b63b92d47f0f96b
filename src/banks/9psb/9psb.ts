import type { Clock } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import type {
  AccountOrder,
  AccountResult,
  Acknowledgement,
  BankPayment,
  LiveConnector,
  NotificationOutcome,
  PaymentPage,
  Requery,
} from '../bank.ts'
import { type JsonFields, mergeFields } from '../create-fields.ts'
import { getPath } from '../get-path.ts'
import { type BankHttp, BankUnreachable, NotListed } from '../http/bank-http.ts'
import { createCalls, type NinePsbAnswer } from './calls.ts'
import { readNotification, readTransaction } from './notification.ts'
import type { NinePsbSettings } from './settings.ts'

interface NinePsbOptions {
  readonly settings: NinePsbSettings
  readonly http: BankHttp
  readonly clock: Clock
}

/**
 * 9 Payment Service Bank: static virtual accounts that take any amount.
 *
 * Source: the bank's document "Virtual Account Service". It has no call that finds an account by our
 * reference, and refuses a reference that was used: an opening without a clear end is repeated
 * with the same reference, and when the bank then knows it, a person has to ask the bank for the
 * number.
 */
export function createNinePsb({ settings, http, clock }: NinePsbOptions): LiveConnector {
  const calls = createCalls({ settings, http, clock })
  /** One of reference and session id is needed beside the account; ten payments at most come. */
  const confirm = (fields: JsonFields, signal: AbortSignal) =>
    calls.post(settings.confirmPath, fields, signal)
  return {
    // It recognises our reference.
    afterCrash: 'repeat',
    async openAccount(order, signal) {
      const answer = await calls.post(settings.createPath, orderBody(order, settings), signal)
      return toAccountResult(order, answer)
    },
    async closeAccount({ reference, accountNumber }, signal) {
      const customer = { account: { number: accountNumber } }
      const answer = await calls.post(
        settings.deactivatePath,
        { transaction: { reference }, customer },
        signal,
      )
      const closed = answer.kind === 'answered' && answer.code === '00'
      return closed ? { kind: 'closed' } : { kind: 'unavailable', cause: answer.cause }
    },
    read: (notification) => readNotification(notification, settings),
    acknowledge,
    async requery(payment, signal) {
      const { sessionId, accountNumber } = payment
      const answer = await confirm({ sessionid: sessionId, accountnumber: accountNumber }, signal)
      return toRequery(payment, answer)
    },
    // The latest ten of an account, which it finds by the reference that the account has of us.
    listing: 'by account',
    async listPayments({ fromMs, toMs, account }, signal) {
      assert(account, 'payments of 9PSB are listed by account')
      const { reference, accountNumber } = account
      const answer = await confirm({ reference, accountnumber: accountNumber }, signal)
      const listed = toListed(answer, accountNumber)
      const inPeriod = ({ paidAtMs }: BankPayment) =>
        paidAtMs === undefined || (paidAtMs >= fromMs && paidAtMs < toMs)
      return { payments: listed.filter(inPeriod), next: undefined }
    },
  }
}

function orderBody(order: AccountOrder, settings: NinePsbSettings): JsonFields {
  const usual = {
    order: {
      amount: 0,
      currency: 'NGN',
      description: settings.description,
      country: 'NGA',
      amounttype: 'ANY',
    },
    customer: { account: { type: 'STATIC' } },
  }
  return mergeFields(mergeFields(usual, settings.createFields), {
    transaction: { reference: order.reference },
    customer: { account: { name: order.accountName } },
  })
}

function toAccountResult(order: AccountOrder, answer: NinePsbAnswer): AccountResult {
  const { cause } = answer
  if (answer.kind === 'refused') return notThisTime(order, cause)
  if (answer.kind === 'lost') return { kind: 'unknown', cause, next: 'repeat' }
  if (answer.code === '00') return toOpened(order, answer.body, cause)
  if (answer.code === '47') {
    // The code of every invalid request, and of a reference that was used before: then an account
    // may have come of it, and its number is not told again.
    const used = /reference|unique|duplicate|exist/i.test(getPath(answer.body, 'message'))
    if (used || order.repeated) return { kind: 'unknown', cause, next: 'person' }
    return { kind: 'unavailable', cause }
  }
  return { kind: 'unknown', cause, next: 'repeat' }
}

/** Nothing came of this attempt; what came of an earlier one is still not known. */
function notThisTime(order: AccountOrder, cause: string): AccountResult {
  return order.repeated
    ? { kind: 'unknown', cause, next: 'repeat' }
    : { kind: 'unavailable', cause }
}

function toOpened(order: AccountOrder, body: unknown, cause: string): AccountResult {
  const accountNumber = getPath(body, 'customer.account.number').trim()
  const reference = getPath(body, 'transaction.reference').trim()
  if (reference !== '' && reference !== order.reference) {
    return { kind: 'unknown', cause: `${cause}, of another reference`, next: 'person' }
  }
  if (!/^\d{10}$/.test(accountNumber)) {
    return { kind: 'unknown', cause: `${cause}, without an account number`, next: 'person' }
  }
  const accountName = getPath(body, 'customer.account.name').trim() || order.accountName
  return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
}

function toRequery({ sessionId, accountNumber }: BankPayment, answer: NinePsbAnswer): Requery {
  const { cause } = answer
  if (answer.kind !== 'answered') return { kind: 'unknown', cause }
  if (answer.code === '47' && /not found|no (record|transaction)/i.test(cause)) {
    return { kind: 'denied', cause }
  }
  const transactions = transactionsOf(answer)
  if (!transactions) return { kind: 'unknown', cause }
  const its = transactions.filter(
    (transaction) => getPath(transaction, 'transaction.sessionid').trim() === sessionId,
  )
  if (its.length === 0) return { kind: 'denied', cause: `${cause}; it does not list the session` }
  const payments = its.map(readTransaction)
  const fault = payments.find((payment) => typeof payment === 'string')
  if (fault !== undefined) return { kind: 'unknown', cause: `the listed payment: ${fault}` }
  const payment = payments.find(
    (read): read is BankPayment => typeof read !== 'string' && read.accountNumber === accountNumber,
  )
  return payment && payments.length === 1
    ? { kind: 'confirmed', payment }
    : { kind: 'denied', cause: `${cause}; it lists the session otherwise` }
}

/** @throws BankUnreachable, NotListed when the bank did not list them, or not to be understood */
function toListed(answer: NinePsbAnswer, accountNumber: string): PaymentPage['payments'] {
  const transactions = transactionsOf(answer)
  if (!transactions) {
    // Without a code it is not the bank's program that speaks.
    if (answer.kind === 'answered' && answer.code !== '') throw new NotListed(answer.cause)
    throw new BankUnreachable(answer.cause, answer.kind !== 'refused')
  }
  return transactions
    .filter((transaction) => getPath(transaction, 'code') === '00')
    .filter(
      (transaction) => getPath(transaction, 'customer.account.number').trim() === accountNumber,
    )
    .map((transaction) => {
      const read = readTransaction(transaction)
      // Left out it would never be missed.
      if (typeof read === 'string') throw new NotListed(`a listed payment: ${read}`)
      return read
    })
}

function transactionsOf(answer: NinePsbAnswer): readonly unknown[] | undefined {
  if (answer.kind !== 'answered' || answer.code !== '00') return undefined
  const { transactions } = answer.body as { readonly transactions?: unknown }
  if (Array.isArray(transactions)) return transactions
  return transactions === null ? [] : undefined
}

/** Whatever has another code than 00 comes again, five times. */
function acknowledge(outcome: NotificationOutcome): Acknowledgement {
  const contentType = 'application/json'
  if (outcome === 'UNAUTHENTICATED') {
    const body = '{"code":"S1","message":"Invalid Credential"}'
    return { status: 401, contentType, body }
  }
  const again = outcome === 'RETRY' || outcome === 'UNCONFIRMED'
  const body = again
    ? '{"code":"99","message":"Not processed, send it again"}'
    : '{"code":"00","message":"Success"}'
  return { status: 200, contentType, body }
}
