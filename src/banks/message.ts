import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { assert } from '../core/errors.ts'
import type { BankCode } from './bank.ts'

const BY_CODE: Readonly<Record<BankCode, Bank>> = {
  '9PSB': Bank.BANK_9PSB,
  SAFEHAVEN: Bank.BANK_SAFEHAVEN,
  PROVIDUS: Bank.BANK_PROVIDUS,
  PALMPAY: Bank.BANK_PALMPAY,
}

const BY_BANK = new Map(
  Object.entries(BY_CODE).map(([code, bank]) => [bank, code as BankCode] as const),
)

/** @param bank never unspecified: requests are validated, and events always carry a bank */
export function toBankCode(bank: Bank): BankCode {
  const code = BY_BANK.get(bank)
  assert(code, `bank ${bank} has a code`)
  return code
}

export function fromBankCode(code: BankCode): Bank {
  return BY_CODE[code]
}
