import pino from 'pino'
import { beforeAll, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { RecorderKind, TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import { until } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { notify, type Payee, payee, payment } from './scene.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)

interface Token {
  readonly id: string
  readonly secret: string
}

let token: Token
let operator: Token

beforeAll(async () => {
  token = await issue({ name: 'collector', scopes: ['payments:write'] })
  operator = await issue({ name: 'operator', scopes: ['admin'] })
})

async function issue(request: {
  name: string
  scopes: string[]
  businessIds?: string[]
}): Promise<Token> {
  const issued = await service.client(AdminService).issueToken(request)
  return { id: issued.token!.id, secret: issued.secret }
}

/** Who recorded a payment, as GetTransaction and ListTransactions show it. */
async function recorderOf({ businessId }: Payee, sessionId: string, secret?: string) {
  const client = service.client(TransactionService, secret)
  const { transaction } = await client.getTransaction({ businessId, sessionId })
  const { transactions } = await client.listTransactions({ businessId })
  const listed = transactions.find((each) => each.sessionId === sessionId)
  const { kind, id } = transaction!.recorder!
  expect(listed!.recorder).toMatchObject({ kind, id })
  return [kind, id]
}

const reportTo = ({ accountNumber }: Payee, sessionId: string, bankCode = Bank.BANK_9PSB) => ({
  bank: bankCode,
  accountNumber,
  sessionId,
  amountMinor: 150_050n,
})

test('a payment that a token records shows the token, alone and in a batch', async () => {
  const to = await payee(service)
  const client = service.client(TransactionService, token.secret)
  await client.recordPayment(reportTo(to, 'by-token'))
  await client.recordPayments({ payments: [reportTo(to, 'by-token-in-batch')] })
  await service.client(TransactionService).recordPayment(reportTo(to, 'by-bootstrap'))
  const { TOKEN } = RecorderKind
  expect(await recorderOf(to, 'by-token')).toEqual([TOKEN, token.id])
  expect(await recorderOf(to, 'by-token-in-batch')).toEqual([TOKEN, token.id])
  expect(await recorderOf(to, 'by-bootstrap')).toEqual([TOKEN, 'bootstrap'])
  // A repeat by another caller changes nothing.
  await service.client(TransactionService).recordPayment(reportTo(to, 'by-token'))
  expect(await recorderOf(to, 'by-token')).toEqual([TOKEN, token.id])
})

test('a pending payment shows who recorded its final status', async () => {
  const to = await payee(service)
  const report = reportTo(to, 'by-two')
  const pending = { ...report, status: TransactionStatus.PENDING }
  await service.client(TransactionService).recordPayment(pending)
  await service.client(TransactionService, token.secret).recordPayment(report)
  expect(await recorderOf(to, 'by-two')).toEqual([RecorderKind.TOKEN, token.id])
})

test('a payment that the bank reports shows its notification', async () => {
  const to = await payee(service)
  const paid = payment(to.accountNumber)
  bank.payments.set(paid.key, paid)
  expect((await notify(service, paid)).text).toBe('RECORDED')
  expect(await recorderOf(to, paid.session)).toEqual([RecorderKind.NOTIFICATION, ''])
})

test('a payment of a statement shows the operator, at a live bank and at a sandbox bank', async () => {
  const client = service.client(ReconciliationService, operator.secret)
  for (const code of [Bank.BANK_9PSB, Bank.BANK_SAFEHAVEN]) {
    const to = await payee(service, code)
    const { key: sessionId, ...paid } = payment(to.accountNumber)
    bank.payments.set(sessionId, { ...paid, key: sessionId, session: sessionId })
    const { bank: _, ...row } = reportTo(to, sessionId)
    await client.reconcile({ bank: code, rows: [row], apply: true })
    expect(await recorderOf(to, sessionId)).toEqual([RecorderKind.STATEMENT, operator.id])
  }
})

test('a simulated transfer shows the token that simulated it', async () => {
  const to = await payee(service, Bank.BANK_PROVIDUS)
  const { accountNumber } = to
  const client = service.client(SandboxService, token.secret)
  await client.simulateTransfer({ accountNumber, sessionId: 'by-sandbox', amountMinor: 1n })
  expect(await recorderOf(to, 'by-sandbox')).toEqual([RecorderKind.SANDBOX, token.id])
})

test('an assigned payment shows the operator who assigned it', async () => {
  const to = await payee(service)
  const paid = payment('3999999997')
  bank.payments.set(paid.key, paid)
  expect((await notify(service, paid)).text).toBe('UNMATCHED')
  const client = service.client(ReconciliationService, operator.secret)
  const { payments } = await client.listUnmatchedPayments({})
  const { businessId, reference } = to
  await client.assignUnmatchedPayment({
    unmatchedPaymentId: payments[0]!.id,
    businessId,
    reference,
    note: 'asked the bank',
  })
  expect(await recorderOf(to, paid.session)).toEqual([RecorderKind.ASSIGNMENT, operator.id])
})

test('neither restricted tokens, nor businesses, nor events show which token it was', async () => {
  const { id: businessId, key } = await service.business()
  const to = { ...(await payee(service)), businessId }
  await service.database.durablePool.query(
    'update account set business_id = $1 where account_number = $2',
    [businessId, to.accountNumber],
  )
  await service.client(TransactionService, token.secret).recordPayment(reportTo(to, 'hidden'))
  const restricted = await issue({ name: 'portal', scopes: ['read'], businessIds: [businessId] })
  expect(await recorderOf(to, 'hidden', restricted.secret)).toEqual([RecorderKind.TOKEN, ''])
  const shown = await service.post('getTransaction/', key, { session_id: 'hidden' })
  expect(shown.status).toBe(200)
  expect(Object.keys(shown.body.data)).toHaveLength(13)
  expect(shown.text).not.toContain(token.id)
  const { events } = await until(
    () => service.client(EventService).listEvents({ businessId }),
    (found) => found.events.length > 0,
  )
  expect(events.map(({ payload }) => payload.value)).toMatchObject([{ sessionId: 'hidden' }])
  expect(events[0]!.payload.value).not.toHaveProperty('recorder')
})

test('the log of a service at debug says who recorded each payment', async () => {
  const to = await payee(service)
  const lines: string[] = []
  const { durablePool } = service.database
  const record = createRecordPayment(
    createTestRuntime(service.database, {
      log: pino({ level: 'debug' }, { write: (line: string) => lines.push(line) }),
    }),
    {
      isSimulated: () => true,
      findOpenAccounts: createFindOpenAccounts(durablePool, () => true),
      onUnmatched: () => undefined,
      onConflict: () => undefined,
    },
  )
  await record({
    ...{ bank: '9PSB', accountNumber: to.accountNumber, sessionId: 'logged', amountMinor: 1n },
    ...{ status: 'SUCCESS', paidAtMs: Date.now(), narration: '', live: true },
    payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
    recordedBy: 'token:tok_1',
  })
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { sessionId: 'logged', recordedBy: 'token:tok_1', outcome: 'RECORDED' },
  ])
})
