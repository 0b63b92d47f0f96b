import { moneyEvents } from '../../events/balance-changes.sql.ts'
import {
  CREDITS_PAYMENT,
  IS_UNSETTLED,
  lookUpTransaction,
} from '../../transactions/transaction.sql.ts'

/**
 * A subquery for the first unsettled payment of a business and mode after a sequence number.
 *
 * @param businessId an SQL expression, like all other parameters
 */
export function firstUnsettled(
  businessId: string,
  live: string,
  after: string,
  upTo?: string,
): string {
  return moneyEvents({
    join: ({ event }) => lookUpTransaction(`${event}.subject_id`),
    where: ({ log, event }) => `${log}.business_id = ${businessId} and ${log}.live = ${live}
      and ${log}.business_sequence > ${after}
      ${upTo === undefined ? '' : `and ${log}.business_sequence <= ${upTo}`}
      and ${event}.kind ${CREDITS_PAYMENT} and ${IS_UNSETTLED}`,
    order: 'asc',
    limit: '1',
  })
}
