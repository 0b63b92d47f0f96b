import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { assert } from '../core/errors.ts'
import { BANK_CODES, type BankCode } from './bank.ts'

const BY_BANK = new Map(BANK_CODES.map((code) => [fromBankCode(code), code] as const))

/** @param bank never unspecified: requests are validated, and events always carry a bank */
export function toBankCode(bank: Bank): BankCode {
  const code = BY_BANK.get(bank)
  assert(code, `bank ${bank} has a code`)
  return code
}

/** The bank that a filter names; undefined for UNSPECIFIED, which means any. */
export function toBankFilter(bank: Bank): BankCode | undefined {
  return bank === Bank.BANK_UNSPECIFIED ? undefined : toBankCode(bank)
}

export function fromBankCode(code: BankCode): Bank {
  return Bank[`BANK_${code}`]
}
