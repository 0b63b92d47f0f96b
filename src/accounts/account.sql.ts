/** SQL: joins the account `a` of a row, given the column with the account's id. */
export const joinAccount = (id: string) => `join account a on a.id = ${id}`

/** SQL: whether a row's account is open, given the columns with the account's id and mode. */
export const isAccountOpen = (id: string, live: string) =>
  `exists (select from account where account.id = ${id} and account.live = ${live}
    and account.status = 'ACTIVE')`

/**
 * SQL: whether a row's account number is open in live mode at a bank, given both columns and the array
 * of the connectors whose accounts count.
 */
export const isNumberOpen = (accountNumber: string, bank: string, connectors: string) =>
  `exists (select from account where account.account_number = ${accountNumber}
    and account.bank = ${bank} and account.live and account.status = 'ACTIVE'
    and account.connector = any (${connectors}))`
