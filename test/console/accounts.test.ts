import { beforeAll, describe, expect, it } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'
import { expectAccessible, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the pages of accounts', () => {
  const service = useService()
  const open = useBrowser(service)
  let business: { id: string }
  let other: { id: string }
  beforeAll(async () => {
    business = await service.business('Ada Stores')
    other = await service.business('Bello Logistics')
    await account(other.id, 'other-1')
  })

  async function account(businessId: string, reference: string, phone = '08012345678') {
    const created = await service.client(AccountService).createAccount({
      businessId,
      reference,
      bank: Bank.BANK_9PSB,
      firstName: 'Ada',
      lastName: 'Obi',
      email: 'ada@example.com',
      phone,
    })
    return created.account!
  }

  it('opens a one-time account with the fields that its bank wants, and shows its terms', async () => {
    const { page, problems, close } = await open(`/accounts?business=${business.id}`)
    await page.getByText('No accounts').waitFor()
    await page.getByRole('button', { name: 'Open account' }).click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByLabel('Identity number').count()).toBe(0)
    await dialog.getByLabel('Bank').selectOption('PALMPAY')
    await dialog.getByLabel('Identity number').fill('22222222222')
    await dialog.getByLabel("The business's own reference").fill('invoice-7')
    await dialog.getByLabel('First name').fill('Ọlá')
    await dialog.getByLabel('Last name').fill('Obi')
    await dialog.getByLabel('E-mail').fill('ada@example.com')
    await dialog.getByLabel('Phone').fill('12345')
    await dialog.getByText('One-time terms, and metadata').click()
    await dialog.getByLabel('Expected amount, in naira').fill('1,000,000.01')
    await dialog.getByLabel('For a single payment').check()
    await dialog.getByRole('button', { name: 'Open account' }).click()
    await dialog.locator('.field', { hasText: 'Phone' }).locator('.fault').waitFor()
    await dialog.getByLabel('Phone').fill('08012345678')
    await dialog.getByRole('button', { name: 'Open account' }).click()
    await dialog.getByText(/^Opened/).waitFor()
    await dialog.getByRole('link', { name: 'Look at it' }).click()
    await page.getByText('Exactly ₦1,000,000.01').waitFor()
    await page.getByText('A single payment').waitFor()
    // The browser reports the refused phone number.
    expect(problems.filter((problem) => !problem.includes('status of 400'))).toEqual([])
    await close()
  })

  it('shows payments as they arrive, sets a split, and closes the account', async () => {
    const { accountNumber, reference } = await account(business.id, 'order-1')
    const { page, problems, close } = await open(`/accounts/${business.id}/${reference}`)
    await page.getByText('No payments yet').waitFor()
    await page.getByText('live', { exact: true }).waitFor()
    await service
      .client(SandboxService)
      .simulateTransfer({ accountNumber, amountMinor: 900_719_925_474_099n })
    await page.getByRole('row', { name: /₦9,007,199,254,740\.99.*Success/ }).waitFor()
    await page.getByRole('button', { name: 'Set split' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Business 1').fill(other.id)
    await dialog.getByLabel('Share').fill('12.5%')
    await dialog.getByRole('button', { name: 'Set split' }).click()
    await dialog.getByText('Done.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByText('12.5% to Bello Logistics').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await dialog.getByText('Done.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.locator('.state-line').getByText('Closed').waitFor()
    expect(problems).toEqual([])
    await close()
  })

  it('resolves a pending opening with what the bank says, and finds accounts by any of their names', async () => {
    // The simulated bank does not respond to it.
    await expect(account(business.id, 'pending-1', '08000000001')).rejects.toThrow()
    const found = await account(business.id, 'order-2')
    const { page, problems, close } = await open('/accounts')
    const openings = page.getByRole('table', { name: 'Pending openings' })
    await openings.getByRole('row', { name: /pending-1.*no response/ }).waitFor()
    await openings.getByRole('button', { name: 'Resolve' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Resolve' }).click()
    await dialog.getByText('The reference may be used again.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => openings.count()).toBe(0)
    await page.getByRole('button', { name: 'Reference, number or e-mail' }).click()
    await page
      .getByRole('textbox', { name: 'Reference, number or e-mail' })
      .fill(found.accountNumber)
    await page.getByRole('button', { name: 'Apply' }).click()
    await page.getByRole('row', { name: /order-2/ }).waitFor()
    expect(await page.getByRole('row').count()).toBe(2)
    expect(problems).toEqual([])
    await close()
  })

  it('shows a business its own accounts and no button that it may not press', async () => {
    const { secret } = await service.client(AdminService).issueToken({
      name: 'portal',
      scopes: ['read'],
      businessIds: [business.id],
    })
    const { page, close } = await open('/accounts', { token: secret })
    await page.getByRole('row', { name: /order-2/ }).waitFor()
    expect(await page.getByText('other-1').count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Open account' }).count()).toBe(0)
    await page.goto(`${service.httpUrl}/console/accounts/${other.id}/other-1`)
    await page.getByRole('alert').waitFor()
    await close()
  })

  it('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    const { page, close } = await open('/accounts')
    await page.getByRole('row', { name: /order-1/ }).waitFor()
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Open account' }).click()
    await page.getByRole('dialog').waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await page.getByRole('row', { name: /order-1/ }).click()
    await page.getByRole('row', { name: /Success/ }).waitFor()
    await expectAccessible(page)
    await close()
  })
})
