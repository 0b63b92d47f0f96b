import {
  type Account,
  AccountStatus,
  OpeningState,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import { FeeBearer } from '../../../gen/inflow/account/v1/split_pb.ts'
import { AmountRule } from '../../../gen/inflow/account/v1/terms_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { localTime } from '../local-time.ts'
import { enumName, modeName } from '../options.ts'
import { type Column, fields, pairsText, table } from '../output.ts'

const COLUMNS: readonly Column<Account>[] = [
  { title: 'Reference', of: ({ reference }) => reference },
  { title: 'Own reference', of: ({ merchantReference }) => merchantReference },
  { title: 'Mode', of: modeName },
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Number', of: ({ accountNumber }) => accountNumber },
  { title: 'Name', of: ({ accountName }) => accountName },
  { title: 'Status', of: ({ status }) => enumName(status, AccountStatus) },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
]

/** Columns of pending accounts. */
const OPENING: readonly Column<Account>[] = [
  { title: 'Opening state', of: ({ opening }) => enumName(opening?.state ?? 0, OpeningState) },
  { title: 'Cause', of: ({ opening }) => opening?.cause ?? '' },
]

/** A column of imported accounts. */
const IMPORTED: Column<Account> = {
  title: 'Imported',
  of: ({ importedAt, bankConfirmed }) => {
    if (importedAt === undefined) return ''
    const confirmed = bankConfirmed ? 'confirmed' : 'not yet confirmed'
    return `${localTime.format(importedAt)}, ${confirmed} by the bank`
  },
}

const DETAILS: readonly Column<Account>[] = [
  ...COLUMNS,
  ...OPENING,
  IMPORTED,
  { title: 'Attempts', of: ({ opening }) => (opening ? String(opening.attempts) : '') },
  { title: 'Next try at', of: ({ opening }) => localTime.format(opening?.nextTryAt) },
  { title: 'Bank name', of: ({ bankName }) => bankName },
  { title: 'Customer', of: ({ customer: c }) => (c ? `${c.firstName} ${c.lastName}` : '') },
  { title: 'E-mail', of: ({ customer }) => customer?.email ?? '' },
  { title: 'Phone', of: ({ customer }) => customer?.phone ?? '' },
  { title: 'Expected', of: expectedText },
  { title: 'Expires at', of: ({ terms }) => localTime.format(terms?.expiresAt) },
  { title: 'Single use', of: ({ terms }) => (terms?.singleUse ? 'yes' : '') },
  { title: 'Used at', of: ({ terms }) => localTime.format(terms?.usedAt) },
  { title: 'Ended at', of: ({ terms }) => localTime.format(terms?.endedAt) },
  { title: 'Metadata', of: ({ metadata }) => pairsText(metadata) },
  { title: 'Split', of: splitText },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Id', of: ({ id }) => id },
]

/** "EXACT 5000.00"; empty for a permanent account, and if no amount is expected. */
function expectedText({ terms }: Account): string {
  if (terms === undefined || terms.amountMinor === 0n) return ''
  return `${enumName(terms.amountRule, AmountRule)} ${formatAmount(terms.amountMinor)}`
}

/** "biz_1 12.50 %, biz_2 500.00; fee: OWNER"; empty if the owner keeps everything. */
function splitText({ split }: Account): string {
  if (split === undefined) return ''
  const shares = split.recipients.map(({ businessId, basisPoints, amountMinor }) => {
    const part =
      basisPoints > 0 ? `${formatAmount(BigInt(basisPoints))} %` : formatAmount(amountMinor)
    return `${businessId} ${part}`
  })
  return `${shares.join(', ')}; fee: ${enumName(split.feeBearer, FeeBearer)}`
}

/** A table of accounts; it shows the opening state if some are pending, and what is known of imported ones. */
export function accountTable(found: readonly Account[]): string {
  return table(found, [
    ...COLUMNS,
    ...(found.some(({ opening }) => opening) ? OPENING : []),
    ...(found.some(({ importedAt }) => importedAt) ? [IMPORTED] : []),
  ])
}

/** One account, with a line for each field. */
export function accountFields(found: Account | undefined): string {
  return found ? fields(found, DETAILS) : ''
}
