/** SQL that joins the transaction `t` of an id. */
export function joinTransaction(id: string): string {
  return `join transaction t on t.id = ${id}`
}

/** SQL that joins the transaction `t` of an id, looked up one by one. */
export const lookUpTransaction = (id: string): string =>
  `cross join lateral (select * from transaction where id = ${id} offset 0) t`

/** SQL: all transactions `t`. */
export const TRANSACTIONS = 'transaction t'

/**
 * SQL: the condition on the kind of an event that credits a payment to its business: when it is recorded, or, if it
 * was held, when it is accepted. Earlier versions recorded PAYMENT_ACCEPTED then, and a PAYMENT_NOTIFICATION that
 * changes no balance when the payment arrived.
 */
export const CREDITS_PAYMENT = "in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')"

/** SQL: whether the transaction `t`, which an event has credited, is waiting for its settlement. */
export const IS_UNSETTLED = `t.status = 'SUCCESS' and not ${isSettled('t.id')}`

/** SQL: whether the transaction of an id is settled. `offset 0` keeps the planner from reading all postings. */
export function isSettled(id: string): string {
  return `exists (select from ledger_posting s where s.transaction_id = ${id} and s.kind = 'settlement' offset 0)`
}

/** SQL: whether the transaction `t` is settled: an imported one as its provider stated, others by their posting. */
export const SHOWN_SETTLED = `coalesce(t.imported_settled, ${isSettled('t.id')})`

/** SQL that joins the postings `p` of a transaction. */
export function joinPostings(transactionId: string): string {
  return `join ledger_posting p on p.transaction_id = ${transactionId}`
}

/**
 * SQL that lets a settlement and a reversal of a balance exclude each other until the commit. Each must read the
 * postings by a later statement.
 *
 * @param businessId an SQL expression, like `live`
 */
export function lockSettled(
  by: 'settlement' | 'reversal',
  businessId: string,
  live: string,
): string {
  return `lock_settled(${businessId}, ${live}, ${by === 'reversal'})`
}

/**
 * SQL that joins the transaction `t` of a session, by probes of two indexes. `offset 0` keeps the planner from
 * reading whole tables, which it prefers while they are small: a prepared statement would then keep its plan
 * while they grow.
 *
 * @param session the condition on the session `s`
 */
export function joinSession(session: string, on = 'true'): string {
  return `join lateral (
      select t.* from (select transaction_id from payment_session s where ${session} offset 0) s
        cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
    ) t on ${on}`
}
