import type { Pool, PoolClient } from 'pg'
import { appendEvents } from '../../events/append-events.ts'
import { byteaArray, textArray } from '../../postgres/binary-arrays.ts'
import type { OpenAccount, StoredAccount } from '../account.ts'
import { ACCOUNT_COLUMNS, type AccountRow, toStored } from '../store.ts'

/** An account that the bank has opened, with the bank's identifiers. */
type OpenedAccount = StoredAccount & OpenAccount

/** Locks ACTIVE accounts that are to end; each instance locks different ones. */
export async function lockEnding(
  client: PoolClient,
  nowMs: number,
  limit: number,
): Promise<readonly OpenedAccount[]> {
  const { rows } = await client.query<AccountRow>({
    name: 'account-lock-ending',
    text: `select ${ACCOUNT_COLUMNS} from account where end_due_at <= $1 and status = 'ACTIVE'
      order by end_due_at limit $2 for no key update skip locked`,
    values: [new Date(nowMs), limit],
  })
  return rows.map((row) => toStored(row) as OpenedAccount)
}

const EXPIRED_EVENT = { kind: "'ACCOUNT_EXPIRED'", occurred_at: 'ended_at' }

/** Ends locked accounts and appends their events. Those of real banks are due at once: to be closed there. */
export async function endAccounts(
  client: PoolClient,
  events: readonly {
    readonly accountId: string
    readonly eventId: string
    readonly payload: Uint8Array
  }[],
  nowMs: number,
): Promise<void> {
  await client.query({
    name: 'account-end',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::bytea[]) as i(id, event_id, payload)
      ), ended as (
        update account a set status = 'EXPIRED', ended_at = $4,
          end_due_at = case when connector = 'live' then $4::timestamptz end
        from input i where a.id = i.id
        returning a.business_id, a.live, a.ended_at, i.event_id, i.payload
      )
      ${appendEvents(EXPIRED_EVENT, 'from ended')}`,
    values: [
      textArray(events.map(({ accountId }) => accountId)),
      textArray(events.map(({ eventId }) => eventId)),
      byteaArray(events.map(({ payload }) => payload)),
      new Date(nowMs),
    ],
  })
}

/** Claims ended accounts that are to be closed at their bank, or listed no longer, until a time. */
export async function claimEnded(
  pool: Pool,
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<readonly OpenedAccount[]> {
  const { rows } = await pool.query<AccountRow>({
    name: 'account-claim-ended',
    text: `with due as (
        select id as due_id from account
        where end_due_at <= $1 and status in ('EXPIRED', 'CLOSED')
        order by end_due_at limit $3 for no key update skip locked
      )
      update account set end_due_at = $2 from due where id = due_id returning ${ACCOUNT_COLUMNS}`,
    values: [new Date(nowMs), new Date(untilMs), limit],
  })
  return rows.map((row) => toStored(row) as OpenedAccount)
}

/** Stores when a claimed account is due again. @param dueAtMs undefined: never */
export async function storeEndDue(
  pool: Pool,
  id: string,
  dueAtMs: number | undefined,
): Promise<void> {
  await pool.query({
    name: 'account-end-due',
    text: "update account set end_due_at = $2 where id = $1 and status in ('EXPIRED', 'CLOSED')",
    values: [id, dueAtMs === undefined ? null : new Date(dueAtMs)],
  })
}
