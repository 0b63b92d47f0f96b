import { beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { runHere } from './run-inflow.ts'

const service = useSharedService()
let businessId: string

beforeAll(async () => {
  businessId = (await service.business()).id
})

const env = () => ({ INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN })
const run = (...args: string[]) => runHere(args, env())
const ofBusiness = () => ['--business', businessId]

const open = (reference: string, phone = CUSTOMER.phone) =>
  service
    .client(AccountService)
    .createAccount({ businessId, reference, bank: Bank.BANK_9PSB, ...CUSTOMER, phone })

/** Opens an account that stays pending. */
const openPending = (reference: string) =>
  open(reference, MAGIC_PHONES.refuses).catch(() => undefined)

/** Records an unmatched payment. @returns its id, as listed */
async function recordUnmatched(sessionId: string): Promise<string> {
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: '0000000000',
    sessionId,
    amountMinor: 150_050n,
  })
  const { stdout } = await run('unmatched', 'list', '--bank', '9psb')
  const row = stdout.split('\n').find((line) => line.includes(sessionId)) ?? ''
  expect(row).toMatch(/^unm_\w+ .* 9PSB +0000000000 +1500\.50 +SUCCESS /)
  return row.split(' ', 1)[0] as string
}

describe('a pending account', () => {
  test('is listed with its cause and next step', async () => {
    await openPending('listed')
    const { stdout } = await run('account', 'list', ...ofBusiness(), '--status', 'PENDING')
    expect(stdout).toMatch(/OPENING STATE +CAUSE/)
    expect(stdout).toMatch(/ listed .* PENDING .* RETRYABLE +temporary failure$/m)
  })

  test('is resolved with the number from the bank, or as not opened', async () => {
    await openPending('opened')
    const number = '4123456789'
    const resolve = ['account', 'resolve', 'opened', '--yes', ...ofBusiness()]
    const done = await run(...resolve, '--account-number', number, '--account-name', 'ADA OBI')
    expect(done.code).toBe(0)
    expect(done.stdout).toMatch(/^Number +4123456789$/m)
    expect(done.stdout).toMatch(/^Name +ADA OBI$/m)
    const again = await run(...resolve, '--account-number', number)
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('not pending') })
    await openPending('not-opened')
    const freed = await run(
      'account',
      'resolve',
      'not-opened',
      '--yes',
      ...ofBusiness(),
      '--not-opened',
    )
    expect(freed).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('Nothing') })
    expect((await run('account', 'get', 'not-opened', ...ofBusiness())).code).toBe(1)
  })

  test('takes exactly one resolution', async () => {
    for (const both of [[], ['--not-opened', '--account-number', '4123456789']]) {
      const outcome = await run('account', 'resolve', 'x', ...ofBusiness(), ...both)
      expect(outcome).toMatchObject({ code: 2, stderr: expect.stringContaining('either') })
    }
  })
})

test('closes an account; a repeat changes nothing', async () => {
  await open('to-close')
  for (let i = 0; i < 2; i++) {
    const { code, stdout } = await run('account', 'close', 'to-close', '--yes', ...ofBusiness())
    expect([code, /^Status +CLOSED$/m.test(stdout)]).toEqual([0, true])
  }
})

test('lists, assigns and returns unmatched payments', async () => {
  await open('payee')
  const id = await recordUnmatched('CLI-1')
  const assign = ['unmatched', 'assign', id, '--yes', '--reference', 'payee', ...ofBusiness()]
  const assigned = await run(...assign, '--note', 'mistyped')
  expect(assigned.code).toBe(0)
  expect(assigned.stdout).toMatch(/^Session +CLI-1$/m)
  expect(await run(...assign)).toEqual(assigned)
  const other = await recordUnmatched('CLI-2')
  const returned = await run('unmatched', 'return', other, '--note', 'sent back', '--yes')
  expect(returned.stdout).toMatch(/^Resolution +RETURNED$/m)
  expect((await run('unmatched', 'list')).stdout).not.toContain('CLI-')
  const late = await run('unmatched', 'return', id, '--note', 'sent back', '--yes')
  expect(late).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('recorded for an account'),
  })
})
