import type { DescMethod } from '@bufbuild/protobuf'
import { afterAll, beforeAll } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { nameOf } from '../protocols/matrix/protocols.ts'
import { CUSTOMER, type Request } from '../protocols/matrix/scene.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, MASTER_KEY, useService } from '../support/service.ts'

export const CODES = ['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'] as const

/** Whether a method takes what an account is opened with. */
export function opensAccounts({ input }: DescMethod): boolean {
  const names = input.fields.map(({ name }) => name)
  return names.includes('bank') && names.includes('phone')
}

/** The request of a method that opens an account, and the credential that may call it. */
export function creationBy(
  method: DescMethod,
  bankIndex: number,
  reference: string,
  { id, key }: { readonly id: string; readonly key: string },
): { readonly request: Request; readonly credential: string } {
  const idNumber = '22222222222'
  if (nameOf(method) === 'AccountService.CreateAccount') {
    const identity = { idType: 1, idNumber }
    const request = { businessId: id, reference, bank: bankIndex + 1, ...CUSTOMER, ...identity }
    return { request, credential: ADMIN_TOKEN }
  }
  const request = creation({ bank: CODES[bankIndex], reference, idType: 'bvn', idNumber })
  return { request, credential: key }
}

export const order = (businessId: string) => {
  return { businessId, reference: 'order-1', bank: Bank.BANK_9PSB, ...CUSTOMER }
}

export const paid = (
  accountNumber: string,
  sessionId: string,
  status: TransactionStatus = TransactionStatus.SUCCESS,
) => {
  return { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 700n, status }
}

export async function record(
  instance: Pick<Instance, 'client'>,
  payments: ReturnType<typeof paid>[],
) {
  const { results } = await instance.client(TransactionService).recordPayments({ payments })
  return results.map(({ outcome }) => outcome)
}

export async function generate(at: { readonly httpUrl: string }, key: string, body: object) {
  const request = { path: GENERATE, headers: asJson(key), body: JSON.stringify(body) }
  const { status, headers, text } = await send(at.httpUrl, request)
  return { status, replayed: headers['idempotent-replayed'] === 'true', body: JSON.parse(text) }
}

/** One database under three settings: the default ones, simulated live accounts, and live banks. */
export function useSimulatedScene() {
  const db = useDatabase()
  const service = useService(
    {
      get DATABASE_URL() {
        return db.url
      },
      MASTER_KEY: MASTER_KEY.toString('base64'),
    },
    undefined,
    db,
  )
  const bank = useFakeBank()
  let simulating: Instance
  let live: Instance
  beforeAll(async () => {
    const BANKS = CODES.map((code) => `${code}=live`).join()
    const { banks, liveBanks } = readConfig({ BANKS }, bank.connectors())
    simulating = await startInstance(db.url)
    live = await startInstance(db.url, { banks, liveBanks })
  })
  afterAll(async () => {
    await simulating?.close()
    await live?.close()
  })
  return {
    /** As it starts with a database and no further settings. */
    service,
    get simulating() {
      return simulating
    },
    get live() {
      return live
    },
    bank,
    /** A live account that the sandbox opened, for a new business. */
    async simulated() {
      const { id: businessId } = await service.business()
      const { account } = await simulating.client(AccountService).createAccount(order(businessId))
      const { reference, accountNumber } = account!
      return { businessId, reference, accountNumber }
    },
    simulate: (accountNumber: string, amountMinor: bigint, sessionId: string) =>
      simulating.client(SandboxService).simulateTransfer({ accountNumber, amountMinor, sessionId }),
    /** Makes a payment at the bank. */
    pay(made: FakePayment): FakePayment {
      bank.payments.set(made.key, made)
      return made
    },
    async statusesOf(accountNumber: string) {
      const { rows } = await db.database.durablePool.query(
        `select t.session_id, t.status from transaction t join account a on a.id = t.account_id
          where a.account_number = $1 order by t.id`,
        [accountNumber],
      )
      return rows.map((row) => [row.session_id, row.status])
    },
    async accountsOf(businessId: string) {
      const text = 'select * from account where business_id = $1'
      return (await db.database.durablePool.query(text, [businessId])).rows
    },
  }
}
