import { beforeAll, describe, expect, it } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { openAccount, openShop, pay, transfer } from '../overview/scene.ts'
import { creation } from '../protocols/rest/rest.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'
import { expectAccessible, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the pages of businesses, accounts and access', () => {
  const service = useService()
  const open = useBrowser(service)
  let business: { id: string; key: string }
  let other: { id: string; key: string }
  beforeAll(async () => {
    business = await service.business('Ada Stores')
    other = await service.business('Bello Logistics')
  })

  it('creates a business, shows its key once, and finds it by the beginning of its name', async () => {
    const { page, act } = await open('/businesses')
    await act('Create business', {
      fill: (dialog) => dialog.getByLabel('Name', { exact: true }).fill('Chidi & Sons'),
      secret: /^sk_live_/,
    })
    await page.getByRole('row', { name: /Chidi/ }).waitFor()
    await page.getByRole('button', { name: 'Name, alias or id' }).click()
    await page.getByRole('textbox', { name: 'Name, alias or id' }).fill('bello')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByRole('row', { name: /Chidi/ }).count()).toBe(0)
    await page.getByRole('row', { name: /Bello/ }).waitFor()
  })

  it('issues, rotates and revokes a key, and edits the rate limit', async () => {
    const { page, act } = await open(`/businesses/${business.id}`)
    const secret = /^sk_live_/
    await act('Issue key', {
      fill: async (dialog) => {
        await dialog.getByLabel('payments:read').check()
        await dialog.getByLabel('Addresses that it is allowed from').fill('203.0.113.0/99')
        await dialog.getByRole('button', { name: 'Issue key' }).click()
        await dialog.locator('.field', { hasText: 'Addresses' }).locator('.fault').waitFor()
        await dialog.getByLabel('Addresses that it is allowed from').fill('203.0.113.0/24')
      },
      secret,
    })
    const issued = page.getByRole('row', { name: /payments:read.*203\.0\.113\.0\/24/ })
    // Without an overlap the row is no longer active at once: the secret is still shown.
    await act('Rotate', {
      from: issued,
      fill: (dialog) => dialog.getByLabel('Overlap, in hours').fill('0'),
      secret,
    })
    await expect.poll(() => issued.count()).toBe(2)
    await act('Revoke', { from: issued.first(), result: /Audit entry #\d+/ })
    await page.getByRole('row', { name: /Revoked/ }).waitFor()
    await act('Edit', {
      fill: (dialog) => dialog.getByLabel('Requests a second, of each key').fill('50'),
      result: 'Done.',
    })
    await page.getByText('50 a second, 100 at once').waitFor()
  })

  it('makes a portal link that shows one business alone, until it is revoked', async () => {
    const { page, act } = await open(`/businesses/${business.id}`)
    const link = await act('Create link', {
      fill: (dialog) => dialog.getByLabel('For whom, or why').fill('Ngozi'),
      secret: /sign-in#pl_/,
    })
    const { page: portal } = await open('/sign-in', { token: null })
    await portal.goto('about:blank')
    await portal.goto(link)
    await portal.getByRole('link', { name: 'API keys' }).click()
    await portal.getByRole('heading', { name: 'API keys' }).waitFor()
    expect(await portal.getByRole('button', { name: /Issue|Edit|Create/ }).count()).toBe(0)
    // Of access, a business sees what was done that concerns it.
    await portal.getByRole('link', { name: 'Team' }).click()
    await portal.getByRole('row', { name: /portal_link\.create/ }).waitFor()
    expect(await portal.getByText('Tokens').count()).toBe(0)
    await act('Revoke', { from: page.getByRole('row', { name: /Ngozi/ }) })
    await expect
      .poll(async () => {
        await portal.reload()
        return portal.getByLabel('Token').count()
      })
      .toBe(1)
  })

  it('issues and revokes a token, ends a session, and verifies the audit log', async () => {
    const { page, dialog, act } = await open('/access')
    const token = await act('Issue token', {
      fill: async () => {
        await dialog.getByLabel('Name').fill('ledger')
        await dialog.getByLabel('Restricted to these businesses').fill(business.id)
      },
      secret: /^it_/,
    })
    await page.getByRole('row', { name: /ledger.*Ada Stores/ }).waitFor()
    const signedIn = await open('/businesses', { token })
    await signedIn.page.getByRole('heading', { name: 'API keys' }).waitFor()
    await page.getByRole('link', { name: 'Sessions' }).click()
    const session = page.getByRole('row', { name: /ledger/ })
    await act('Revoke', { from: session, result: /Audit entry #\d+/ })
    await expect.poll(() => session.count()).toBe(0)
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('button', { name: 'Verify the log' }).click()
    await page.getByText('Intact', { exact: true }).waitFor()
    await page.getByRole('row', { name: /token\.issue/ }).click()
    await dialog.getByText(business.id).first().waitFor()
  })

  it('shows the balance of a business, its last day, and the health of its endpoints', async () => {
    const shop = await openShop(service, { name: 'Figures Shop' })
    await pay(service, shop, 150_050n)
    const hook = { url: 'http://127.0.0.1:9/hooks', kinds: ['SETTLEMENT_COMPLETED'] }
    const created = { businessId: shop.businessId, ...hook }
    await service.client(WebhookService).createEndpoint(created)
    const { page, follow } = await open(`/businesses/${shop.businessId}`)
    const figure = (text: string) => page.locator('.figure', { hasText: text })
    await figure('received and not settled yet').getByText('₦1,500.50').waitFor()
    await figure('settled, less fees, reversals and payouts').getByText('₦0.00').waitFor()
    await figure('Healthy endpoints').getByText('1 of 1').waitFor()
    await follow(`/businesses/${shop.businessId}?mode=test`)
    await figure('received and not settled yet').getByText('₦0.00').waitFor()
    await figure('Healthy endpoints').getByText('there are none').waitFor()
  })

  it('opens a one-time account with the fields that its bank wants, and shows its terms', async () => {
    const { page, dialog } = await open(`/accounts?business=${business.id}`)
    await page.getByText('No accounts').waitFor()
    await page.getByRole('button', { name: 'Open account' }).click()
    expect(await dialog.getByLabel('Identity number').count()).toBe(0)
    await dialog.getByLabel('Bank').selectOption('PALMPAY')
    await dialog.getByText('One-time terms, and metadata').click()
    for (const [label, text] of [
      ['Identity number', '22222222222'],
      ["The business's own reference", 'invoice-7'],
      ['First name', 'Ọlá'],
      ['Last name', 'Obi'],
      ['E-mail', 'ada@example.com'],
      ['Phone', '12345'],
      ['Expected amount, in naira', '1,000,000.01'],
    ] as const) {
      await dialog.getByLabel(label).fill(text)
    }
    await dialog.getByLabel('For a single payment').check()
    await dialog.getByRole('button', { name: 'Open account' }).click()
    await dialog.locator('.field', { hasText: 'Phone' }).locator('.fault').waitFor()
    await dialog.getByLabel('Phone').fill('08012345678')
    await dialog.getByRole('button', { name: 'Open account' }).click()
    await dialog.getByText(/^Opened/).waitFor()
    await dialog.getByRole('link', { name: 'Look at it' }).click()
    await page.getByText('Exactly ₦1,000,000.01').waitFor()
    await page.getByText('A single payment').waitFor()
  })

  it('shows payments as they arrive, sets a split, and closes the account', async () => {
    const { accountNumber, reference } = await openAccount(service, business.id)
    const { page, act } = await open(`/accounts/${business.id}/${reference}`)
    await page.getByText('No payments yet').waitFor()
    await page.getByText('live', { exact: true }).waitFor()
    await transfer(service, accountNumber, 900_719_925_474_099n)
    await page.getByRole('row', { name: /₦9,007,199,254,740\.99.*Success/ }).waitFor()
    await act('Set split', {
      fill: async (dialog) => {
        await dialog.getByLabel('Business 1').fill(other.id)
        await dialog.getByLabel('Share').fill('12.5%')
      },
      result: 'Done.',
    })
    await page.getByText('12.5% to Bello Logistics').waitFor()
    await act('Close', { result: 'Done.' })
    await page.locator('.state-line').getByText('Closed').waitFor()
  })

  it('resolves a pending opening with what the bank says, and finds accounts by any of their names', async () => {
    // The simulated bank does not respond to it.
    const silent = openAccount(service, business.id, { terms: { phone: '08000000001' } })
    await expect(silent).rejects.toThrow()
    const found = await openAccount(service, business.id)
    const { page, act } = await open('/accounts')
    const openings = page.getByRole('table', { name: 'Pending openings' })
    await openings.getByRole('row', { name: /no response/ }).waitFor()
    await act('Resolve', { from: openings, result: 'The reference may be used again.' })
    await expect.poll(() => openings.count()).toBe(0)
    const name = 'Reference, number or e-mail'
    await page.getByRole('button', { name }).click()
    await page.getByRole('textbox', { name }).fill(found.accountNumber)
    await page.getByRole('button', { name: 'Apply' }).click()
    await page.getByRole('row', { name: new RegExp(found.merchantReference) }).waitFor()
    expect(await page.getByRole('row').count()).toBe(2)
  })

  it('shows an operator the request that failed, what was wrong with it, and its body', async () => {
    await service.post('getBalance/', business.key, {})
    await service.post('getTransaction/', other.key, { session_id: 'of-other' })
    const refused = { bank: 'NOBANK', idType: 'bvn', idNumber: '22212345678' }
    await service.post('generateVirtualAccount/', business.key, creation(refused))
    const { page, dialog, go } = await open('/requests')
    const of = (name: RegExp) => page.getByRole('row', { name })
    await of(/Bello Logistics.*getTransaction/).waitFor()
    await of(/200 OK.*Ada Stores.*getBalance/).waitFor()
    await page.getByRole('button', { name: 'Status' }).click()
    await page.getByLabel('Refused (4xx)').check()
    await expect.poll(() => of(/getBalance/).count()).toBe(0)
    await page.keyboard.press('Escape')
    await of(/422 validation failed.*generateVirtualAccount/).click()
    await dialog.getByText('must be one of 9PSB').waitFor()
    const text = await dialog.innerText()
    expect(text).toContain('NOBANK')
    expect(text).not.toContain('22212345678')
    const about = dialog.getByRole('link', { name: 'About this error' })
    expect(await about.getAttribute('href')).toBe('/docs/errors#validation_failed')
    await expectAccessible(page)
    // A key of one business is chosen by its first characters.
    await go(`/requests?business=${business.id}`)
    await page.getByRole('button', { name: 'Key' }).click()
    await page.getByLabel('sk_live_').first().check()
    await expect.poll(() => page.url()).toContain('key=key_')
  })

  it('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    await service.client(BusinessService).issueKey({ businessId: business.id, test: true })
    await service.client(SessionService).createPortalLink({ businessId: business.id })
    const shop = await openShop(service)
    await pay(service, shop)
    const { page, dialog, follow } = await open('/access')
    for (const [path, row] of [
      ['/access', /ledger/],
      [`/businesses/${business.id}?mode=test`, /sk_test_/],
      ['/requests', /getBalance/],
      [`/accounts/${shop.businessId}/${shop.reference}`, /Success/],
      ['/accounts', new RegExp(shop.merchantReference)],
    ] as const) {
      await follow(path)
      await page.getByRole('row', { name: row }).first().waitFor()
      await expectAccessible(page)
    }
    await page.getByRole('button', { name: 'Open account' }).click()
    await dialog.waitFor()
    await expectAccessible(page)
  })
})
