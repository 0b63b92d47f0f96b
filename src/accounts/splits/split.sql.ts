/** SQL: whether an account ever had a split, given its id: a cheap look-up before the shares are computed. */
export const hasSplit = (accountId: string) =>
  `exists (select from account_split where account_split.account_id = ${accountId})`

/**
 * SQL: the shares of the recipients in a payment, in kobo: number, business_id and share_minor.
 *
 * @param accountId an SQL expression, like the time of its recording, its amount and its fee
 */
export function splitShares(
  accountId: string,
  recordedAt: string,
  amountMinor: string,
  feeMinor: string,
): string {
  return `split_shares(${accountId}, ${recordedAt}, ${amountMinor}, ${feeMinor})`
}
