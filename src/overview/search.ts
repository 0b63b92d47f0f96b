import type { StoredAccount } from '../accounts/account.ts'
import { searchAccounts, searchLatestAccounts } from '../accounts/list-accounts.ts'
import { searchTokens } from '../auth/tokens.ts'
import { isPaymentKey } from '../banks/bank-fields.ts'
import { searchBusinesses } from '../businesses/get-business.ts'
import { searchKeys } from '../businesses/keys.ts'
import { findEvent } from '../events/find-event.ts'
import { findNotification } from '../notifications/held-notifications.ts'
import { searchPayouts } from '../payouts/list-payouts.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { findSettlement } from '../settlement/get-balance.ts'
import { findConflict } from '../transactions/conflicts.ts'
import { searchLatestTransactions, searchTransactions } from '../transactions/find-transactions.ts'
import { searchUnmatched } from '../transactions/unmatched-store.ts'
import { findDeliveryWithEndpoint, findEndpoint } from '../webhooks/endpoints/list-endpoints.ts'
import * as found from './found.ts'
import { includes, type Scope } from './scope.ts'

/** The most results of a kind. */
const RESULTS_MAX = 10

/** The results of a search. */
interface SearchResults {
  readonly results: readonly found.Found[]
  /** The kinds that have more results than `RESULTS_MAX`. */
  readonly more: readonly found.FoundKind[]
  /** How far back the payments and accounts were searched for parts of the text; undefined: no part was searched for. */
  readonly searchedSinceMs: number | undefined
}

/** How many of the latest payments, and of the latest accounts, are searched for a part of an identifier. */
const LATEST = 2_000

/** The shortest part that is searched for. */
const PART_CHARS_MIN = 3

type Look = Promise<readonly found.Found[]>

/** Finds the objects that a text names. The shape of the text decides which indexes are looked up. */
export async function search(
  database: Database,
  text: string,
  scope: Scope,
): Promise<SearchResults> {
  const query = readQuery(text)
  const looks = [
    ...ownIdLooks(database, query, scope),
    ...foreignIdLooks(database, query, scope),
    ...credentialLooks(database, query, scope),
    ...(scope.isOperator ? operatorLooks(database, query, scope) : []),
  ]
  const wholes = await Promise.all(looks)
  const isFound = wholes.flat().some(({ kind }) => kind === 'TRANSACTION' || kind === 'ACCOUNT')
  const isPart = query.isPart && !isFound && query.text.length >= PART_CHARS_MIN
  const parts = isPart ? await searchParts(database, query.text, scope) : NO_PARTS
  const kinds = [...wholes, ...parts.kinds]
  return {
    results: kinds.flatMap((results) => results.slice(0, RESULTS_MAX)),
    more: kinds.flatMap((results) => results[RESULTS_MAX]?.kind ?? []),
    searchedSinceMs: parts.sinceMs,
  }
}

interface Parts {
  readonly kinds: readonly (readonly found.Found[])[]
  readonly sinceMs: number | undefined
}

const NO_PARTS: Parts = { kinds: [], sinceMs: undefined }

async function searchParts({ read }: Database, text: string, scope: Scope): Promise<Parts> {
  const bounds = { latest: LATEST, limit: RESULTS_MAX + 1 }
  const [payments, accounts] = await Promise.all([
    read((on) => searchLatestTransactions(on, text, scope, bounds)),
    read((on) => searchLatestAccounts(on, text, scope, bounds)),
  ])
  const since = [payments.sinceMs, accounts.sinceMs].filter((ms) => ms !== undefined)
  return {
    kinds: [accounts.rows.map(found.fromAccount), payments.rows.map(found.fromTransaction)],
    sinceMs: since.length === 0 ? undefined : Math.max(...since),
  }
}

/** The result if there is one and the scope includes it. */
async function one<Row>(
  row: Promise<Row | undefined>,
  scope: Scope,
  toFound: (row: Row) => found.Found,
): Look {
  const stored = await row
  const result = stored && toFound(stored)
  return result && includes(scope, result) ? [result] : []
}

const all = async <Row>(rows: Promise<readonly Row[]>, toFound: (row: Row) => found.Found): Look =>
  (await rows).map(toFound)

/** Looks up identifiers of this service. */
function ownIdLooks(database: Database, { text, prefix }: Query, scope: Scope): Look[] {
  const { read } = database
  switch (prefix) {
    case 'txn':
      return [transactions(read, text, scope)]
    case 'acc':
      return [accounts(read, text, scope)]
    case 'evt': {
      const event = read((on) => findEvent(on, text))
      return [one(event, scope, found.fromEvent)]
    }
    case 'dlv':
      return [one(findDeliveryWithEndpoint(database, text), scope, found.fromDelivery)]
    case 'ep':
      return [one(findEndpoint(database.orm, text), scope, found.fromEndpoint)]
    case 'stl': {
      const settlement = read((on) => findSettlement(on, text))
      return [one(settlement, scope, found.fromSettlement)]
    }
    case 'pay':
      return [payouts(read, text, scope)]
    case 'biz':
      return [businesses(read, text, scope)]
    default:
      return []
  }
}

/** Looks up identifiers that banks and businesses gave, e-mail addresses, and names. */
function foreignIdLooks({ read }: Database, query: Query, scope: Scope): Look[] {
  const { text, isForeignId, isName } = query
  const looks: Look[] = []
  if (isForeignId && isPaymentKey(text)) looks.push(transactions(read, text, scope))
  if (text.includes('@')) looks.push(...customersAndAccounts(read, text, scope))
  if (isForeignId) looks.push(accounts(read, text, scope), payouts(read, text, scope))
  if (isName) looks.push(businesses(read, text, scope))
  return looks
}

function transactions(read: Database['read'], text: string, scope: Scope): Look {
  const rows = read((on) => searchTransactions(on, text, scope))
  return all(rows, found.fromTransaction)
}

/** The customers with an e-mail address, one for each business and mode, and their accounts. */
function customersAndAccounts(read: Database['read'], email: string, scope: Scope): Look[] {
  const rows = read((on) => searchAccounts(on, email, scope, RESULTS_MAX + 1))
  const keyOf = ({ businessId, live }: StoredAccount) => `${businessId} ${live}`
  const customers = rows.then((accounts) => [
    ...new Map(accounts.toReversed().map((each) => [keyOf(each), each])).values(),
  ])
  return [all(customers, found.fromCustomer), all(rows, found.fromAccount)]
}

function accounts(read: Database['read'], text: string, scope: Scope): Look {
  const rows = read((on) => searchAccounts(on, text, scope, RESULTS_MAX + 1))
  return all(rows, found.fromAccount)
}

function payouts(read: Database['read'], text: string, scope: Scope): Look {
  const rows = read((on) => searchPayouts(on, text, scope, RESULTS_MAX + 1))
  return all(rows, found.fromPayout)
}

function businesses(read: Database['read'], text: string, { businessIds }: Scope): Look {
  const look = (on: Queryable) => searchBusinesses(on, text, businessIds, RESULTS_MAX + 1)
  return all(read(look), found.fromBusiness)
}

function credentialLooks(database: Database, { credential }: Query, scope: Scope): Look[] {
  if (credential?.kind !== 'key') return []
  const { businessIds, live } = scope
  const keys = searchKeys(database, credential, businessIds, RESULTS_MAX + 1)
  return [
    all(
      keys.then((rows) => rows.filter((key) => live === undefined || key.live === live)),
      found.fromKey,
    ),
  ]
}

/** Looks up objects that belong to no business, or that only operators see. */
function operatorLooks(database: Database, query: Query, scope: Scope): Look[] {
  const { text, prefix, credential, isForeignId } = query
  const { orm, read } = database
  const looks: Look[] = []
  if (prefix === 'cfl') {
    // A conflict may contradict a payment of either mode.
    const conflict = read((on) => findConflict(on, text))
    looks.push(one(conflict, scope, found.fromConflict))
  }
  if (scope.businessIds !== undefined) return looks
  if (credential?.kind === 'tok') {
    looks.push(all(searchTokens(database, credential, RESULTS_MAX + 1), found.fromToken))
  }
  if (scope.live === false) return looks
  if (prefix === 'ntf') {
    looks.push(one(findNotification(orm.em.fork(), text), scope, found.fromNotification))
  }
  if (prefix === 'unm' || (isForeignId && isPaymentKey(text))) {
    const payments = read((on) => searchUnmatched(on, text, RESULTS_MAX + 1))
    looks.push(all(payments, found.fromUnmatched))
  }
  return looks
}

/** The meanings that a text can have, judged by its shape. */
interface Query {
  /** Trimmed. */
  readonly text: string
  /** The kind of an identifier of this service, as its prefix names it: "txn", "acc", … */
  readonly prefix: string | undefined
  /** Whether it may be an identifier that a bank or a business gave. */
  readonly isForeignId: boolean
  /** Whether it may be the beginning of a business's name. */
  readonly isName: boolean
  /** Whether it may be a part of an identifier or a name. */
  readonly isPart: boolean
  /** The range of ids of the tokens or keys that the text identifies. */
  readonly credential: CredentialRange | undefined
}

/** Ids from the first to the last, both included. */
interface CredentialRange {
  readonly kind: 'tok' | 'key'
  readonly first: string
  readonly last: string
}

const ID = /^([a-z]{2,3})_[0-9a-z]{26}$/

/** An id or a secret. The prefix that lists show has the first ten characters of the id, a secret has all of them. */
const CREDENTIAL = /^(tok|it|key|sk_live|sk_test)_([0-9a-z]{10,26})(?:_[A-Za-z0-9_-]{0,43})?$/

/** The characters of the unique part of an id. */
const UNIQUE_LENGTH = 26

export function readQuery(query: string): Query {
  const text = query.trim()
  const credential = credentialOf(text)
  const prefix = ID.exec(text)?.[1]
  const isOurs = prefix !== undefined || credential !== undefined
  const isAddress = text.includes('@')
  return {
    text,
    prefix,
    isForeignId: !isOurs && !isAddress,
    isName: !isOurs && !isAddress && text !== '',
    isPart: !isOurs && !/^[a-z]{2,3}_$/.test(text),
    credential,
  }
}

/** Ids have the same length and alphabet, so any collation orders them like this. */
function credentialOf(text: string): CredentialRange | undefined {
  const [, name = '', unique = ''] = CREDENTIAL.exec(text) ?? []
  if (unique === '') return undefined
  const kind = name === 'tok' || name === 'it' ? 'tok' : 'key'
  return {
    kind,
    first: `${kind}_${unique.padEnd(UNIQUE_LENGTH, '0')}`,
    last: `${kind}_${unique.padEnd(UNIQUE_LENGTH, 'z')}`,
  }
}
