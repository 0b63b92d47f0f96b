import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'

interface NamedBank {
  readonly bank: Bank
  /** In URLs and in commands. */
  readonly code: string
  readonly name: string
}

/** The banks, in the order in which lists show them. */
export const BANKS: readonly NamedBank[] = [
  { bank: Bank.BANK_9PSB, code: '9psb', name: '9PSB' },
  { bank: Bank.BANK_SAFEHAVEN, code: 'safehaven', name: 'Safe Haven' },
  { bank: Bank.BANK_PROVIDUS, code: 'providus', name: 'Providus' },
  { bank: Bank.BANK_PALMPAY, code: 'palmpay', name: 'PalmPay' },
]

/** The name of a bank; a dash if there is none. */
export function bankName(bank: Bank): string {
  return BANKS.find((each) => each.bank === bank)?.name ?? '–'
}

/** @returns unspecified for a code that no bank has */
export function bankOf(code: string): Bank {
  return BANKS.find((each) => each.code === code)?.bank ?? Bank.BANK_UNSPECIFIED
}
