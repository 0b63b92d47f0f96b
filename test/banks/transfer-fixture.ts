import type { TransferOrder } from '../../src/banks/transfer.ts'

let orders = 0

/** An order with a reference of its own. */
export function transferOrder(overrides: Partial<TransferOrder> = {}): TransferOrder {
  orders += 1
  return {
    reference: `PY${String(orders).padStart(24, '0')}`,
    amountMinor: 150_050n,
    beneficiary: { bankCode: '000013', accountNumber: '0123456789', accountName: 'OBI ADA' },
    narration: 'Payout of Acme',
    enquiryReference: '',
    ...overrides,
  }
}
