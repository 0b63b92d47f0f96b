/**
 * All writes of a payment as one statement: looks up the account, and inserts session, transaction,
 * ledger posting and event.
 */
export const PAYMENT_SQL = paymentSql([
  '$1',
  '$2',
  '$3',
  '$4',
  '$5',
  '$6',
  '$7',
  '$8',
  '$9',
  '$10',
  '$11',
  '$12',
  '$13',
])

/**
 * The same as a pgbench script. Its variables can only be numbers, so the statement builds the texts.
 *
 * @param payloadBytes size of an event
 */
export function pgbenchScript(accounts: number, payloadBytes: number): string {
  const millisecond = "to_char(now(), 'YYMMDDHH24MISSMS')"
  const unique = "lpad(:unique::text, 12, '0')"
  const statement = paymentSql([
    "lpad(:account::text, 10, '0')",
    "'9PSB'",
    `'txn_' || ${millisecond} || ${unique}`,
    `'000013' || to_char(now(), 'YYMMDDHH24MISS') || ${unique}`,
    ':amount',
    "date_trunc('milliseconds', now())",
    "'Chinedu Okafor'",
    "'0123456789'",
    "'000013'",
    "'GTBank Plc'",
    "'Transfer for order 123456'",
    `'evt_' || ${millisecond} || ${unique}`,
    `'\\x${'65'.repeat(payloadBytes)}'`,
  ])
  return [
    `\\set account random(1, ${accounts})`,
    '\\set unique random(0, 999999999999)',
    '\\set amount random(1, 10000000)',
    `${statement.replaceAll(/\s+/g, ' ')};`,
  ].join('\n')
}

function paymentSql(values: readonly string[]): string {
  const [
    number,
    bank,
    id,
    session,
    amount,
    at,
    payer,
    from,
    code,
    payerBank,
    text,
    event,
    payload,
  ] = values
  return `with found as (
      select id, business_id, live from account
      where account_number = ${number} and bank = ${bank} and status = 'ACTIVE'
    ), new_session as (
      insert into payment_session (session_id, bank, live, transaction_id)
      select ${session}::text, ${bank}, live, ${id}::text from found
      on conflict (session_id, bank, live) do nothing
      returning transaction_id
    ), recorded as (
      insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration, recorded_by)
      select ${id}::text, business_id, live, id, ${bank}, ${session}::text, ${amount}::bigint, 'SUCCESS',
        ${at}::timestamptz, ${at}::timestamptz, ${payer}::text, ${from}::text, ${code}::text,
        ${payerBank}::text, ${text}::text, 'notification'
      from found cross join new_session
      returning id, business_id, live, bank, amount_minor, created_at
    ), posted as (
      insert into ledger_posting
        (transaction_id, kind, business_id, live, debit_account, credit_account, amount_minor,
          created_at)
      select id, 'payment', business_id, live, 'clearing:' || bank, 'pending', amount_minor, created_at
      from recorded
    ), published as (
      insert into outbox
        (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
      select ${event}::text, business_id, live, 'PAYMENT_NOTIFICATION', created_at,
        ${payload}::bytea, id, amount_minor
      from recorded
    )
    select id from recorded`
}
