/** SQL: joins the account `a` of a row, given the column with the account's id. */
export const joinAccount = (id: string) => `join account a on a.id = ${id}`

/** SQL: whether payments into an account are recorded, given its columns. */
export const TAKES_PAYMENTS = "status in ('ACTIVE', 'EXPIRED')"

/** SQL: whether a row's account takes payments, given the columns with the account's id and mode. */
export const isAccountOpen = (id: string, live: string) =>
  `exists (select from account where account.id = ${id} and account.live = ${live}
    and account.${TAKES_PAYMENTS})`

/**
 * SQL: whether a row's account number takes payments in live mode at a bank, given both columns and the array
 * of the connectors whose accounts count.
 */
export const isNumberOpen = (accountNumber: string, bank: string, connectors: string) =>
  `exists (select from account where account.account_number = ${accountNumber}
    and account.bank = ${bank} and account.live and account.${TAKES_PAYMENTS}
    and account.connector = any (${connectors}))`

/**
 * SQL: an expression over a transaction, which is evaluated for one-time accounts `a` only: permanent accounts pay
 * nothing for it.
 */
export const ifOneTime = (expression: string) => `case when a.one_time then (${expression}) end`
