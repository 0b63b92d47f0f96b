import { beforeAll, describe, expect, it } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { openShop, pay } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'
import { expectAccessible, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the pages of businesses and access', () => {
  const service = useService()
  const open = useBrowser(service)
  let business: { id: string }
  beforeAll(async () => {
    business = await service.business('Ada Stores')
    await service.business('Bello Logistics')
  })

  it('creates a business, shows its key once, and finds it by the beginning of its name', async () => {
    const { page, problems, close } = await open('/businesses')
    await page.getByRole('button', { name: 'Create business' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('Chidi & Sons')
    await dialog.getByRole('button', { name: 'Create business' }).click()
    await dialog.getByText(/^sk_live_/).waitFor()
    await dialog.getByLabel('I have kept it').check()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('row', { name: /Chidi/ }).waitFor()
    await page.getByRole('button', { name: 'Name, alias or id' }).click()
    await page.getByRole('textbox', { name: 'Name, alias or id' }).fill('bello')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByRole('row', { name: /Chidi/ }).count()).toBe(0)
    await page.getByRole('row', { name: /Bello/ }).waitFor()
    expect(problems).toEqual([])
    await close()
  })

  it('issues, rotates and revokes a key, and edits the rate limit', async () => {
    const { page, problems, close } = await open(`/businesses/${business.id}`)
    const dialog = page.getByRole('dialog')
    const keep = async () => {
      await dialog.getByText(/^sk_live_/).waitFor()
      await dialog.getByLabel('I have kept it').check()
      await dialog.getByRole('button', { name: 'Close' }).click()
    }
    await page.getByRole('button', { name: 'Issue key' }).click()
    await dialog.getByLabel('payments:read').check()
    await dialog.getByLabel('Addresses that it is allowed from').fill('203.0.113.0/99')
    await dialog.getByRole('button', { name: 'Issue key' }).click()
    await dialog.locator('.field', { hasText: 'Addresses' }).locator('.fault').waitFor()
    await dialog.getByLabel('Addresses that it is allowed from').fill('203.0.113.0/24')
    await dialog.getByRole('button', { name: 'Issue key' }).click()
    await keep()
    const issued = page.getByRole('row', { name: /payments:read.*203\.0\.113\.0\/24/ })
    await issued.waitFor()
    // Without an overlap the row is no longer active at once: the secret is still shown.
    await issued.getByRole('button', { name: 'Rotate' }).click()
    await dialog.getByLabel('Overlap, in hours').fill('0')
    await dialog.getByRole('button', { name: 'Rotate' }).click()
    await keep()
    await expect.poll(() => issued.count()).toBe(2)
    await issued.first().getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByText(/Audit entry #\d+/).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('row', { name: /Revoked/ }).waitFor()
    await page.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByLabel('Requests a second, of each key').fill('50')
    await dialog.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByText('Done.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByText('50 a second, 100 at once').waitFor()
    // The browser reports the refused addresses.
    expect(problems.filter((problem) => !problem.includes('status of 400'))).toEqual([])
    await close()
  })

  it('makes a portal link that shows one business alone, until it is revoked', async () => {
    const { page, close } = await open(`/businesses/${business.id}`)
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Create link' }).click()
    await dialog.getByLabel('For whom, or why').fill('Ngozi')
    await dialog.getByRole('button', { name: 'Create link' }).click()
    const link = await dialog.getByText(/sign-in#pl_/).innerText()
    await dialog.getByLabel('I have kept it').check()
    await dialog.getByRole('button', { name: 'Close' }).click()
    const portal = await open('/sign-in', { token: null })
    await portal.page.goto('about:blank')
    await portal.page.goto(link)
    await portal.page.getByRole('link', { name: 'API keys' }).click()
    await portal.page.getByRole('heading', { name: 'API keys' }).waitFor()
    expect(await portal.page.getByRole('button', { name: /Issue|Edit|Create/ }).count()).toBe(0)
    // Of access, a business sees what was done that concerns it.
    await portal.page.getByRole('link', { name: 'Team' }).click()
    await portal.page.getByRole('heading', { name: 'What was done' }).waitFor()
    await portal.page.getByRole('row', { name: /portal_link\.create/ }).waitFor()
    expect(await portal.page.getByText('Tokens').count()).toBe(0)
    await page.getByRole('row', { name: /Ngozi/ }).getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByText('Done.').waitFor()
    await expect
      .poll(async () => {
        await portal.page.reload()
        return portal.page.getByLabel('Token').count()
      })
      .toBe(1)
    await portal.close()
    await close()
  })

  it('issues and revokes a token, ends a session, and verifies the audit log', async () => {
    const { page, problems, close } = await open('/access')
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Issue token' }).click()
    await dialog.getByLabel('Name').fill('ledger')
    await dialog.getByLabel('Restricted to these businesses').fill(business.id)
    await dialog.getByRole('button', { name: 'Issue token' }).click()
    const secret = await dialog.getByText(/^it_/).innerText()
    await dialog.getByLabel('I have kept it').check()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('row', { name: /ledger.*Ada Stores/ }).waitFor()
    const signedIn = await open('/businesses', { token: secret })
    await signedIn.page.getByRole('heading', { name: 'API keys' }).waitFor()
    await page.getByRole('link', { name: 'Sessions' }).click()
    const session = page.getByRole('row', { name: /ledger/ })
    await session.getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByText(/Audit entry #\d+/).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => session.count()).toBe(0)
    await page.getByRole('link', { name: 'Audit log' }).click()
    await page.getByRole('button', { name: 'Verify the log' }).click()
    await page.getByText('Intact', { exact: true }).waitFor()
    await page.getByRole('row', { name: /token\.issue/ }).click()
    await dialog.getByText(business.id).first().waitFor()
    expect(problems).toEqual([])
    await signedIn.close()
    await close()
  })

  it('shows the balance of a business, its last day, and the health of its endpoints', async () => {
    const shop = await openShop(service, { name: 'Figures Shop' })
    await pay(service, shop, 150_050n)
    const hook = { url: 'http://127.0.0.1:9/hooks', kinds: ['SETTLEMENT_COMPLETED'] }
    const created = { businessId: shop.businessId, ...hook }
    await service.client(WebhookService).createEndpoint(created)
    const { page, problems, close } = await open(`/businesses/${shop.businessId}`)
    const figure = (text: string) => page.locator('.figure', { hasText: text })
    await figure('received and not settled yet').getByText('₦1,500.50').waitFor()
    await figure('settled, less fees and reversals').getByText('₦0.00').waitFor()
    await figure('Healthy endpoints').getByText('1 of 1').waitFor()
    await expectAccessible(page)
    await page.goto(`${service.httpUrl}/console/businesses/${shop.businessId}?mode=test`)
    await figure('received and not settled yet').getByText('₦0.00').waitFor()
    await figure('Healthy endpoints').getByText('there are none').waitFor()
    expect(problems).toEqual([])
    await close()
  })

  it('shows a token that only reads no button, and no secret', async () => {
    const { secret } = await service
      .client(AdminService)
      .issueToken({ name: 'auditor', scopes: ['read'] })
    const { page, problems, close } = await open('/access', { token: secret })
    await page.getByRole('row', { name: /auditor/ }).waitFor()
    expect(await page.getByRole('button', { name: /Issue|Revoke/ }).count()).toBe(0)
    await page.getByRole('link', { name: 'Businesses' }).click()
    await page.getByRole('row', { name: /Ada Stores/ }).waitFor()
    expect(await page.getByRole('button', { name: 'Create business' }).count()).toBe(0)
    expect(problems).toEqual([])
    await close()
  })

  it('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    await service.client(BusinessService).issueKey({ businessId: business.id, test: true })
    await service.client(SessionService).createPortalLink({ businessId: business.id })
    const { page, close } = await open('/access')
    const look = async (path: string, row: RegExp) => {
      await page.goto(`${service.httpUrl}/console${path}`)
      await page.getByRole('row', { name: row }).first().waitFor()
      await expectAccessible(page)
    }
    await look('/access', /ledger/)
    await look('/access?show=sessions', /this browser/)
    await look('/access?show=audit', /business\.create/)
    await look('/businesses', /Ada Stores/)
    await look(`/businesses/${business.id}?mode=test`, /sk_test_/)
    await close()
  })
})
