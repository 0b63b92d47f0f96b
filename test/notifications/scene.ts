import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { FakePayment } from '../support/fake-bank.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import type { TestService } from '../support/service.ts'

/** Sends a notification as a bank does. */
export async function notify(
  at: { readonly httpUrl: string },
  payment: FakePayment | string,
  { path = '9psb/notifications', signature = 'genuine' } = {},
) {
  const body = typeof payment === 'string' ? payment : JSON.stringify(payment)
  const response = await fetch(`${at.httpUrl}/banks/${path}`, {
    method: 'POST',
    headers: { 'x-signature': signature },
    body,
  })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

export interface Payee {
  readonly businessId: string
  readonly reference: string
  readonly accountNumber: string
}

let count = 0

/** Opens an account at a bank for a new business. */
export async function payee(service: TestService, bank: Bank = Bank.BANK_9PSB): Promise<Payee> {
  const { id: businessId } = await service.business()
  count += 1
  const { account } = await service.client(AccountService).createAccount({
    businessId,
    reference: `order-${count}`,
    bank,
    idType: 1,
    idNumber: '12345678901',
    ...CUSTOMER,
  })
  const { reference, accountNumber } = account!
  return { businessId, reference, accountNumber }
}

/** A payment at the fake bank, which does not know it yet. */
export function payment(account: string, overrides: Partial<FakePayment> = {}): FakePayment {
  count += 1
  const key = `key-${count}`
  return { key, session: `session-${count}`, account, kobo: '150050', state: 'paid', ...overrides }
}

/** The payments recorded for an account. */
export async function recordedIn(service: TestService, { accountNumber }: Payee) {
  const { rows } = await service.database.durablePool.query(
    `select t.session_id, t.amount_minor, t.payer_name, t.narration from transaction t
      join account a on a.id = t.account_id where a.account_number = $1 order by t.id`,
    [accountNumber],
  )
  return rows.map((row) => ({
    session: row.session_id,
    kobo: row.amount_minor,
    payer: row.payer_name,
    narration: row.narration,
  }))
}
