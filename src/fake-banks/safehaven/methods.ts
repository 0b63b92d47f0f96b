import { getPath } from '../../banks/get-path.ts'
import type { Clock } from '../../core/clock.ts'
import type { SafeHavenAccount, SafeHavenBooks } from './books.ts'
import { toEntry, toShown } from './transfer.ts'

/** `statusCode`, `message` and `data` of an answer. */
export interface SafeHavenShown {
  readonly statusCode: number
  readonly message: string
  readonly data?: unknown
  readonly pagination?: unknown
}

const LISTED_MAX = 100

const done = (message: string, data: unknown): SafeHavenShown => ({
  statusCode: 200,
  message,
  data,
})
const refused = (message: string): SafeHavenShown => ({ statusCode: 400, message })

/** Shows an account, without its number as long as it has none. */
function showAccount(account: SafeHavenAccount, client: string, clock: Clock) {
  return {
    _id: account.id,
    client,
    ...(account.unnumbered === 0 && { accountNumber: account.accountNumber }),
    accountName: account.name,
    status: account.status,
    externalReference: account.reference,
    createdAt: new Date(clock.now()).toISOString(),
  }
}

/** A fake tells nobody else of money. */
function isOfThisMachine(url: string): boolean {
  return URL.canParse(url) && /^(127\.0\.0\.1|localhost|\[::1\])$/.test(new URL(url).hostname)
}

const NO_ACCOUNT: SafeHavenShown = { statusCode: 404, message: 'Virtual account not found.' }

/** Opens and shows accounts, as the bank's API does. */
export function createSafeHavenAccounts(books: SafeHavenBooks, client: string, clock: Clock) {
  const show = (account: SafeHavenAccount) => showAccount(account, client, clock)
  return {
    openSubAccount(body: unknown): SafeHavenShown {
      const text = (name: string) => getPath(body, name)
      if (!text('externalReference')) return refused('externalReference is required.')
      if (!/^\+\d{8,15}$/.test(text('phoneNumber'))) return refused('phoneNumber is invalid.')
      if (!text('emailAddress').includes('@')) return refused('emailAddress is invalid.')
      if (!text('identityType') || !text('identityId')) return refused('identity is required.')
      if (!isOfThisMachine(text('callbackUrl'))) return refused('callbackUrl is invalid.')
      const [callbackUrl, reference] = [text('callbackUrl'), text('externalReference')]
      const name = `COMPANY / ${text('emailAddress').split('@')[0]}`
      const account = books.open({ name, reference, callbackUrl, isVirtual: false, unnumbered: 0 })
      return done('Sub account created successfully.', show(account))
    },
    openVirtual(body: unknown, unnumbered: number): SafeHavenShown {
      const text = (name: string) => getPath(body, name)
      const isWhole =
        Number(text('validFor')) > 0 &&
        Number(text('amount')) > 0 &&
        /^(Fixed|UnderPayment|OverPayment)$/.test(text('amountControl')) &&
        /^\d{10}$/.test(text('settlementAccount.accountNumber'))
      if (!isWhole || !isOfThisMachine(text('callbackUrl'))) return refused('Bad request.')
      const [callbackUrl, reference] = [text('callbackUrl'), text('externalReference')]
      const details = { reference, callbackUrl, isVirtual: true, unnumbered }
      return done(
        'Virtual account created.',
        show(books.open({ name: 'COMPANY / Checkout', ...details })),
      )
    },
    getVirtual(id: string): SafeHavenShown {
      const account = books.accountsById.get(id)
      if (!account?.isVirtual || account.status === 'Closed') {
        return NO_ACCOUNT
      }
      if (account.unnumbered > 0) account.unnumbered -= 1
      return done('Virtual account fetched.', show(account))
    },
    deleteVirtual(id: string): SafeHavenShown {
      const account = books.accountsById.get(id)
      if (!account?.isVirtual || account.status === 'Closed') {
        return NO_ACCOUNT
      }
      account.status = 'Closed'
      return done('Virtual account deleted.', show(account))
    },
  }
}

/** Shows transfers, as the bank's API does. */
export function createSafeHavenTransfers(books: SafeHavenBooks, client: string) {
  return {
    status(body: unknown, isVirtual: boolean): SafeHavenShown {
      const transfer = books.transfers.get(getPath(body, 'sessionId'))
      if (transfer?.isVirtual !== isVirtual) return refused('Unable to locate record.')
      return done('Transfer fetched.', toShown(transfer, client))
    },
    statement(id: string, query: URLSearchParams): SafeHavenShown {
      const [page, limit] = [Number(query.get('page') ?? 0), Number(query.get('limit') ?? 25)]
      const times = [query.get('fromDate'), query.get('toDate')].map((text) =>
        Date.parse(text ?? ''),
      )
      const [fromMs = Number.NaN, toMs = Number.NaN] = times
      if (!(page >= 0 && limit >= 1 && limit <= LISTED_MAX && fromMs <= toMs)) {
        return refused('Bad request.')
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
