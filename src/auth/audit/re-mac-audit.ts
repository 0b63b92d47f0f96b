import type { Pool } from 'pg'
import {
  countByKey,
  type EncryptedRows,
  estimateRows,
  type ReEncryptedPage,
} from '../../crypto/encrypted-rows.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import { bigintArray, byteaArray } from '../../postgres/binary-arrays.ts'
import { entryText, headText, isAuthenticHead } from './audit-hash.ts'
import { readHead } from './export-audit-head.ts'
import { isAuthenticEntry, type StoredEntry } from './list-audit-entries.ts'

/**
 * The MACs of the audit log. A key rotation checks each entry, and replaces its MAC by a MAC under the
 * current key. An entry that does not match its MAC keeps it, and is reported as unreadable.
 */
export function authenticatedAudit(pool: Pool): EncryptedRows {
  return {
    name: 'audit log',
    async reEncrypt(encrypter, after, limit) {
      const entries = await readPage(pool, after, limit)
      const page = await replaceEntries(pool, encrypter, entries)
      const last = entries.at(-1)?.number ?? undefined
      if (last !== undefined && entries.length === limit) return { ...page, next: last }
      const head = await replaceHead(pool, encrypter)
      return {
        scanned: page.scanned + 1,
        reEncrypted: page.reEncrypted + (head === 're-encrypted' ? 1 : 0),
        skipped: page.skipped + (head === 'skipped' ? 1 : 0),
        unreadable: [...page.unreadable, ...(head === 'unreadable' ? ['audit head'] : [])],
        next: undefined,
      }
    },
    estimateRows: () => estimateRows(pool, 'audit_mac'),
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(mac, 2, 4), 'hex') as key_id, count(*) from (
            select mac from audit_mac union all select mac from audit_head where mac <> ''
          ) m group by 1`,
      ),
    async matchesKeys(encrypter) {
      const { mac } = await readHead(pool)
      return mac.length === 0 ? undefined : encrypter.knownKeyIds.includes(keyIdOf(mac))
    },
  }
}

/** An entry of a page. */
type PageEntry = StoredEntry & { readonly number: string }

async function readPage(pool: Pool, after: string, limit: number): Promise<PageEntry[]> {
  const { rows } = await pool.query<PageEntry>(
    `select e.number, round(date_part('epoch', e.at) * 1000) as "atMs", e.actor_kind as "actorKind",
        e.actor_id as "actorId", e.actor_name as "actorName", e.address, e.request_id as "requestId",
        e.action, e.target_kind as "targetKind", e.target_id as "targetId",
        coalesce(e.business_id, '') as "businessId", e.details,
        encode(e.previous_hash, 'hex') as "previousHash", encode(e.hash, 'hex') as hash,
        (select m.mac from audit_mac m where m.number = e.number) as mac
      from audit_entry e where number > $1 order by number limit $2`,
    [after === '' ? 0 : after, limit],
  )
  return rows
}

async function replaceEntries(
  pool: Pool,
  encrypter: Encrypter,
  page: readonly PageEntry[],
): Promise<Omit<ReEncryptedPage, 'next'>> {
  const changes: { readonly number: bigint; readonly before: Buffer; readonly after: Buffer }[] = []
  const unreadable: string[] = []
  for (const { mac: before, ...stored } of page) {
    // An entry without a MAC gets none, because the service did not append it.
    if (before === null || isCurrent(encrypter, before)) continue
    const entry = { ...stored, number: BigInt(stored.number) }
    if (isAuthenticEntry(encrypter, entry, before)) {
      const after = encrypter.mac(entryText(entry.number, entry.hash))
      changes.push({ number: entry.number, before, after })
    } else unreadable.push(`audit entry ${entry.number}`)
  }
  const reEncrypted = changes.length === 0 ? 0 : await replaceMacs(pool, changes)
  const skipped = changes.length - reEncrypted
  return { scanned: page.length, reEncrypted, skipped, unreadable }
}

async function replaceMacs(
  pool: Pool,
  changes: readonly { readonly number: bigint; readonly before: Buffer; readonly after: Buffer }[],
): Promise<number> {
  const { rowCount } = await pool.query({
    name: 'audit-mac-replace',
    text: `update audit_mac m set mac = i.after
      from unnest($1::int8[], $2::bytea[], $3::bytea[]) as i(number, before, after)
      where m.number = i.number and m.mac = i.before`,
    values: [
      bigintArray(changes.map(({ number }) => number)),
      byteaArray(changes.map(({ before }) => before)),
      byteaArray(changes.map(({ after }) => after)),
    ],
  })
  return rowCount ?? 0
}

async function replaceHead(
  pool: Pool,
  encrypter: Encrypter,
): Promise<'current' | 're-encrypted' | 'skipped' | 'unreadable'> {
  const head = await readHead(pool)
  if (head.mac.length === 0 || isCurrent(encrypter, head.mac)) return 'current'
  if (!isAuthenticHead(encrypter, head)) return 'unreadable'
  const { rowCount } = await pool.query(
    'update audit_head set mac = $1 where number = $2 and mac = $3',
    [encrypter.mac(headText(head.number, head.hash)), head.number, head.mac],
  )
  return rowCount === 1 ? 're-encrypted' : 'skipped'
}

function isCurrent({ head }: Encrypter, mac: Uint8Array): boolean {
  return head.equals(mac.subarray(0, head.length))
}

function keyIdOf(mac: Buffer): string {
  return mac.subarray(1, 5).toString('hex')
}
