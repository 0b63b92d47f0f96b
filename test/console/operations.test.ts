import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { fresh, openAccount, openShop, pay, settleAll } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { issueToken, type TestService, useService } from '../support/service.ts'
import { expectAccessible, hold, loaded, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the pages of operators', () => {
  const service = useService()
  const open = useBrowser(service)
  let scene: Awaited<ReturnType<typeof seedOperations>>
  beforeAll(async () => {
    scene = await seedOperations(service)
    await service.business('Bode Stores')
  })

  const item = (page: Page, kind: string) => page.locator('.review-head', { hasText: kind }).first()

  test('an unmatched payment is assigned to an account, and a conflict resolved, by keyboard', async () => {
    const { page, dialog } = await open('/review')
    // Its text says how long it has waited, which changes.
    const opened = () => new URL(page.url()).searchParams.get('item')
    await item(page, 'Held payment').waitFor()
    await page.keyboard.press('j')
    await expect.poll(opened).not.toBeNull()
    const first = opened()
    await page.keyboard.press('s')
    await expect.poll(opened).not.toBe(first)
    await page.keyboard.press('k')
    await expect.poll(opened).toBe(first)
    await item(page, 'Conflict').click()
    await expect
      .poll(() => page.locator('tr.differs').allInnerTexts())
      .toEqual([expect.stringMatching(/Amount.*₦1,500\.50.*₦42,000\.00.*differs/s)])
    await page.keyboard.press('a')
    await dialog.getByLabel('How and why').fill('the bank repeated it wrongly')
    await dialog.getByRole('button', { name: 'Resolve' }).click()
    await dialog.getByText(/Audit entry/).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => page.getByText('A report of the recorded payment').count()).toBe(0)

    await item(page, 'Unmatched payment').click()
    await page.getByText('for order 12').waitFor()
    await page.keyboard.press('a')
    const account = dialog.getByLabel('Account', { exact: true })
    await account.fill(scene.target)
    await dialog.getByRole('radio', { name: /Ada/ }).check()
    // What was found for another text cannot be chosen.
    const late = await hold(page, 'OverviewService/Search')
    await account.fill('4444444444')
    await late.requested
    await expect.poll(() => dialog.getByRole('radio', { name: /Ada/ }).count()).toBe(0)
    late.release()
    await dialog.getByText('No account of 9PSB has this.').waitFor()
    await account.fill(scene.target)
    await dialog.getByRole('radio', { name: /Ada/ }).check()
    await dialog.getByRole('button', { name: 'Assign' }).click()
    await dialog.getByText('Recorded as').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    const { counts } = await service.client(OverviewService).listReviewItems({ live: true })
    expect(counts.map(({ kind }) => kind).sort()).toEqual([
      ReviewKind.ACCOUNT_OPENING,
      ReviewKind.HELD_PAYMENT,
    ])
  })

  test('money for a closed account is shown with it', async () => {
    const { reference, businessId } = await closedAccount('late-1')
    const { page, dialog, go } = await open(`/accounts/${businessId}/${reference}`)
    const unmatched = page.getByRole('table', { name: 'Unmatched payments' }).locator('tbody tr')
    await unmatched.getByText('₦420.00').click()
    // The link opens the item.
    const head = page.locator('.review-item.open .review-head')
    await head.getByText('Closed').waitFor()
    await head.getByText('Ada Obi').waitFor()
    await page.getByText(`Closed: Ada Obi, Ade Stores`).waitFor()
    await page.locator('.review-item.open').getByRole('button', { name: 'Assign' }).click()
    const radio = dialog.getByRole('radio', { name: /Ada Obi.*Closed/ })
    await radio.waitFor()
    expect(await radio.isChecked()).toBe(true)
    // A link to what was decided says so.
    await go('/review?item=1-live-unm_none')
    await page.getByText('The linked item no longer waits').waitFor()
  })

  test('several items are decided at once, and each says what became of it', async () => {
    const { accountNumber } = await closedAccount('many-1', 'many-2', 'many-3')
    const reconciliation = service.client(ReconciliationService)
    const { page, dialog } = await open('/review?kind=unmatched&order=amount')
    const boxes = page.getByRole('checkbox', { name: accountNumber })
    await expect.poll(() => boxes.count()).toBe(3)
    await boxes.nth(0).check()
    await boxes.nth(1).check()
    // Another operator is faster with one of them.
    const { payments } = await reconciliation.listUnmatchedPayments({ accountNumber })
    const largest = payments.toSorted((a, b) => Number(b.amountMinor - a.amountMinor))[0]!
    await reconciliation.returnUnmatchedPayment({
      unmatchedPaymentId: largest.id,
      note: 'sent back',
    })
    await page.getByRole('button', { name: 'Assign 2' }).click()
    await dialog.getByRole('button', { name: 'Assign', exact: true }).click()
    await dialog.getByText('1 of 2 done').waitFor()
    const rows = dialog.getByRole('listitem')
    await rows
      .filter({ hasText: '₦420.02' })
      .getByText(/returned/)
      .waitFor()
    await rows.filter({ hasText: '₦420.01' }).getByText('Done').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => boxes.count()).toBe(1)
    await boxes.first().check()
    await page.getByRole('button', { name: 'Mark as returned 1' }).click()
    await dialog.getByLabel('How and why').fill('by the bank')
    await dialog.getByRole('button', { name: 'Mark as returned', exact: true }).click()
    await dialog.getByText('1 of 1 done').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => boxes.count()).toBe(0)
  })

  test('an item is taken by a key, noted about, and found among those of its assignee', async () => {
    const { secret } = await issueToken(service, ['admin'], [], 'Bola the operator')
    const { page, act, go } = await open('/review', { token: secret })
    await item(page, 'Held payment').click()
    await page.keyboard.press('t')
    await page.getByText('Taken by Bola the operator').waitFor()
    await act('Hand over or note', {
      fill: (dialog) => dialog.getByLabel('Note').fill('the customer was asked'),
      result: /Audit entry #\d+/,
    })
    const noted = page.locator('.review-note')
    await noted.getByText('Bola the operator: the customer was asked').waitFor()
    await expectAccessible(page)
    await go('/review?assignee=mine')
    await item(page, 'Held payment').click()
    expect(await page.locator('.review-item').count()).toBe(1)
    await page.getByRole('button', { name: 'Release' }).click()
    await page.getByText('Nothing like this waits').waitFor()
  })

  /** An account that is closed, and payments into it since, of 420.00, 420.01, … naira. */
  async function closedAccount(...sessions: string[]) {
    const account = await openAccount(service, scene.shop.businessId)
    const { businessId, reference, accountNumber } = account
    await service.client(AccountService).closeAccount({ businessId, reference })
    for (const [at, session] of sessions.entries()) {
      const payment = { bank: Bank.BANK_9PSB, accountNumber, sessionId: fresh(session) }
      const amountMinor = 42_000n + BigInt(at)
      await service.client(TransactionService).recordPayment({ ...payment, amountMinor })
    }
    return account
  }

  test('the month shows what was settled, and a statement is saved', async () => {
    const { page, dialog } = await open(`/settlement?business=${scene.shop.businessId}`)
    await page.getByTitle(/1 settlement of 2 payments, net ₦17,400\.50/).click()
    await page.getByRole('table', { name: 'Settlements' }).getByText('₦17,400.50').waitFor()
    await page.getByRole('button', { name: 'Statement' }).click()
    const saved = page.waitForEvent('download')
    await dialog.getByRole('button', { name: 'Download' }).click()
    const text = await readFile(await (await saved).path(), 'utf8')
    expect(text).toContain('booked_at,line,sequence')
    expect(text).toMatch(/SETTLEMENT_COMPLETED,\d+,,,stl_\w+,-17500\.50,17400\.50,100\.00,\r\n/)
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('table', { name: 'Settlements' }).locator('tbody tr').click()
    await page.getByText('the request').waitFor()
    expect(page.url()).toContain(`/settlement/${scene.settlementId}`)
    await expect
      .poll(() => page.getByRole('table', { name: 'Entries' }).locator('tbody tr').count())
      .toBe(2)
  })

  test('what is typed is kept until it is sent or cancelled: terms, in naira and in percent', async () => {
    const { businessId } = scene.shop
    const { page, dialog, act } = await open(`/settlement?business=${businessId}`)
    const change = page.getByRole('button', { name: 'Change the terms' })
    const most = dialog.getByLabel('Fee at most, ₦')
    await change.click()
    await most.fill('2,000.50')
    await page.keyboard.press('Escape')
    await most.waitFor({ state: 'detached' })
    await change.click()
    await expect.poll(() => most.inputValue()).toBe('2,000.50')
    // Back leaves the page, and the dialog with it.
    await page.locator('nav.rail a', { hasText: 'Payments' }).evaluate((link) => {
      ;(link as unknown as { click(): void }).click()
    })
    await page.getByRole('heading', { name: 'Payments' }).waitFor()
    await page.goBack()
    await act('Change the terms', {
      fill: async () => {
        await expect.poll(() => most.inputValue()).toBe('2,000.50')
        await dialog.getByLabel('Fee in percent').fill('1.25')
      },
    })
    await page.getByText('₦50.00 and 1.25 %').waitFor()
    const { terms } = await service.client(SettlementService).getSettlementTerms({ businessId })
    expect(terms).toMatchObject({
      schedule: Schedule.WORKING_DAYS,
      workingDays: 1,
      feeFlatMinor: 5_000n,
      feeBasisPoints: 125,
      feeCapMinor: 200_050n,
    })
    await change.click()
    await most.fill('4,321.00')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await change.click()
    expect(await most.inputValue()).toBe('2000.50')
    await page.keyboard.press('Escape')
    const statement = page.getByRole('button', { name: 'Statement' })
    await statement.click()
    await dialog.getByLabel('Format').selectOption('json')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await statement.click()
    await expect.poll(() => dialog.getByLabel('Format').inputValue()).toBe('json')
  })

  test('a phone has five tabs with their words, and the other pages under More', async () => {
    const { page } = await open('/', { viewport: { width: 390, height: 844 } })
    const tabs = page.locator('nav.rail > .rail-link:visible .rail-title')
    const five = ['Overview', 'Payments', 'Accounts', 'Webhooks', 'Review']
    await expect.poll(() => tabs.allInnerTexts()).toEqual([...five, 'More'])
    await page.getByRole('button', { name: 'More' }).click()
    const others = page.locator('nav.rail .popup a')
    await expect.poll(() => others.count()).toBe(8)
    await others.filter({ hasText: 'Health' }).click()
    await page.getByRole('heading', { name: 'Health', level: 1 }).waitFor()
    expect(await others.count()).toBe(0)
  })

  test('what was begun for one business is not repeated for the next', async () => {
    const { page, dialog } = await open(`/settlement?business=${scene.shop.businessId}`)
    await page.route('**/*SettlementService/Settle', (route) => route.abort())
    await page.getByRole('button', { name: 'Settle now' }).click()
    await dialog.getByLabel('Also payments that are not due yet').check()
    await dialog.getByRole('button', { name: 'Settle', exact: true }).click()
    await dialog.getByRole('button', { name: 'Retry' }).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.locator('.top-bar').getByText('Ade Stores').click()
    await page.getByRole('button', { name: /^Bode Stores/ }).click()
    await page.getByRole('button', { name: 'Settle now' }).click()
    expect(await dialog.getByRole('button', { name: 'Retry' }).count()).toBe(0)
    expect(await dialog.getByRole('checkbox').isChecked()).toBe(false)
  })

  test('a run settles what is received, and the ledger adds up', async () => {
    const { page, dialog } = await open(`/settlement?business=${scene.shop.businessId}`)
    await page.getByRole('button', { name: 'Settle now' }).click()
    await dialog.getByText('No payment is due.').waitFor()
    await dialog.getByLabel('Also payments that are not due yet').check()
    await dialog.getByText(/Available then/).waitFor()
    const net = dialog.locator('dl > div', { hasText: 'Net' })
    const before = await net.innerText()
    await dialog.getByRole('button', { name: 'Settle', exact: true }).click()
    await dialog.getByText('Everything that was due is settled.').waitFor()
    expect(await net.innerText()).toBe(before)
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Verify the ledger' }).click()
    await page.getByText('It adds up').waitFor()
  })

  /** Opens the page with a statement whose amounts have a header that is not known. */
  async function openStatement() {
    const console = await open('/reconciliation')
    const { page } = console
    const lines = [
      'Session ID,Account Number,Value,Transaction Date,Payer Name,DR/CR',
      `${scene.conflictSession},${scene.target},1500.51,2026-11-20 10:00:00,BOLA ADE,CR`,
      `late-1,${scene.target},"1,900.00",2026-11-20 10:01:00,=HYPERLINK(),CR`,
      `out-1,${scene.target},5.00,2026-11-20 10:02:00,X,DR`,
    ]
    const buffer = Buffer.from(lines.join('\n'))
    const file = { name: 'november.csv', mimeType: 'text/csv', buffer }
    await page.locator('input[type=file]').setInputFiles(file)
    await page.getByText('No header is known to be “Amount”').waitFor()
    const column = (name: string) =>
      page.locator('.column-choice label', { hasText: name }).locator('select')
    await column('Amount').selectOption('Value')
    return { ...console, column, compare: page.getByRole('button', { name: 'Compare 2 payments' }) }
  }

  test('a statement is compared, its missing payment recorded, and the findings exported', async () => {
    const { page, dialog, compare } = await openStatement()
    await compare.click()
    await page.getByRole('button', { name: /^Missing here\s*1\s*₦1,900\.00/ }).waitFor()
    await page.getByRole('button', { name: /^Mismatched/ }).click()
    await expect
      .poll(() => page.locator('td.differs').allInnerTexts())
      .toEqual([expect.stringContaining('₦1,500.51'), expect.stringContaining('₦1,500.50')])
    await page.getByRole('button', { name: /^Missing here/ }).click()
    await page.getByRole('button', { name: 'Record 1 that the bank confirms' }).click()
    await dialog.getByRole('button', { name: 'Record' }).click()
    await page.getByText('Recorded', { exact: true }).waitFor()
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export 1 as CSV' }).click()
    const text = await readFile(await (await saved).path(), 'utf8')
    expect(text).toContain(`1900.00,SUCCESS,2026-11-20T09:01:00.000Z,'=HYPERLINK(),`)
    // Another page loses nothing, and what was recorded stays in the history.
    await page.locator('nav.rail a', { hasText: 'Payments' }).click()
    await page.getByRole('heading', { name: 'Payments' }).waitFor()
    await page.locator('nav.rail a', { hasText: 'Reconciliation' }).click()
    await page.getByRole('button', { name: /^Missing here\s*1\s*₦1,900\.00/ }).waitFor()
    await page.getByText('1 payment: 1 recorded').waitFor()
  })

  test('a comparison that was given up for other columns finds nothing', async () => {
    const { page, column, compare } = await openStatement()
    const late = await hold(page, 'ReconciliationService/Reconcile')
    await compare.click()
    await late.requested
    await page.locator('.column-choice summary').click()
    await column('Narration').selectOption('Payer Name')
    await compare.waitFor()
    late.release()
    await compare.click()
    await page.getByRole('button', { name: /^Mismatched\s*1/ }).waitFor()
  })

  test('a token that may only read sees no button that changes something', async () => {
    const { secret } = await issueToken(service, ['read'])
    const { page, follow } = await open('/review', { token: secret })
    await item(page, 'Held payment').click()
    await page.getByText('an operator decides').waitFor()
    expect(await page.getByRole('checkbox').count()).toBe(0)
    await follow('/')
    const needs = page.locator('.needs')
    await needs.getByRole('link', { name: 'Open' }).first().waitFor()
    expect(await needs.getByRole('link', { name: /Decide|Assign|Resolve/ }).count()).toBe(0)
    await follow(`/settlement?business=${scene.shop.businessId}`)
    await page.getByText('Change').or(page.getByText('Payments are due')).first().waitFor()
    for (const name of ['Settle now', 'Change the terms', 'Add a holiday', 'Verify the ledger']) {
      expect(await page.getByRole('button', { name }).count(), name).toBe(0)
    }
    await follow('/reconciliation')
    await page.getByText('needs a token with the scope admin').waitFor()
  })

  test('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    const { page, follow } = await open('/review')
    const business = `?business=${scene.shop.businessId}`
    for (const path of ['review', `settlement${business}`, 'reconciliation', 'health']) {
      await follow(`/${path}`)
      await page.locator('h1').waitFor()
      await loaded(page)
      if (path === 'review') await page.keyboard.press('j')
      await expectAccessible(page)
    }
  })
})

/** A shop with a settlement, a held payment, a stray payment, a conflict, an opening and a held notification. */
async function seedOperations(service: TestService) {
  const { durablePool } = service.database
  const shop = await openShop(service, { name: 'Ade Stores' })
  const settlements = service.client(SettlementService)
  await settlements.updateSettlementTerms({
    businessId: shop.businessId,
    terms: { schedule: Schedule.WORKING_DAYS, workingDays: 1, feeFlatMinor: 5_000n },
  })
  await pay(service, shop, 1_500_050n)
  await pay(service, shop, 250_000n)
  const settlementId = await settleAll(service, shop.businessId, 2n)
  const { sessionId } = await pay(service, shop, 150_050n)
  const payments = service.client(TransactionService)
  const stray = { bank: Bank.BANK_9PSB, sessionId: fresh('stray'), amountMinor: 4_200_000n }
  await payments.recordPayment({
    ...stray,
    accountNumber: '0000000001',
    narration: 'for order 12',
    payer: { name: 'CHIDI EZE', accountNumber: '0123456789', bankName: 'Zenith' },
  })
  await payments.recordPayment({ ...stray, accountNumber: shop.accountNumber, sessionId })
  const strict = await openAccount(service, shop.businessId, { terms: { amountMinor: 50_000n } })
  await pay(service, strict, 40_000n)
  const opening = await openAccount(service, shop.businessId)
  await durablePool.query(
    `update account set status = 'PENDING', opening_state = 'MANUAL_REVIEW', last_cause = 'no response',
      account_number = null, account_name = null where reference = $1`,
    [opening.reference],
  )
  return { shop, target: shop.accountNumber, settlementId, conflictSession: sessionId }
}
