import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { openAccount, openShop, pay, type Shop, settleAll, transfer } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { startReceiver } from '../support/receiver.ts'
import { issueToken, useService } from '../support/service.ts'
import { expectAccessible, hold, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('payments, the overview and events in a browser', () => {
  const service = useService()
  const open = useBrowser(service)

  let shop: Shop
  beforeAll(async () => {
    shop = await openShop(service, { name: 'Ọjà Stores' })
  })

  /** The page has the stream, so what happens from now on arrives. */
  const isLive = (page: Page) => page.locator('.connection.live').waitFor()
  const rows = (page: Page) => page.locator('table[aria-label=Payments] tbody tr')

  test('payments appear as they arrive, and wait while the viewer reads', async () => {
    const { page, go } = await open('/payments')
    await page.getByText('No payments in live mode yet').waitFor()
    await page.getByText('inflow transfer simulate').waitFor()
    await isLive(page)
    await pay(service, shop)
    await rows(page).getByText('₦1,500.50').waitFor()
    await rows(page).first().hover()
    await pay(service, shop, 900_719_925_474_099n)
    await page.getByRole('button', { name: '1 new' }).waitFor()
    expect(await rows(page).count()).toBe(1)
    await page.getByRole('button', { name: '1 new' }).click()
    await rows(page).getByText('₦9,007,199,254,740.99').waitFor()
    expect(await rows(page).count()).toBe(2)
    await go('/payments?min=2,000&status=success')
    await rows(page).getByText('₦9,007,199,254,740.99').waitFor()
    expect(await rows(page).count()).toBe(1)
    // Of the other mode nothing is shown, and nothing arrives.
    await go('/payments?mode=test')
    await page.getByText('No payments in test mode yet').waitFor()
    await isLive(page)
    const trial = await openAccount(service, shop.businessId, { terms: { live: false } })
    await pay(service, shop)
    await transfer(service, trial.accountNumber, 4_200n)
    await rows(page).getByText('₦42.00').waitFor()
    expect(await rows(page).count()).toBe(1)
  })

  test('a filter is chosen in the page, kept in the URL, and applies to what arrives', async () => {
    const { page } = await open(`/payments?business=${shop.businessId}`)
    await isLive(page)
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Bank', exact: true }).click()
    await page.getByLabel('Providus').check()
    await page.getByText('No payment is like this').waitFor()
    expect(page.url()).toContain('bank=providus')
    await pay(service, shop)
    await page.getByRole('button', { name: 'Bank: Providus' }).waitFor()
    await page.getByLabel('9PSB').check()
    await rows(page).first().waitFor()
    expect(page.url()).toContain('bank=9psb')
    await page.keyboard.press('Escape')
  })

  test('filters are saved as a view, which a new page of the browser offers until it is removed', async () => {
    const { page, go } = await open('/payments?bank=9psb&status=success')
    await page.getByRole('button', { name: 'Views' }).click()
    await page.getByLabel('Save the filters as').fill('Paid by 9PSB')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'View: Paid by 9PSB' }).waitFor()
    await go(`/payments?business=${shop.businessId}`)
    await page.getByRole('button', { name: 'Views' }).click()
    expect(await page.getByRole('button', { name: 'Save view' }).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Paid by 9PSB', exact: true }).click()
    await page.getByRole('button', { name: 'Bank: 9PSB' }).waitFor()
    const { search } = new URL(page.url())
    expect(Object.fromEntries(new URLSearchParams(search))).toEqual({
      bank: '9psb',
      status: 'success',
      business: shop.businessId,
    })
    await page.getByRole('button', { name: 'Remove the view Paid by 9PSB' }).click()
    await page.getByRole('button', { name: 'Views' }).waitFor()
  })

  test('a row is a link, which a tab can open, and has the focus again on Back', async () => {
    const { page } = await open(`/payments?business=${shop.businessId}`)
    await rows(page).nth(1).waitFor()
    const key = await rows(page).nth(1).getAttribute('data-row')
    const href = await rows(page).nth(1).getByRole('link').first().getAttribute('href')
    expect(href).toContain(`/console/payments/${key}`)
    const tab = page.waitForEvent('popup')
    await rows(page)
      .nth(1)
      .getByText('Ada Obi')
      .click({ modifiers: ['Control'] })
    const opened = await tab
    await opened.getByRole('heading', { name: 'Payment', exact: true }).waitFor()
    expect(opened.url()).toContain(`/payments/${key}`)
    expect(page.url()).toContain('/payments?')
    await rows(page).nth(1).getByText('Ada Obi').click()
    await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor()
    await page.goBack()
    const focused = () => page.evaluate('document.activeElement?.dataset.row')
    await expect.poll(focused).toBe(key)
    await page.keyboard.press('k')
    const first = await rows(page).first().getAttribute('data-row')
    await expect.poll(focused).toBe(first)
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => url.pathname.endsWith(`/payments/${first}`))
  })

  test('totals stand above a filtered list, which does not wait for them', async () => {
    const sold = await openShop(service, { name: 'Tunde' })
    for (let at = 0; at < 3; at++) await pay(service, sold, 100_050n + BigInt(at))
    const { page, go } = await open(`/payments?business=${sold.businessId}`)
    await rows(page).nth(2).waitFor()
    expect(await page.locator('.totals').count()).toBe(0)
    const summed = await hold(page, 'TransactionService/SummarizeTransactions')
    await go(`/payments?business=${sold.businessId}&max=1000.51`)
    await summed.requested
    await rows(page).nth(1).waitFor()
    summed.release()
    await page.getByText('2 payments · ₦2,001.01').waitFor()
    await isLive(page)
    await pay(service, sold, 100_000n)
    await page.getByText('3 payments · ₦3,001.01').waitFor()
  })

  test("a customer's page has their accounts and what was paid into all of them", async () => {
    const email = 'ngozi@example.com'
    const sold = await openShop(service, { name: 'Ngozi Fabrics', email })
    const second = await openAccount(service, sold.businessId, { email })
    const other = await openAccount(service, sold.businessId, { email: 'other@example.com' })
    for (const [account, amountMinor] of [
      [sold, 100_000n],
      [second, 200_050n],
      [other, 700n],
    ] as const) {
      await pay(service, account, amountMinor)
    }
    const { secret: token } = await issueToken(service, ['read'], [sold.businessId])
    const { page } = await open('/payments', { token })
    await page.getByRole('combobox', { name: 'Search' }).fill(email)
    await page.getByRole('option', { name: 'Customer Ada Obi' }).click()
    await page.getByRole('heading', { name: 'Ada Obi' }).waitFor()
    await page.getByText('2 payments · ₦3,000.50').waitFor()
    await rows(page).getByText('₦2,000.50').waitFor()
    expect(await rows(page).count()).toBe(2)
    expect(await page.locator('table[aria-label=Accounts] tbody tr').count()).toBe(2)
    await expectAccessible(page)
  })

  test('a period is chosen by a word, and the list saved as it is filtered', async () => {
    const sold = await openShop(service, { name: 'Kola' })
    for (let at = 0; at < 3; at++) await pay(service, sold, 100_050n + BigInt(at))
    const { page } = await open(`/payments?business=${sold.businessId}&max=1000.51`)
    await rows(page).nth(1).waitFor()
    await page.getByRole('button', { name: 'Paid', exact: true }).click()
    await page.getByRole('button', { name: 'Yesterday' }).click()
    await page.getByText('No payment is like this').waitFor()
    await page.getByRole('button', { name: 'Last 7 days' }).click()
    await rows(page).nth(1).waitFor()
    await page.keyboard.press('Escape')
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export CSV' }).click()
    const file = await saved
    expect(file.suggestedFilename()).toBe('payments.csv')
    const [head, ...lines] = (await readFile(await file.path(), 'utf8')).trimEnd().split('\r\n')
    expect(head).toMatch(/^id,business_id,.*amount,.*payer_name/)
    expect(lines.map((line) => /,(1000\.\d\d),NGN,/.exec(line)?.[1])).toEqual([
      '1000.51',
      '1000.50',
    ])
    await page.getByText('Saved 2 rows').waitFor()
  })

  test("a payment's page grows with what happens, and says what is to come", async () => {
    const receiver = await startReceiver()
    onTestFinished(() => receiver.close())
    receiver.answer({ status: 500, body: '{"error":"no space left"}' })
    const own = await openShop(service, { name: 'Duka' })
    await service
      .client(WebhookService)
      .createEndpoint({ businessId: own.businessId, url: `${receiver.url}/hook` })
    const paid = await pay(service, own)
    const { page, act } = await open(`/payments/${paid.id}`)
    const timeline = page.locator('.timeline')
    await timeline.locator('.step').first().getByText('Paid', { exact: true }).waitFor()
    await timeline.getByText('by an internal service').waitFor()
    await timeline.getByText('PAYMENT_NOTIFICATION').waitFor()
    const attempt = timeline.getByRole('button', { name: 'Attempt 1' })
    await timeline
      .getByRole('link', { name: /^Payment notification to 127\.0\.0\.1:\d+/ })
      .waitFor()
    await attempt.locator('.status', { hasText: '500' }).waitFor()
    await timeline
      .locator('.expected')
      .getByText(/^Attempt [23]$/)
      .waitFor()
    await timeline.locator('.expected').getByText('Settles').waitFor()
    await attempt.click()
    await timeline.getByText('"error": "no space left"').waitFor()
    await timeline.locator('.request pre').getByText(paid.sessionId).waitFor()
    await timeline.getByText('webhook-signature').waitFor()
    expect(page.url()).toContain('open=dlv_')
    await isLive(page)
    await settleAll(service, own.businessId, 1n)
    await timeline.getByRole('button', { name: 'Settled' }).waitFor()
    const verdict = page.locator('.verdict')
    await verdict
      .getByText(/^Received and settled\. 127\.0\.0\.1:\d+: responded with 500\. Next attempt in /)
      .waitFor()
    // While the dialog is open: a retry that succeeds before takes the button away.
    await act('Send now', { from: verdict, fill: async () => receiver.answer({ status: 200 }) })
    await timeline.getByRole('button', { name: 'Attempt 2' }).waitFor()
    await page.locator('main').getByText('More', { exact: true }).click()
    await act('Reverse', {
      fill: async (dialog) => {
        await dialog.getByText('It was settled').waitFor()
        await dialog.getByLabel('Reason').fill('the payer asked for it')
      },
      result: /Audit entry #\d+/,
    })
    await timeline.getByRole('button', { name: /Reversed.*the payer asked for it/ }).waitFor()
    await page.locator('.payment-amount').getByText('Reversed').waitFor()
    const sums = await page.locator('.postings tfoot td').allTextContents()
    expect(sums[0]).toBe(sums[1])
  })

  test('Enter opens what was typed last, however late its results come', async () => {
    const [first, second] = [await pay(service, shop), await pay(service, shop)]
    const { page } = await open('/payments')
    const search = page.getByRole('combobox', { name: 'Search' })
    const results = page.getByRole('listbox', { name: 'Results' })
    await search.fill(first.sessionId)
    await results.getByText(first.sessionId).waitFor()
    const late = await hold(page, 'OverviewService/Search')
    await search.fill(second.sessionId)
    await late.requested
    // The results of the first are not those of the second.
    await results.getByText('Searching').waitFor()
    expect(await results.getByRole('option').count()).toBe(0)
    await search.press('Enter')
    late.release()
    await page.waitForURL(/\/payments\/txn_/)
    expect(page.url()).toContain(second.id)
  })

  test('the frame shows the mode and the business of the object on the page', async () => {
    const own = await openShop(service, { name: 'Adire House' })
    const paid = await pay(service, own)
    const test = await openAccount(service, own.businessId, { terms: { live: false } })
    const { transaction: trial } = await transfer(service, test.accountNumber)
    const objects = [
      [`/payments/${paid.id}`, 'Live'],
      [`/payments/${trial!.id}`, 'Test'],
      [`/accounts/${own.businessId}/${own.reference}`, 'Live'],
    ] as const
    const { page, go } = await open('/')
    for (const [path, mode] of objects) {
      // The URL names the other mode and another business.
      const wrong = mode === 'Live' ? '&mode=test' : ''
      await go(`${path}?business=${shop.businessId}${wrong}`)
      await page.locator('.top-bar').getByText('Adire House').waitFor()
      expect(await page.locator('.switch .on').innerText(), path).toBe(mode)
      expect(await page.locator('.frame.test-mode').count(), path).toBe(mode === 'Test' ? 1 : 0)
      await isLive(page)
      const link = page.getByRole('link', { name: 'Overview' })
      const kept = `?business=${own.businessId}${mode === 'Test' ? '&mode=test' : ''}`
      expect(await link.getAttribute('href'), path).toBe(`/console/${kept}`)
    }
    // Another mode or business has other objects: their list takes the place of the page.
    await go(`/payments/${paid.id}`)
    await page.locator('.verdict').waitFor()
    await page.getByText('Test', { exact: true }).click()
    await page.getByText('No payments in test mode yet').or(rows(page)).first().waitFor()
    expect(page.url()).toMatch(/\/console\/payments\?mode=test$/)
  })

  test('a letter after g opens a page, also where the letter alone does something else', async () => {
    const { page } = await open('/review')
    await page.getByRole('heading', { name: 'Review' }).waitFor()
    const goBy = (letter: string, path: string) =>
      expect
        .poll(async () => {
          await page.keyboard.press('g')
          await page.keyboard.press(letter)
          return page.url()
        })
        .toContain(path)
    await goBy('s', '/console/settlement')
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await help.getByText('g q').waitFor()
    await help.getByText('Requests').waitFor()
    await page.keyboard.press('Escape')
    await help.waitFor({ state: 'detached' })
    await goBy('q', '/console/requests')
  })

  test('a service that cannot be reached is said in words, with a retry', async () => {
    const { page } = await open('/health')
    await page.getByText('Ready', { exact: true }).first().waitFor()
    await page.route('**/inflow.*/*', (route) => route.abort())
    await page.getByRole('link', { name: 'Accounts' }).click()
    await page.getByRole('alert').getByText('The service cannot be reached.').waitFor()
    await page.unroute('**/inflow.*/*')
    await page.getByRole('alert').getByRole('button', { name: 'Retry' }).click()
    await page.getByRole('alert').waitFor({ state: 'detached' })
  })

  test('a question about one payment is not put about the next', async () => {
    const [first, second] = [await pay(service, shop, 111n), await pay(service, shop, 222n)]
    const { page } = await open(`/payments/${first.id}`)
    await page.locator('.verdict').waitFor()
    const search = page.getByRole('combobox', { name: 'Search' })
    await search.fill(second.id)
    await search.press('Enter')
    await page.waitForURL((url) => url.pathname.endsWith(second.id))
    await page.locator('main').getByText('More', { exact: true }).click()
    await page.getByRole('button', { name: 'Reverse' }).click()
    await page.getByRole('dialog').getByText('₦2.22').waitFor()
    await page.goBack()
    await page.waitForURL((url) => url.pathname.endsWith(first.id))
    await page.locator('.payment-amount').getByText('₦1.11').waitFor()
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
  })

  test('a held payment is accepted where it is shown', async () => {
    const own = await openShop(service, { terms: { amountMinor: 200_000n } })
    const paid = await pay(service, own)
    const { page, act } = await open(`/payments/${paid.id}`)
    await page.locator('.payment-amount').getByText('Held').waitFor()
    await act('Accept', { result: 'Done.' })
    await page.locator('.step strong', { hasText: 'Accepted' }).waitFor()
  })

  test('the overview counts payments as they arrive', async () => {
    const own = await openShop(service, { name: 'Kasuwa' })
    const { page } = await open(`/?business=${own.businessId}`)
    const tile = page.locator('.tile', { hasText: /^Payments/ }).locator('.tile-number')
    await tile.waitFor()
    expect(await tile.textContent()).toBe('0')
    await isLive(page)
    await pay(service, own)
    await tile.getByText('1', { exact: true }).waitFor()
    await page.getByText('PostgreSQL').waitFor()
  })

  test('events are followed, opened in place, and copied as a command', async () => {
    const own = await openShop(service, { name: 'Market' })
    await pay(service, own)
    const { page, go } = await open(`/events?business=${own.businessId}`)
    await page.locator('.event-kind', { hasText: 'PAYMENT_NOTIFICATION' }).waitFor()
    await page.locator('.event-kind', { hasText: 'ACCOUNT_CREATED' }).waitFor()
    await isLive(page)
    await page.mouse.move(0, 0)
    await pay(service, own, 777n)
    await page.locator('.event').nth(2).waitFor()
    await page.locator('.event-line').first().click()
    await page.getByText('"amountMinor": "777"').waitFor()
    await page.getByText('The event and its deliveries').click()
    await page.getByText('It was sent to no endpoint.').waitFor()
    await go(`/events?business=${own.businessId}&kind=ACCOUNT_CREATED`)
    await page.locator('.event').first().waitFor()
    expect(await page.locator('.event').count()).toBe(1)
    // Those of all businesses, back to the first.
    await go('/events?kind=ACCOUNT_CREATED')
    await page.locator('.event').nth(1).waitFor()
  })

  test('its pages are accessible and fit, light or dark, wide or narrow', async () => {
    const paid = await pay(service, shop)
    const { page, follow } = await open('/')
    for (const path of ['/', '/payments', '/events', `/payments/${paid.id}?open=recorded`]) {
      await follow(path)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await isLive(page)
      await page.locator('.bones').first().waitFor({ state: 'detached' })
      await expectAccessible(page)
    }
  })
})
