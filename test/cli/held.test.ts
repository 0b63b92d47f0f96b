import { expect, test } from 'vitest'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { newBusiness } from '../transactions/variance/fixture.ts'
import { runHere } from './run-inflow.ts'

const service = useSharedService()

async function inflow(...args: string[]) {
  const env = { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN }
  const { code, stdout, stderr } = await runHere(args, env)
  expect(stderr.replace('None found.\n', '')).toBe('')
  expect(code).toBe(0)
  return stdout
}

test('operators list held payments, accept them, and complete returns', async () => {
  const shop = await newBusiness(service)
  const { businessId } = shop
  const number = JSON.parse(
    await inflow(
      ...[
        'account',
        'create',
        '--business',
        businessId,
        '--reference',
        'invoice-7',
        '--bank',
        '9PSB',
      ],
      ...['--first-name', 'Ada', '--last-name', 'Obi', '--email', 'ada@example.com'],
      ...['--phone', '08012345678', '--amount', '100', '--expires-in', '30m', '--single-use'],
      ...['--metadata', 'invoice=7', 'branch=Ikeja', '--json'],
    ),
  ).account.accountNumber as string
  const pay = async (naira: string) => {
    const transfer = ['transfer', 'simulate', '--account', number, '--amount', naira, '--json']
    return JSON.parse(await inflow(...transfer)).transaction.id as string
  }
  const [short, long] = [await pay('90'), await pay('110')]
  const list = await inflow('transaction', 'held', '--business', businessId)
  expect(list).toMatch(new RegExp(`${long}.*110.00 +100.00 +OVERPAID +HELD`))
  expect(list).toMatch(new RegExp(`${short}.*90.00 +100.00 +UNDERPAID +HELD`))
  expect(await inflow('transaction', 'accept', short, '--yes')).toMatch(/Hold +ACCEPTED/)
  expect(await inflow('transaction', 'return', long, '--reason', 'too much', '--yes')).toMatch(
    /Return reason +too much/,
  )
  const returns = await inflow('transaction', 'held', '--returns')
  expect(returns).toContain(long)
  expect(returns).not.toContain(short)
  expect(await inflow('transaction', 'complete-return', long, '--note', 'by NIP', '--yes')).toMatch(
    /Hold +RETURNED/,
  )
  expect(await inflow('transaction', 'held', '--business', businessId)).toBe('')
  const account = await inflow('account', 'get', 'invoice-7', '--business', businessId)
  expect(account).toMatch(/Expected +EXACT 100.00/)
  expect(account).toMatch(/Metadata +branch=Ikeja, invoice=7/)
  expect(await shop.balance()).toMatchObject({ pendingMinor: 9_000n })
})
