import { beforeAll, expect, test } from 'vitest'
import { COMMANDS } from '../../src/cli/overview.ts'
import { ACTIONS } from '../../src/overview/message.ts'
import { openShop, pay, type Shop } from '../overview/scene.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { callerEnv, runHere } from './run-inflow.ts'

const service = useSharedService()

const inflow = (...args: string[]) => runHere(args, callerEnv(service))

let shop: Shop
const ofShop = () => ['--business', shop.businessId]
let id: string
let sessionId: string

beforeAll(async () => {
  shop = await openShop(service, { terms: { amountMinor: 500n } })
  const paid = await pay(service, shop, 400n)
  // The first is on hold, and counts once it is accepted.
  await pay(service, shop, 500n)
  id = paid.id
  sessionId = paid.sessionId
})

test('searches by any identifier', async () => {
  const { code, stdout, stderr } = await inflow('search', sessionId)
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(new RegExp(`TRANSACTION +${id} +${sessionId} .* 4.00 +SUCCESS`))
  expect((await inflow('search', shop.reference, '--json')).stdout).toContain(shop.accountNumber)
  expect(await inflow('search', 'nothing', '--test')).toMatchObject({
    code: 0,
    stderr: 'None found.\n',
  })
})

test('lists what waits for a decision, with the counts of each kind', async () => {
  const kind = ['--kind', 'HELD_PAYMENT']
  const { code, stdout, stderr } = await inflow('review', 'list', ...ofShop(), ...kind)
  expect(code).toBe(0)
  expect(stdout).toMatch(
    new RegExp(
      `HELD_PAYMENT .*${id} +4.00 +5.00 +${shop.businessId} +\\w+ .*transaction accept, transaction return`,
    ),
  )
  expect(stderr).toBe('Waiting: 1 HELD_PAYMENT\n')
})

test('names a command for every action of an item', async () => {
  const methods = Object.values(ACTIONS).map(({ name }) => name)
  expect(Object.keys(COMMANDS).sort()).toEqual(methods.sort())
  for (const command of Object.values(COMMANDS)) {
    const { code, stdout } = await inflow(...command.split(' '), '--help')
    expect([command, code]).toEqual([command, 0])
    expect(stdout).toContain(`Usage: inflow ${command} `)
  }
})

test('states the figures, the banks and the health', async () => {
  await waitFor(async () => {
    const { code, stdout } = await inflow('overview', ...ofShop())
    expect(code).toBe(0)
    expect(stdout).toMatch(/Payments in 24 h +1 \(a week before: 0\)/)
    expect(stdout).toMatch(/Amount +5.00 \(a week before: 0.00\)/)
    expect(stdout).toMatch(/Waiting for review +1 HELD_PAYMENT/)
    expect(stdout).toMatch(/9PSB +sandbox +closed/)
  })
  const { stdout } = await inflow('overview', ...ofShop(), '--json')
  expect(JSON.parse(stdout).total.payments).toBe('1')
})
