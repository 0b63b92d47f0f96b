import { invalidFields } from '../../core/errors.ts'
import type { Database } from '../../postgres/orm.ts'
import { pageTokenOf, readPage } from '../../postgres/page-token.ts'
import { type AuditKeys, type ChainBreak, createChain, NO_HASH } from './audit-hash.ts'
import { listAuditEntries } from './list-audit-entries.ts'

/** The progress of a verification. */
interface Verification {
  /** The last entry that is intact; 0 if there is none. */
  readonly number: bigint
  readonly hash: string
  /** The number of the last entry of the log. */
  readonly headNumber: bigint
  readonly completed: boolean
  /** The first entry that is not intact. */
  readonly broken: ChainBreak | undefined
  /** Where a later verification continues. */
  readonly cursor: string
}

/** How many entries are read at once, and reported as progress. */
const ENTRIES_MAX = 1_000

/**
 * Verifies the audit log, oldest entry first, up to its current end, or up to the first entry that is not intact.
 *
 * @param from the cursor of an earlier verification, which this one continues; empty: begins with the first entry
 * @throws Fault validation_failed (the cursor)
 */
export async function* verifyAudit(
  database: Database,
  keys: AuditKeys,
  from: string,
  signal: AbortSignal,
  entriesMax = ENTRIES_MAX,
): AsyncGenerator<Verification> {
  const chain = createChain(readCursor(from))
  for (;;) {
    signal.throwIfAborted()
    const after = chain.number === 0n ? '' : pageTokenOf([`${chain.number}`])
    // Read from the primary, so that the head and the entries before it have the same state.
    const page = await listAuditEntries(
      database.durablePool,
      keys,
      { oldestFirst: true },
      entriesMax,
      after,
    )
    const { rows, head, nextPageToken } = page
    let broken: ChainBreak | undefined
    for (const entry of rows) {
      broken = chain.follow(entry)
      if (broken) break
    }
    const isEnd = broken !== undefined || nextPageToken === ''
    if (isEnd) broken ??= chain.end(head)
    const { number, hash } = chain
    const cursor = pageTokenOf([`${number}`, hash])
    yield { number, hash, headNumber: head.number, completed: isEnd, broken, cursor }
    if (isEnd) return
  }
}

function readCursor(from: string): { readonly number: bigint; readonly hash: string } {
  if (from === '') return { number: 0n, hash: NO_HASH }
  try {
    const [number = '', hash = ''] = readPage(1, from, 2).after ?? []
    if (/^\d{1,18}$/.test(number) && /^[0-9a-f]{64}$/.test(hash)) {
      return { number: BigInt(number), hash }
    }
  } catch {
    // Falls through: every invalid cursor gets the same fault.
  }
  throw invalidFields([{ field: 'from', message: 'is not a cursor of a verification' }])
}
