import type { Locator } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { openAccount, pay, settleAll } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectAccessible, loaded, openPortal, useBrowser } from './browser.ts'

const HEAD =
  'reference,amount,beneficiary_bank_code,beneficiary_account_number,beneficiary_account_name'

const ADA = nuban('058', 145_700_001)
const OBI = nuban('058', 145_700_011)

describe.skipIf(!hasBrowser)('batches of payouts in the console', () => {
  const service = useService()
  const open = useBrowser(service)
  const payouts = () => service.client(PayoutService)
  let businessId: string
  let name: string

  beforeAll(async () => {
    businessId = (await service.business('Ade Stores')).id
    await pay(service, await openAccount(service, businessId), 5_000_000n)
    await settleAll(service, businessId, 1n)
    const account = { bankCode: '058', accountNumber: ADA }
    const resolved = await payouts().resolveAccountName({ businessId, ...account })
    name = resolved.beneficiary!.accountName
    await payouts().updatePayoutPolicy({ policy: { businessId, approvalAboveMinor: 100_000n } })
    await payouts().updatePayoutPolicy({ policy: { payoutMaxMinor: 77_123_400n } })
  })

  /** Opens the portal of the business by a link of its own: each link is another requester. */
  const openAs = (...scopes: string[]) =>
    openPortal(open, service, { businessId, scopes: ['read', ...scopes] })

  async function choose(dialog: Locator, ...rows: string[]) {
    const buffer = Buffer.from([HEAD, ...rows].join('\n'))
    const file = { name: 'salaries.csv', mimeType: 'text/csv', buffer }
    await dialog.getByLabel('File').setInputFiles(file)
  }

  it('takes a file in the portal of a business, and has another person approve its sum in words', async () => {
    const { page, dialog, go } = await openAs('payouts:write')
    await page.locator('nav.rail a', { hasText: 'Payouts' }).click()
    await page.getByRole('link', { name: 'Batches' }).click()
    await page.getByText('No batches in live mode').waitFor()
    await page.getByRole('button', { name: 'Upload a batch' }).click()
    await dialog.getByLabel('Reference').fill('salaries-11')
    await choose(dialog, `ada-11,many,058,${ADA},${name}`)
    await dialog.getByText('Line 2: amount is no amount in naira').waitFor()
    // What the service finds wrong is named by its line too.
    await choose(dialog, `ada-11,1000,058,${ADA},${name}`, `obi-11,500.50,999,${OBI},Zeta Yota`)
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByRole('button', { name: 'Upload a batch' }).click()
    await dialog.getByText(/Line 3: beneficiary_bank_code is no institution/).waitFor()
    await expectAccessible(page)
    await choose(dialog, `ada-11,1000,058,${ADA},${name}`, `obi-11,500.50,058,${OBI},Zeta Yota`)
    await dialog.getByRole('button', { name: 'Continue' }).click()
    const words = 'one thousand, five hundred naira, fifty kobo'
    await dialog.getByText(words, { exact: true }).waitFor()
    await dialog.getByText('in 2 payouts').waitFor()
    await dialog.getByRole('button', { name: 'Upload a batch' }).click()
    await dialog.getByRole('link', { name: '2 payouts' }).click()
    await page.getByText('You requested it: another person has to approve it.').waitFor()
    expect(await page.getByRole('button', { name: 'Approve the batch' }).count()).toBe(0)

    const other = await openAs('payouts:approve')
    await other.follow('/payouts/batches')
    const sent = other.page.getByRole('row', { name: /salaries-11.*Await approval: 1/ })
    await sent.waitFor()
    expect(await other.page.getByRole('button', { name: 'Upload a batch' }).count()).toBe(0)
    await sent.click()
    // The bank states another name for the second row.
    const refused = other.page.getByRole('table', { name: 'Refused items' })
    await refused
      .getByRole('row', { name: /2 obi-11 beneficiary_account_name .*Zeta Yota/ })
      .waitFor()
    await loaded(other.page)
    await expectAccessible(other.page)
    await other.act('Approve the batch', {
      fill: async (asked) => {
        await asked.getByText('one thousand naira', { exact: true }).waitFor()
        await asked.getByLabel('Note').fill('payroll')
      },
      result: '1 approved: one thousand naira.',
    })
    await other.page.getByText('Paid: 1 of 2').waitFor()
    await other.page.getByRole('row', { name: /ada-11 ₦1,000.00 Paid/ }).waitFor()
    await go('/payouts/batches')
    await page.getByRole('row', { name: /salaries-11.*Paid: 1 of 2/ }).waitFor()
    await expectAccessible(page)
  })

  it('rejects a batch as a whole, and operators choose the business first', async () => {
    const beneficiary = { bankCode: '058', accountNumber: ADA, accountName: name }
    const { batch } = await payouts().createPayouts({
      businessId,
      reference: 'rejected',
      live: true,
      items: [{ reference: 'ada-12', amountMinor: 200_000n, beneficiary }],
    })
    const { page, act, follow } = await open('/payouts/batches')
    await page.getByText('Choose a business').waitFor()
    await follow(`/payouts/batches/${businessId}/${batch!.id}`)
    await page.getByText('Await approval: 1').first().waitFor()
    await act('Reject the batch', {
      fill: (dialog) => dialog.getByLabel('Why').fill('the file of October'),
      result: /Audit entry #\d+/,
    })
    await page.getByRole('row', { name: /ada-12 .* Rejected/ }).waitFor()
    await page.getByText('Paid: 0 of 1').first().waitFor()
  })

  it('shows a business its rules, and neither changes them nor shows those of the installation', async () => {
    const { page, follow } = await openAs('payouts:write', 'payouts:approve')
    await follow('/payouts')
    await page.getByRole('link', { name: 'Rules' }).click()
    await page.getByText('needed above ₦1,000.00').waitFor()
    await page.getByRole('row', { name: new RegExp(ADA) }).waitFor()
    expect(await page.getByRole('button', { name: 'Change the rules' }).count()).toBe(0)
    expect(await page.locator('body').innerText()).not.toContain('771,234')
    await expectAccessible(page)
  })

  it('says on the page of a settlement why it is not paid out', async () => {
    const settleTo = { bankCode: '058', accountNumber: ADA, accountName: '' }
    const policy = { businessId, settleTo, payoutMaxMinor: 100n }
    await payouts().updatePayoutPolicy({ policy })
    await pay(service, await openAccount(service, businessId), 300_000n)
    const settlementId = await settleAll(service, businessId, 1n)
    const { page, follow } = await openAs()
    await waitFor(async () => {
      const { settlements } = await service
        .client(SettlementService)
        .listSettlements({ settlementId })
      expect(settlements[0]?.payout?.detail).toMatch(/limit/)
    })
    await follow(`/settlement/${settlementId}`)
    const text = 'Not paid out. Its amount must be at most 1.00 naira, the limit of one payout.'
    await page.getByText(text).waitFor()
    await page.getByText('It is tried again').waitFor()
    await expectAccessible(page)
  })
})
