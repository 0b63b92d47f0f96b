import { expect, test } from 'vitest'
import { AccountStatus, OpeningState } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { useService } from '../support/service.ts'

const service = useService()
const accounts = () => service.client(AccountService)

test('an operator finds the openings of all businesses by what happens next, and by bank', async () => {
  const references: string[] = []
  for (const [index, bank] of [Bank.BANK_9PSB, Bank.BANK_SAFEHAVEN, Bank.BANK_9PSB].entries()) {
    const { id: businessId } = await service.business()
    const reference = `order-${index}`
    references.push(reference)
    await accounts().createAccount({ ...CUSTOMER, businessId, reference, bank })
    const phone = MAGIC_PHONES.timesOut
    const pending = { ...CUSTOMER, phone, businessId, reference: `${reference}-pending`, bank }
    await accounts()
      .createAccount(pending)
      .catch(() => undefined)
  }
  await service.database.pool.query(
    `update account set opening_state = 'MANUAL_REVIEW', last_cause = 'the bank said 96'
      where merchant_reference = 'order-0-pending'`,
  )
  const list = async (request: Parameters<ReturnType<typeof accounts>['listAccounts']>[0]) => {
    const found: string[] = []
    let pageToken = ''
    do {
      const page = await accounts().listAccounts({ pageSize: 1, ...request, pageToken })
      found.push(...page.accounts.map(({ merchantReference }) => merchantReference))
      pageToken = page.nextPageToken
    } while (pageToken !== '')
    return found
  }
  expect(await list({ bank: Bank.BANK_9PSB, status: AccountStatus.ACTIVE })).toEqual([
    'order-2',
    'order-0',
  ])
  expect(await list({ bank: Bank.BANK_PALMPAY })).toEqual([])
  const { MANUAL_REVIEW } = OpeningState
  expect(await list({ openingStates: [MANUAL_REVIEW] })).toEqual(['order-0-pending'])
  expect(await list({ openingStates: [MANUAL_REVIEW], live: false })).toEqual([])
  const { accounts: found } = await accounts().listAccounts({ openingStates: [MANUAL_REVIEW] })
  expect(found[0]!.opening).toMatchObject({ state: MANUAL_REVIEW, cause: 'the bank said 96' })
  expect((await list({ status: AccountStatus.PENDING })).length).toBe(3)
  const others = [OpeningState.RETRYABLE, OpeningState.RETRYING, OpeningState.REQUERYING]
  expect(await list({ openingStates: [...others, OpeningState.CREATING] })).toEqual([
    'order-2-pending',
    'order-1-pending',
  ])
  await expect(
    accounts().listAccounts({ openingStates: [MANUAL_REVIEW], status: AccountStatus.ACTIVE }),
  ).rejects.toThrow(/Invalid request/)
})
