import type { Clock } from '../../../core/clock.ts'
import { getPath } from '../../bank-fields.ts'
import { isLocal } from '../../fake/notifier.ts'
import type { SafeHavenAccount, SafeHavenBooks } from './books.ts'
import { toEntry, toJson } from './books.ts'

/** The JSON of a response. */
export interface SafeHavenBody {
  readonly statusCode: number
  readonly message: string
  readonly data?: unknown
  readonly pagination?: unknown
}

const LISTED_MAX = 100

export const done = (message: string, data: unknown): SafeHavenBody => ({
  statusCode: 200,
  message,
  data,
})
export const rejected = (message: string): SafeHavenBody => ({ statusCode: 400, message })

/** The JSON of an account, without its number while `pollsWithoutNumber` lasts. */
function accountToJson(account: SafeHavenAccount, client: string, clock: Clock) {
  return {
    _id: account.id,
    client,
    ...(account.pollsWithoutNumber === 0 && { accountNumber: account.accountNumber }),
    accountName: account.name,
    status: account.status,
    externalReference: account.reference,
    createdAt: new Date(clock.now()).toISOString(),
  }
}

const NO_ACCOUNT: SafeHavenBody = { statusCode: 404, message: 'Virtual account not found.' }

/** The account methods of the bank's API. */
export function createSafeHavenAccounts(books: SafeHavenBooks, client: string, clock: Clock) {
  const show = (account: SafeHavenAccount) => accountToJson(account, client, clock)
  const usedCodes = new Set<string>()
  return {
    openSubAccount(body: unknown): SafeHavenBody {
      const text = (name: string) => getPath(body, name)
      if (!text('externalReference')) return rejected('externalReference is required.')
      if (!/^\+\d{8,15}$/.test(text('phoneNumber'))) return rejected('phoneNumber is invalid.')
      if (!text('emailAddress').includes('@')) return rejected('emailAddress is invalid.')
      const [identityType, identityId, otp] = ['identityType', 'identityId', 'otp'].map(text)
      if (!identityType || !identityId) return rejected('identity is required.')
      if (identityType !== 'vID') {
        if (!/^\d{11}$/.test(text('identityNumber'))) return rejected('identityNumber is required.')
        // A code is valid once.
        if (!otp || usedCodes.has(`${identityId} ${otp}`)) return rejected('OTP is invalid.')
        usedCodes.add(`${identityId} ${otp}`)
      }
      if (!isLocal(text('callbackUrl'))) return rejected('callbackUrl is invalid.')
      const [callbackUrl, reference] = [text('callbackUrl'), text('externalReference')]
      const name = `COMPANY / ${text('emailAddress').split('@')[0]}`
      const account = books.open({
        name,
        reference,
        callbackUrl,
        isVirtual: false,
        pollsWithoutNumber: 0,
      })
      return done('Sub account created successfully.', show(account))
    },
    openVirtual(body: unknown, pollsWithoutNumber: number): SafeHavenBody {
      const text = (name: string) => getPath(body, name)
      const isComplete =
        Number(text('validFor')) > 0 &&
        Number(text('amount')) > 0 &&
        /^(Fixed|UnderPayment|OverPayment)$/.test(text('amountControl')) &&
        /^\d{10}$/.test(text('settlementAccount.accountNumber'))
      if (!isComplete || !isLocal(text('callbackUrl'))) return rejected('Bad request.')
      const [callbackUrl, reference] = [text('callbackUrl'), text('externalReference')]
      const details = { reference, callbackUrl, isVirtual: true, pollsWithoutNumber }
      return done(
        'Virtual account created.',
        show(books.open({ name: 'COMPANY / Checkout', ...details })),
      )
    },
    getVirtual(id: string): SafeHavenBody {
      const account = books.accountsById.get(id)
      if (!account?.isVirtual || account.status === 'Closed') {
        return NO_ACCOUNT
      }
      if (account.pollsWithoutNumber > 0) account.pollsWithoutNumber -= 1
      return done('Virtual account fetched.', show(account))
    },
    deleteVirtual(id: string): SafeHavenBody {
      const account = books.accountsById.get(id)
      if (!account?.isVirtual || account.status === 'Closed') {
        return NO_ACCOUNT
      }
      account.status = 'Closed'
      return done('Virtual account deleted.', show(account))
    },
  }
}

/** The transfer methods of the bank's API. */
export function createSafeHavenTransfers(books: SafeHavenBooks, client: string) {
  return {
    status(body: unknown, isVirtual: boolean): SafeHavenBody {
      const transfer = books.transfers.get(getPath(body, 'sessionId'))
      if (transfer?.isVirtual !== isVirtual) return rejected('Unable to locate record.')
      return done('Transfer fetched.', toJson(transfer, client))
    },
    statement(id: string, query: URLSearchParams): SafeHavenBody {
      const [page, limit] = [Number(query.get('page') ?? 0), Number(query.get('limit') ?? 25)]
      const times = [query.get('fromDate'), query.get('toDate')].map((text) =>
        Date.parse(text ?? ''),
      )
      const [fromMs = Number.NaN, toMs = Number.NaN] = times
      if (!(page >= 0 && limit >= 1 && limit <= LISTED_MAX && fromMs <= toMs)) {
        return rejected('Bad request.')
      }
      const found = (books.received.get(id) ?? []).filter(
        ({ atMs }) => atMs >= fromMs && atMs < toMs,
      )
      const data = found.slice(page * limit, (page + 1) * limit).map(toEntry)
      const pages = Math.ceil(found.length / limit)
      const pagination = { total: found.length, pages, page: String(page), limit: String(limit) }
      return { ...done('Statement fetched.', data), pagination }
    },
  }
}
