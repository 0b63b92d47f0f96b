import { expect, onTestFinished, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { BankCode } from '../../src/banks/bank.ts'
import { createReportBreakers } from '../../src/banks/breakers.ts'
import type { BreakerState } from '../../src/banks/http/circuit-breaker.ts'
import { readConfig } from '../../src/config/config.ts'
import { checkBankWork } from '../../src/doctor/check-banks.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { startInstance } from '../support/instance.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase()
const bank = useFakeBank()

/** What `inflow doctor` says of circuit breakers. */
async function reported(): Promise<readonly string[]> {
  const findings = await checkBankWork(db.database.orm, {}, Date.now())
  return findings
    .map(({ level, found }) => `${level}: ${found}`)
    .filter((line) => line.includes('breaker'))
}

test('doctor counts the open circuit breakers of every process until they close', async () => {
  const states = [new Map<BankCode, BreakerState>(), new Map<BankCode, BreakerState>()]
  const loops = states.map((state, index) =>
    createReportBreakers(createTestRuntime(db.database), {
      processId: `ins_${index}`,
      conditions: new Map([
        ['PALMPAY', () => ({ breaker: state.get('PALMPAY') ?? 'closed', denial: '' })],
      ]),
    }),
  )
  for (const loop of loops) loop.start()
  onTestFinished(async () => void (await Promise.all(loops.map((loop) => loop.stop()))))
  expect(await reported()).toEqual([])
  states[0]!.set('PALMPAY', 'open')
  states[1]!.set('PALMPAY', 'half-open')
  for (const loop of loops) loop.wake()
  await until(reported, ([line]) => line?.includes('PALMPAY is open in 2 processes') === true)
  states[0]!.set('PALMPAY', 'closed')
  loops[0]!.wake()
  await until(reported, ([line]) => line?.includes('PALMPAY is open in 1 processes') === true)
  await loops[1]!.stop()
  expect(await reported()).toEqual([])
  // A process that died reports no more.
  await db.database.durablePool.query(
    `insert into bank_breaker values ('PALMPAY', 'ins_dead', 'open', '', now(), now() - interval '1 minute')`,
  )
  expect(await reported()).toEqual([])
})

test('a bank that fails opens the breaker, and doctor says so', async () => {
  const { banks, liveBanks } = readConfig({ BANKS: 'PROVIDUS=live' }, bank.connectors())
  const instance = await startInstance(db.url, { banks, liveBanks })
  onTestFinished(() => instance.close())
  const { business } = await instance
    .client(BusinessService)
    .createBusiness({ name: 'Acme', alias: 'Acme' })
  bank.mishaps.set('POST accounts', [500, 500, 500, 500, 500])
  for (let order = 1; order <= 5; order += 1) {
    const request = {
      businessId: business!.id,
      reference: `order-${order}`,
      bank: Bank.BANK_PROVIDUS,
    }
    await expect(
      instance.client(AccountService).createAccount({ ...request, ...CUSTOMER }),
    ).rejects.toThrow()
  }
  const [line] = await until(reported, (lines) => lines.length > 0)
  expect(line).toMatch(
    /^warn: the circuit breaker of PROVIDUS is open in 1 processes, the first since \d{4}-/,
  )
})
