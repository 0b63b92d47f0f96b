import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { openAccount, openShop, pay, type Shop, settleAll, transfer } from '../overview/scene.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectAccessible, hold, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('payments, the overview and events in a browser', () => {
  const service = useService()
  const open = useBrowser(service)

  let shop: Shop
  beforeAll(async () => {
    shop = await openShop(service, { name: 'Ọjà Stores' })
  })

  const readToken = async (...businessIds: string[]) =>
    (
      await service
        .client(AdminService)
        .issueToken({ name: 'reader', scopes: ['read', 'events:subscribe'], businessIds })
    ).secret

  /** The page has the stream, so what happens from now on arrives. */
  const isLive = (page: Page) => page.locator('.connection.live').waitFor()
  const rows = (page: Page) => page.locator('table[aria-label=Payments] tbody tr')

  test('payments appear as they arrive, and wait while the viewer reads', async () => {
    const { page, problems, close } = await open('/payments')
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
    await page.goto(`${service.httpUrl}/console/payments?min=2,000&status=success`)
    await rows(page).getByText('₦9,007,199,254,740.99').waitFor()
    expect(await rows(page).count()).toBe(1)
    // Of the other mode nothing is shown, and nothing arrives.
    await page.goto(`${service.httpUrl}/console/payments?mode=test`)
    await page.getByText('No payments in test mode yet').waitFor()
    expect(problems).toEqual([])
    await close()
  })

  test('a filter is chosen in the page, kept in the URL, and applies to what arrives', async () => {
    const { page, close } = await open(`/payments?business=${shop.businessId}`)
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
    await close()
  })

  test('a row is a link, which a tab can open, and has the focus again on Back', async () => {
    const { page, close } = await open(`/payments?business=${shop.businessId}`)
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
    await waitFor(async () =>
      expect(await page.evaluate('document.activeElement?.dataset.row')).toBe(key),
    )
    await close()
  })

  test('a period is chosen by a word, and the list saved as it is filtered', async () => {
    const sold = await openShop(service, { name: 'Kola' })
    for (let at = 0; at < 3; at++) await pay(service, sold, 100_050n + BigInt(at))
    const { page, close } = await open(`/payments?business=${sold.businessId}&max=1000.51`)
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
    await close()
  })

  test('a phone shows each payment as a card, with its customer and payer', async () => {
    const viewport = { width: 390, height: 844 }
    const { page, close } = await open(`/payments?business=${shop.businessId}`, { viewport })
    const card = rows(page).first()
    await card.getByText('Ada Obi').waitFor()
    await card.getByText('BOLA ADE').waitFor()
    const { width = 0 } = (await card.boundingBox()) ?? {}
    for (const text of ['Ada Obi', 'BOLA ADE']) {
      const box = await card.getByText(text).boundingBox()
      expect(box!.x + box!.width).toBeLessThanOrEqual(width + 16)
    }
    await close()
  })

  test('a payment is found by its payer or its amount', async () => {
    const { page, close } = await open('/')
    const box = page.getByRole('combobox', { name: 'Search' })
    const result = page.getByRole('option').filter({ hasText: 'Ada Obi' }).first()
    for (const text of ['bola a', '9,007,199,254,740.99']) {
      await box.fill(text)
      await result.waitFor()
    }
    await result.getByText('₦9,007,199,254,740.99').waitFor()
    await box.press('Enter')
    await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor()
    await page.locator('.payment-amount').getByText('₦9,007,199,254,740.99').waitFor()
    await close()
  })

  test('the keyboard walks the rows and opens a payment', async () => {
    const { page, close } = await open('/payments')
    await rows(page).first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    expect(
      await page.evaluate('document.querySelectorAll("[data-row]")[1] === document.activeElement'),
    ).toBe(true)
    await page.keyboard.press('k')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor()
    expect(page.url()).toContain('/payments/txn_')
    await close()
  })

  test("a payment's page grows with what happens, and says what is to come", async () => {
    const receiver = await startReceiver()
    receiver.answer({ status: 500, body: '{"error":"no space left"}' })
    const own = await openShop(service, { name: 'Duka' })
    await service
      .client(WebhookService)
      .createEndpoint({ businessId: own.businessId, url: `${receiver.url}/hook` })
    const paid = await pay(service, own)
    const { page, problems, close } = await open(`/payments/${paid.id}`)
    const timeline = page.locator('.timeline')
    await timeline.locator('.step').first().getByText('Paid', { exact: true }).waitFor()
    await timeline.getByText('by an internal service').waitFor()
    await timeline.getByText('PAYMENT_NOTIFICATION').waitFor()
    const attempt = timeline.getByRole('button', { name: 'Attempt 1' })
    await timeline
      .getByRole('link', { name: /^Payment notification to 127\.0\.0\.1:\d+/ })
      .waitFor()
    await attempt.locator('.status', { hasText: '500' }).waitFor()
    await timeline.locator('.expected').getByText('Attempt 2').waitFor()
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
    receiver.answer({ status: 200 })
    await verdict.getByRole('button', { name: 'Send now' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Send now' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await page.locator('.timeline').getByRole('button', { name: 'Attempt 2' }).waitFor()
    await page.getByText('More', { exact: true }).click()
    await page.getByRole('button', { name: 'Reverse' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('It was settled').waitFor()
    await dialog.getByLabel('Reason').fill('the payer asked for it')
    await dialog.getByRole('button', { name: 'Reverse' }).click()
    await dialog.getByText(/Audit entry #\d+/).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await timeline.getByRole('button', { name: /Reversed.*the payer asked for it/ }).waitFor()
    await page.locator('.payment-amount').getByText('Reversed').waitFor()
    const sums = await page.locator('.postings tfoot td').allTextContents()
    expect(sums[0]).toBe(sums[1])
    expect(problems).toEqual([])
    await close()
    await receiver.close()
  })

  test('Enter opens what was typed last, however late its results come', async () => {
    const [first, second] = [await pay(service, shop), await pay(service, shop)]
    const third = await pay(service, shop)
    const { page, problems, close } = await open('/payments')
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
    // Who types on has not asked for what was typed before.
    const later = await hold(page, 'OverviewService/Search')
    await search.fill(third.sessionId)
    await search.press('Enter')
    await search.fill(`${third.sessionId}-`)
    later.release()
    await results.getByText('Nothing found').waitFor()
    expect(page.url()).toContain(second.id)
    expect(problems).toEqual([])
    await close()
  })

  test('the frame shows the mode and the business of the object on the page', async () => {
    const receiver = await startReceiver()
    const own = await openShop(service, { name: 'Adire House' })
    const webhooks = service.client(WebhookService)
    const { endpoint } = await webhooks.createEndpoint({
      ...{ businessId: own.businessId, url: `${receiver.url}/hook` },
    })
    const paid = await pay(service, own)
    const settlementId = await settleAll(service, own.businessId, 1n)
    const [delivery] = await waitFor(async () => {
      const { deliveries } = await webhooks.listDeliveries({ endpointId: endpoint!.id })
      expect(deliveries.length).toBeGreaterThan(0)
      return deliveries
    })
    const { account } = await service.client(AccountService).createAccount({
      ...{ businessId: own.businessId, bank: Bank.BANK_9PSB, reference: 'trial', test: true },
      ...CUSTOMER,
    })
    const { transaction: trial } = await transfer(service, account!.accountNumber)
    const objects: readonly (readonly [path: string, mode: 'Live' | 'Test'])[] = [
      [`/payments/${paid.id}`, 'Live'],
      [`/payments/${trial!.id}`, 'Test'],
      [`/accounts/${own.businessId}/${own.reference}`, 'Live'],
      [`/accounts/${own.businessId}/${account!.reference}`, 'Test'],
      [`/events/${delivery!.eventId}`, 'Live'],
      [`/webhooks/${endpoint!.id}`, 'Live'],
      [`/webhooks/deliveries/${delivery!.id}`, 'Live'],
      [`/settlement/${settlementId}`, 'Live'],
    ]
    const { page, problems, close } = await open('/')
    for (const [path, mode] of objects) {
      // The URL names the other mode and another business.
      const wrong = mode === 'Live' ? '&mode=test' : ''
      await page.goto(`${service.httpUrl}/console${path}?business=${shop.businessId}${wrong}`)
      await page.locator('.top-bar').getByText('Adire House').waitFor()
      expect(await page.locator('.switch .on').innerText(), path).toBe(mode)
      expect(await page.locator('.frame.test-mode').count(), path).toBe(mode === 'Test' ? 1 : 0)
      await isLive(page)
      const link = page.getByRole('link', { name: 'Overview' })
      const kept = `?business=${own.businessId}${mode === 'Test' ? '&mode=test' : ''}`
      expect(await link.getAttribute('href'), path).toBe(`/console/${kept}`)
    }
    // Another mode or business has other objects: their list takes the place of the page.
    await page.goto(`${service.httpUrl}/console/payments/${paid.id}`)
    await page.locator('.verdict').waitFor()
    await page.getByText('Test', { exact: true }).click()
    await page.getByText('No payments in test mode yet').or(rows(page)).first().waitFor()
    expect(page.url()).toMatch(/\/console\/payments\?mode=test$/)
    expect(problems).toEqual([])
    await close()
    await receiver.close()
  })

  test('a letter after g opens a page, also where the letter alone does something else', async () => {
    const { page, close } = await open('/review')
    await page.getByRole('heading', { name: 'Review' }).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('s')
    await page.waitForURL((url) => url.pathname.endsWith('/settlement'))
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await help.getByText('g q').waitFor()
    await help.getByText('Requests').waitFor()
    await page.keyboard.press('Escape')
    await help.waitFor({ state: 'detached' })
    await page.keyboard.press('g')
    await page.keyboard.press('q')
    await page.waitForURL((url) => url.pathname.endsWith('/requests'))
    await close()
  })

  test('a service that cannot be reached is said in words, with a retry', async () => {
    const { page, close } = await open('/health')
    await page.getByText('Ready', { exact: true }).first().waitFor()
    await page.route('**/inflow.*/*', (route) => route.abort())
    await page.getByRole('link', { name: 'Accounts' }).click()
    await page.getByRole('alert').getByText('The service cannot be reached.').waitFor()
    await page.unroute('**/inflow.*/*')
    await page.getByRole('alert').getByRole('button', { name: 'Retry' }).click()
    await page.getByRole('alert').waitFor({ state: 'detached' })
    await close()
  })

  test('a question about one payment is not put about the next', async () => {
    const [first, second] = [await pay(service, shop, 111n), await pay(service, shop, 222n)]
    const { page, close } = await open(`/payments/${first.id}`)
    await page.locator('.verdict').waitFor()
    const search = page.getByRole('combobox', { name: 'Search' })
    await search.fill(second.id)
    await search.press('Enter')
    await page.waitForURL((url) => url.pathname.endsWith(second.id))
    await page.getByText('More', { exact: true }).click()
    await page.getByRole('button', { name: 'Reverse' }).click()
    await page.getByRole('dialog').getByText('₦2.22').waitFor()
    await page.goBack()
    await page.waitForURL((url) => url.pathname.endsWith(first.id))
    await page.locator('.payment-amount').getByText('₦1.11').waitFor()
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
    await close()
  })

  test('a held payment is accepted where it is shown', async () => {
    const own = await openShop(service, { terms: { amountMinor: 200_000n } })
    const paid = await pay(service, own)
    const { page, close } = await open(`/payments/${paid.id}`)
    await page.locator('.payment-amount').getByText('Held').waitFor()
    await page.getByRole('button', { name: 'Accept' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Accept' }).click()
    await page.getByRole('dialog').getByText('Done.').waitFor()
    await page.locator('.step strong', { hasText: 'Accepted' }).waitFor()
    await close()
  })

  test('a business sees its own payments, and no button that it may not press', async () => {
    const own = await openShop(service, { name: 'Soko' })
    const paid = await pay(service, own)
    const foreign = await pay(service, shop)
    const token = await readToken(own.businessId)
    const { page, close } = await open('/payments', { token })
    await rows(page).first().waitFor()
    expect(await rows(page).count()).toBe(1)
    await rows(page).locator('td').first().click()
    await page.locator('.timeline').getByText('Recorded').waitFor()
    expect(await page.getByText('More', { exact: true }).count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Send now' }).count()).toBe(0)
    await page.goto(`${service.httpUrl}/console/payments/${foreign.id}`)
    await page.getByRole('alert').waitFor()
    await page.goto(`${service.httpUrl}/console/`)
    await page.locator('.tile').first().waitFor()
    expect(await page.getByRole('heading', { name: 'Banks' }).count()).toBe(0)
    expect(paid.businessId).toBe(own.businessId)
    await close()
  })

  test('the overview counts payments as they arrive', async () => {
    const own = await openShop(service, { name: 'Kasuwa' })
    const { page, problems, close } = await open(`/?business=${own.businessId}`)
    const tile = page.locator('.tile', { hasText: /^Payments/ }).locator('.tile-number')
    await tile.waitFor()
    expect(await tile.textContent()).toBe('0')
    await isLive(page)
    await pay(service, own)
    await tile.getByText('1', { exact: true }).waitFor()
    await page.getByText('PostgreSQL').waitFor()
    expect(problems).toEqual([])
    await close()
  })

  test('events are followed, opened in place, and copied as a command', async () => {
    const own = await openShop(service, { name: 'Market' })
    await pay(service, own)
    const { page, problems, close } = await open(`/events?business=${own.businessId}`)
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
    await page.goto(
      `${service.httpUrl}/console/events?business=${own.businessId}&kind=ACCOUNT_CREATED`,
    )
    await page.locator('.event').first().waitFor()
    expect(await page.locator('.event').count()).toBe(1)
    expect(problems).toEqual([])
    await close()
  })

  test('the mode decides what arrives', async () => {
    const own = await openAccount(service, shop.businessId, { terms: { test: true } })
    const { page, close } = await open(`/payments?mode=test&business=${shop.businessId}`)
    await isLive(page)
    await pay(service, shop)
    await transfer(service, own.accountNumber, 4_200n)
    await rows(page).getByText('₦42.00').waitFor()
    expect(await rows(page).count()).toBe(1)
    await close()
  })

  test('its pages are accessible and fit, light or dark, wide or narrow', async () => {
    const paid = await pay(service, shop)
    const { page, close } = await open('/')
    for (const path of ['/', '/payments', '/events', `/payments/${paid.id}?open=recorded`]) {
      await page.goto(`${service.httpUrl}/console${path}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await isLive(page)
      await page.locator('.bones').first().waitFor({ state: 'detached' })
      await expectAccessible(page)
    }
    await close()
  })
})
