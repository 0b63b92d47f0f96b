import type { Page } from 'playwright-core'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { PauseScope, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS, simulatedName } from '../../src/banks/sandbox.ts'
import { fresh, openAccount, settleAll } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectAccessible, loaded, openPortal, useBrowser } from './browser.ts'

/** An account of Guaranty Trust Bank. */
const ADA = { bankCode: '058', accountNumber: nuban('058', 145_700_001) }

/** Its holder. */
const PAYER = { ...ADA, name: simulatedName(ADA.accountNumber) }

describe.skipIf(!hasBrowser)('payouts in the console', () => {
  const service = useService()
  const open = useBrowser(service)
  const payouts = () => service.client(PayoutService)
  let shop: Awaited<ReturnType<typeof openAccount>>
  let businessId: string

  /** Records and settles a payment from an account of Guaranty Trust Bank. @returns its id */
  async function receive(amountMinor: bigint): Promise<string> {
    const { transaction } = await service.client(TransactionService).recordPayment({
      bank: Bank.BANK_9PSB,
      accountNumber: shop.accountNumber,
      amountMinor,
      sessionId: fresh('session'),
      payer: { ...PAYER, bankName: 'Guaranty Trust Bank' },
    })
    await settleAll(service, businessId, 1n)
    return transaction!.id
  }

  /** A payment arrives for an account number that is not open. */
  async function arriveUnmatched(amountMinor: bigint, accountNumber = ADA.accountNumber) {
    await service.client(TransactionService).recordPayment({
      bank: Bank.BANK_9PSB,
      accountNumber: '3999999999',
      amountMinor,
      sessionId: fresh('session'),
      payer: {
        ...ADA,
        accountNumber,
        name: simulatedName(accountNumber),
        bankName: 'Guaranty Trust Bank',
      },
    })
  }

  /** Requests a payout over the API. @returns its id */
  async function request(amountMinor: bigint, account = ADA, token?: string): Promise<string> {
    const client = service.client(PayoutService, token)
    const resolved = await client.resolveAccountName({ businessId, ...account })
    const { payout } = await client.createPayout({
      businessId,
      reference: fresh('payout'),
      amountMinor,
      beneficiary: account,
      resolution: resolved.resolution,
    })
    return payout!.id
  }

  const statusOf = (page: Page) => page.locator('.payment-amount .status')

  beforeAll(async () => {
    const business = await service.business('Ade Stores')
    businessId = business.id
    shop = await openAccount(service, businessId)
    await receive(5_000_000n)
  })

  afterEach(() => payouts().resumePayouts({ scope: PauseScope.GLOBAL, reason: 'over' }))

  it('resolves the name, says the amount in words, and pays once', async () => {
    const { page, dialog } = await open('/payouts')
    await page.getByText('No payouts in live mode yet').waitFor()
    await page.getByRole('button', { name: 'Request payout' }).click()
    await dialog.getByLabel('Business').fill(businessId)
    await dialog.getByLabel('Bank').fill('Guaranty Trust Bank')
    const number = dialog.getByLabel('Account number')
    await number.fill(nuban('058', Number(MAGIC_ACCOUNTS.isUnknown)))
    await dialog.getByText('The account number is no account of Guaranty Trust Bank').waitFor()
    await dialog.getByLabel('Amount').fill('1,500.50')
    await dialog.getByText('₦50,000.00 are available').waitFor()
    const submit = dialog.getByRole('button', { name: 'Continue' })
    // Without a name there is no second step.
    await submit.click()
    expect(await dialog.getByText('one thousand').count()).toBe(0)
    await number.fill(ADA.accountNumber)
    const name = await dialog.locator('.resolved .status').innerText()
    await submit.click()
    await dialog.getByText('balance of Ade Stores').waitFor()
    const asked = await dialog.locator('.asked').innerText()
    expect(asked).toContain('one thousand, five hundred naira, fifty kobo')
    for (const text of [name, ADA.accountNumber, 'Guaranty Trust Bank']) {
      expect(asked).toContain(text)
    }
    // What was typed is still there.
    await dialog.getByRole('button', { name: 'Back' }).click()
    expect(await dialog.getByLabel('Amount').inputValue()).toBe('1,500.50')
    await submit.click()
    await dialog.getByRole('button', { name: 'Request payout' }).click()
    await dialog.getByText('It is sent as soon as a bank can pay it').waitFor()
    await dialog.getByRole('link', { name: 'Requested' }).click()
    await page.getByText('The bank paid it.').first().waitFor()
    expect(await statusOf(page).innerText()).toBe('Paid')
    await page.getByText('Sent through', { exact: false }).first().waitFor()
    const { payouts: all } = await payouts().listPayouts({ businessId })
    expect(all.map(({ amountMinor }) => amountMinor)).toEqual([150_050n])
    // Whom the business has paid is chosen, and the name is asked for again.
    await page.locator('nav.rail a', { hasText: 'Payouts' }).click()
    await page.getByRole('button', { name: 'Request payout' }).click()
    await dialog.getByLabel('Business').fill(businessId)
    await dialog.getByLabel('paid before').selectOption({ index: 1 })
    await dialog.locator('.resolved').getByText(name).waitFor()
    expect(await number.inputValue()).toBe(ADA.accountNumber)
  })

  it('has another person approve, and says so to the one who requested', async () => {
    await payouts().updatePayoutPolicy({ policy: { businessId, approvalAboveMinor: 300_000n } })
    const id = await request(400_000n)
    const own = await open(`/payouts/${id}`)
    await own.page.getByText('another person has to approve it').waitFor()
    expect(await own.page.getByRole('button', { name: 'Approve' }).count()).toBe(0)
    const scopes = ['read', 'payouts:write', 'payouts:approve']
    const { page, act } = await openPortal(open, service, { businessId, scopes })
    await page.locator('nav.rail a', { hasText: 'Payouts' }).click()
    await page.getByRole('row', { name: /Awaits approval/ }).click()
    await act('Approve', { fill: (dialog) => dialog.getByLabel('Note').fill('as agreed') })
    await expect.poll(() => statusOf(page).innerText()).toBe('Paid')
    await page.getByText('as agreed').first().waitFor()
    await own.page.getByText('The bank paid it.').first().waitFor()
    // A business approves, and decides nothing about what a bank has not stated.
    expect(await page.getByRole('button', { name: 'Record a return' }).count()).toBe(0)
  })

  it('decides a payout whose result is unknown, after a second look', async () => {
    const lost = nuban('058', Number(MAGIC_ACCOUNTS.getsLost))
    const { secret } = await issueToken(service, ['payouts:write'])
    const id = await request(100_000n, { ...ADA, accountNumber: lost }, secret)
    const { page, dialog } = await open(`/payouts/${id}`)
    await expect.poll(() => statusOf(page).innerText()).toMatch(/Result unknown|Manual review/)
    await page.getByRole('button', { name: 'Decide' }).click()
    await dialog
      .getByRole('combobox')
      .selectOption({ label: 'The bank did not pay it, and will not' })
    await dialog.getByLabel('How it is known').fill('by letter')
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByText('that money is lost').waitFor()
    await dialog.getByRole('button', { name: 'Decide' }).click()
    await dialog.getByText(/Audit entry #\d+/).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => statusOf(page).innerText()).toBe('Failed')
  })

  it('refunds a payment to its payer, and offers no more than is left', async () => {
    const transactionId = await receive(200_000n)
    const { page, dialog } = await open(`/payments/${transactionId}`)
    for (const [amount, words] of [
      ['500', 'five hundred naira'],
      ['', 'one thousand, five hundred naira'],
    ] as const) {
      await page.getByRole('button', { name: 'Refund', exact: true }).click()
      if (amount !== '') await dialog.getByLabel('Amount').fill(amount)
      await dialog.getByRole('button', { name: 'Continue' }).click()
      await dialog.getByText(words, { exact: true }).waitFor()
      await dialog.getByText(PAYER.name, { exact: true }).waitFor()
      await dialog.getByRole('button', { name: 'Refund', exact: true }).click()
      await dialog.getByRole('link', { name: 'Requested' }).waitFor()
      await dialog.getByRole('button', { name: 'Close' }).click()
    }
    const refunds = page.locator('.section', { hasText: 'Refunds' }).locator('li')
    await expect.poll(() => refunds.filter({ hasText: 'Paid' }).count()).toBe(2)
    expect(await page.getByRole('button', { name: 'Refund', exact: true }).count()).toBe(0)
    await refunds.first().getByRole('link').click()
    await page.getByRole('heading', { name: 'Payout' }).waitFor()
    const { payouts: all } = await payouts().listPayouts({ transactionId })
    expect(all.map(({ amountMinor }) => amountMinor)).toEqual([150_000n, 50_000n])
  })

  it('returns an unmatched payment, naming amount and payer, and shows the payout', async () => {
    const { page, dialog, go } = await open('/review?kind=unmatched')
    await arriveUnmatched(43_210n)
    const waits = page.locator('.review-head', { hasText: '₦432.10' })
    await waits.click()
    await page.getByRole('button', { name: 'Return', exact: true }).waitFor()
    await page.keyboard.press('r')
    await dialog.getByText(/A payout returns all of it, ₦432.10/).waitFor()
    await dialog.getByText(new RegExp(`The payer is ${PAYER.name}: ${ADA.accountNumber}`)).waitFor()
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByText('four hundred and thirty-two naira, ten kobo', { exact: true }).waitFor()
    await dialog.getByText(PAYER.name, { exact: true }).waitFor()
    await expectAccessible(page)
    await dialog.getByRole('button', { name: 'Return', exact: true }).click()
    await dialog.getByText(/Audit entry/).waitFor()
    await dialog.getByRole('link', { name: 'Requested' }).click()
    await page.getByText(/the unmatched payment/).waitFor()
    await expect.poll(() => statusOf(page).innerText()).toBe('Paid')
    expect(await page.getByText('Business', { exact: true }).count()).toBe(0)
    await go('/review?kind=unmatched')
    await page.getByText('Nothing like this waits').waitFor()
  })

  it('returns an unmatched payment to a typed account, if another person approves', async () => {
    await arriveUnmatched(54_321n, '')
    const { page, dialog } = await open('/review?kind=unmatched')
    await page.locator('.review-head', { hasText: '₦543.21' }).click()
    await page.getByRole('button', { name: 'Return', exact: true }).click()
    await dialog.getByText(/did not state the account of the payer/).waitFor()
    await dialog.getByLabel('Bank').fill('Guaranty Trust Bank')
    await dialog.getByLabel('Account number').fill(ADA.accountNumber)
    await dialog.getByLabel('Name of the account').fill('Zeta Yota')
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByRole('button', { name: 'Return', exact: true }).click()
    // The bank's name is shown, and typed in its place.
    await dialog.getByText(/^"Zeta Yota" is not like "ADEYEMI ADA ADA"/).waitFor()
    await dialog.getByLabel('Name of the account').fill('ADEYEMI ADA ADA')
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByRole('button', { name: 'Return', exact: true }).click()
    await dialog.getByText('by another person: a return to another account').waitFor()
  })

  it('says on every page what is paused, to operators why, and to a business that it is', async () => {
    const { page, act, go } = await open('/payouts/controls')
    await act('Pause payouts', {
      fill: (dialog) => dialog.getByLabel('Why').fill('drill at noon'),
      result: /Audit entry #\d+/,
    })
    await page.getByRole('row', { name: /All payouts.*drill at noon/ }).waitFor()
    const banner = page.locator('.pause-banner')
    await banner.getByText('All payouts are paused').waitFor()
    await go('/accounts')
    await banner.getByText('drill at noon').waitFor()
    await go('/')
    await page.getByRole('row', { name: /9PSB Paused/ }).waitFor()
    const { secret } = await issueToken(service, ['read'], [businessId])
    const portal = await open('/payments', { token: secret })
    await portal.page.locator('.pause-banner').getByText('All payouts are paused').waitFor()
    expect(await portal.page.locator('.pause-banner').innerText()).not.toContain('drill')
    const id = await request(50_000n)
    await go('/payouts/controls')
    await act('Resume', { result: /Audit entry #\d+/ })
    await expect.poll(() => banner.count()).toBe(0)
    await waitFor(async () => {
      const { payout } = await payouts().getPayout({ payoutId: id })
      expect(payout?.status).toBe(PayoutStatus.PAID)
    })
  })

  it('changes the rules of a business, and shows whom it has paid', async () => {
    const { page, dialog, act } = await open(`/businesses/${businessId}`)
    await act('Change the rules', {
      fill: async () => {
        await dialog.getByLabel('Largest payout').fill('10,000')
        await dialog.getByLabel('An approval is needed above').fill('0')
        await dialog.getByLabel('A beneficiary is new for').fill('24')
        await dialog.getByRole('button', { name: 'Add a band' }).click()
        await dialog.getByLabel('Flat').fill('25')
        await dialog.getByLabel('Percent').fill('0.5')
        await dialog.getByLabel('Pay settlements out').check()
        await dialog.getByLabel('Bank').fill('guaranty trust bank')
        await dialog.getByLabel('Account number').fill(ADA.accountNumber)
        await dialog.locator('.resolved .status').waitFor()
      },
      result: /Audit entry #\d+/,
    })
    const rules = page.locator('.section', { hasText: 'Payout rules' })
    await rules.getByText('always needed').waitFor()
    await rules.getByText('₦25.00 and 0.5 %').waitFor()
    const { policy } = await payouts().getPayoutPolicy({ businessId })
    expect(policy).toMatchObject({
      payoutMaxMinor: 1_000_000n,
      approvalAboveMinor: 0n,
      coolDownHours: 24,
      fees: [{ flatMinor: 2_500n, basisPoints: 50, upToMinor: 0n }],
      settleTo: { accountNumber: ADA.accountNumber },
    })
    // What is not changed stays.
    await act('Change the rules', {
      fill: () => dialog.getByLabel('An approval is needed above').fill(''),
    })
    await rules.getByText('not needed').waitFor()
    const after = await payouts().getPayoutPolicy({ businessId })
    expect(after.policy).toEqual({ ...policy!, approvalAboveMinor: undefined })
    await page.getByRole('row', { name: new RegExp(`${ADA.accountNumber} Guaranty`) }).waitFor()
    await page.getByText('Reserved').waitFor()
    await expectAccessible(page)
  })

  it('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    await payouts().pausePayouts({ scope: PauseScope.GLOBAL, reason: 'drill' })
    const id = await request(50_000n)
    const { page, dialog, follow } = await open('/payouts')
    for (const path of ['/payouts', '/payouts/controls', `/payouts/${id}`]) {
      await follow(path)
      await page.locator('.pause-banner').waitFor()
      await loaded(page)
      await expectAccessible(page)
    }
    await follow(`/payouts?business=${businessId}`)
    await page.getByRole('button', { name: 'Request payout' }).click()
    await dialog.getByLabel('Account number').waitFor()
    await expectAccessible(page)
  })
})
