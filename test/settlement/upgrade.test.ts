import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { migrate, openDatabase } from '../../src/postgres/orm.ts'
import { readBalance } from '../../src/settlement/balances/store.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { listEntries } from '../../src/settlement/statements/list-entries.ts'
import { encodeTransactionEvent } from '../../src/transactions/message.ts'
import { findRecorded } from '../../src/transactions/queries.ts'
import { sequence } from '../support/events.ts'
import { CALLER, createInstance, findDiscrepancies, insertBusiness, testClock } from './fixture.ts'

const BEFORE = 'Migration20261121060000_banks'

/** A database at the schema version before settlement. */
async function openOld() {
  const server = new URL(inject('serverUrl'))
  const name = `upgrade_${randomBytes(6).toString('hex')}`
  const administer = async (text: string) => {
    const client = new pg.Client({ connectionString: server.href })
    await client.connect()
    await client.query(text)
    await client.end()
  }
  await administer(`create database ${name}`)
  const database = await openDatabase(Object.assign(new URL(server), { pathname: name }).href, 4)
  onTestFinished(async () => {
    await database.close()
    await administer(`drop database ${name} with (force)`)
  })
  await database.orm.migrator.up({ to: BEFORE })
  return database
}

test('the migration includes earlier payments in balances, settlements and statements', async () => {
  const database = await openOld()
  const { pool } = database
  const business = await insertBusiness(pool)
  const [{ id: accountId }] = (await pool.query('select id from account')).rows
  /** Records a payment like the previous version. */
  const record = async (name: string, withEvent: boolean) => {
    const id = `txn_${name.padStart(26, '0')}`
    await pool.query(
      `insert into transaction (id, live, business_id, account_id, bank, session_id, amount_minor, status,
          paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
          narration)
        values ($1, true, $2, $3, '9PSB', $4, 500, 'SUCCESS', now(), now(), '', '', '', '', '')`,
      [id, business.id, accountId, name],
    )
    await pool.query(
      `insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        values ($1, 'payment', $2, true, 'clearing:9PSB', 'pending', 500, now())`,
      [id, business.id],
    )
    if (!withEvent) return
    const eventId = `evt_${name.padStart(26, '0')}`
    // The payer's name looks like a transaction id: the migration must not be misled by it.
    const [stored] = await findRecorded(pool, [{ bank: '9PSB', sessionId: name, live: true }])
    const payer = { ...stored!.payer, name: 'txn_00000000000000000000000000' }
    const payload = encodeTransactionEvent(
      'PAYMENT_NOTIFICATION',
      { ...stored!, payer },
      eventId,
      1,
    )
    await pool.query(
      `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        values ($1, $2, true, 'PAYMENT_NOTIFICATION', now(), $3)`,
      [eventId, business.id, payload],
    )
  }
  // Two payments whose events were deleted by retention, one in the event log, and one that has no
  // sequence number yet.
  await record('1', true)
  await record('2', true)
  await record('3', true)
  await sequence(pool)
  await pool.query(
    `with old as (delete from event_log where position < 3 returning outbox_seq)
      delete from outbox where seq in (select outbox_seq from old)`,
  )
  await record('4', true)

  await migrate(database)

  const key = { businessId: business.id, live: true }

  expect(await readBalance(pool, key)).toMatchObject({ pendingMinor: 2_000n })
  expect(await findDiscrepancies(pool)).toEqual([])
  await sequence(pool)
  expect(await readBalance(pool, key)).toMatchObject({ pendingMinor: 2_000n })
  const request = { ...key, fromMs: undefined, toMs: undefined, pageToken: '' }
  const { entries } = await listEntries(database, { ...request, pageSize: 10 })
  expect(entries.map(({ sequence: number, sessionId }) => [number, sessionId])).toEqual([
    [1n, '1'],
    [2n, '2'],
    [3n, '3'],
    [4n, '4'],
  ])
  const instance = createInstance(database, testClock(Date.now()))
  await settle(instance, { ...key, requestId: '', force: true }, CALLER)
  expect(await readBalance(pool, key)).toMatchObject({
    pendingMinor: 0n,
    availableMinor: 2_000n,
  })
  expect(await findDiscrepancies(pool)).toEqual([])

  // A running instance of the previous version is rejected, and the bank repeats its notification.
  await expect(record('5', true)).rejects.toMatchObject({ code: '23514' })
})
