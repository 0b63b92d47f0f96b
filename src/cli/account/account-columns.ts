import {
  type Account,
  AccountStatus,
  OpeningStep,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { localTime } from '../local-time.ts'
import { enumName, modeName } from '../options.ts'
import { type Column, fields, table } from '../output.ts'

const ROW: readonly Column<Account>[] = [
  { title: 'Reference', of: ({ reference }) => reference },
  { title: 'Own reference', of: ({ merchantReference }) => merchantReference },
  { title: 'Mode', of: modeName },
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Number', of: ({ accountNumber }) => accountNumber },
  { title: 'Name', of: ({ accountName }) => accountName },
  { title: 'Status', of: ({ status }) => enumName(status, AccountStatus) },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
]

/** Of accounts that are not open yet. */
const OPENING: readonly Column<Account>[] = [
  { title: 'Next step', of: ({ opening }) => enumName(opening?.nextStep ?? 0, OpeningStep) },
  { title: 'Cause', of: ({ opening }) => opening?.cause ?? '' },
]

const WHOLE: readonly Column<Account>[] = [
  ...ROW,
  ...OPENING,
  { title: 'AttemptRunner', of: ({ opening }) => (opening ? String(opening.attempts) : '') },
  { title: 'Next try at', of: ({ opening }) => localTime.format(opening?.nextTryAt) },
  { title: 'Bank name', of: ({ bankName }) => bankName },
  { title: 'Customer', of: ({ customer: c }) => (c ? `${c.firstName} ${c.lastName}` : '') },
  { title: 'E-mail', of: ({ customer }) => customer?.email ?? '' },
  { title: 'Phone', of: ({ customer }) => customer?.phone ?? '' },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Id', of: ({ id }) => id },
]

/** Accounts, a line for each; where some are not open yet, with what happens next. */
export function rows(found: readonly Account[]): string {
  return table(found, found.some(({ opening }) => opening) ? [...ROW, ...OPENING] : ROW)
}

/** One account, a line for each of its fields. */
export function whole(found: Account | undefined): string {
  return found ? fields(found, WHOLE) : ''
}
