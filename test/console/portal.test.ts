import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { Payout } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { fresh, openShop, pay, type Shop, settleAll } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { startReceiver } from '../support/receiver.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectAccessible, loaded, openPortal, useBrowser } from './browser.ts'

/** Texts of the other business that can be recognised wherever they appear. */
const SECRET = {
  name: 'Zanzibar Secret Traders',
  email: 'hidden-customer@zanzibar.example',
  url: 'http://127.0.0.1:9/zanzibar-hook',
  amountMinor: 77_123_457n,
  amountText: '771,234.57',
}

const PAYEE = { bankCode: '058', accountNumber: nuban('058', 145_700_001) }

/** What only operators know: commands, settings, and how the ledger names its accounts. */
const OPERATORS_WORDS = /npx |inflow [a-z]+ [a-z-]+|ADMIN_TOKEN|clearing:/

/** What changes something; none of it is for a token that may only read. */
const CHANGES =
  /^(Reverse|Redeliver|Close the account|Approve a recipient|Open an account|Accept|Return|Assign|Resolve|Settle now|Change the terms|Add a holiday|Verify the ledger|Create|New|Add|Issue|Rotate|Revoke|Recover|Request payout|Upload|Refund|Approve|Reject|Cancel the|Decide|Record a|Pause|Resume|Disable|Enable|Delete|Send a test)\b/

const folder = mkdtempSync(join(tmpdir(), 'inflow-portal-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const LOGO = join(folder, 'logo.svg')
writeFileSync(
  LOGO,
  '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="40"><rect width="120" height="40"/></svg>',
)
/** As light as it may be: the hardest to make legible. */
const BRANDING = { PORTAL_NAME: 'Acme Pay', PORTAL_LOGO_FILE: LOGO, PORTAL_COLOR: '#008700' }

describe.skipIf(!hasBrowser)('the portal of a business', () => {
  const service = useService(BRANDING)
  const open = useBrowser(service)
  let own: Shop
  let other: Shop
  let token: { readonly id: string; readonly secret: string }
  /** The ids of what the other business has. */
  let ids: Readonly<Record<'payment' | 'endpoint' | 'payout' | 'batch', string>>
  let hidden: readonly string[]

  beforeAll(async () => {
    own = await openShop(service, { name: 'Own Shop' })
    other = await openShop(service, { name: SECRET.name, email: SECRET.email })
    await pay(service, own)
    const { id, sessionId } = await pay(service, other, SECRET.amountMinor)
    const webhooks = service.client(WebhookService)
    await webhooks.createEndpoint({ businessId: own.businessId, url: 'http://127.0.0.1:9/own' })
    const hook = { businessId: other.businessId, url: SECRET.url }
    const { endpoint } = await webhooks.createEndpoint(hook)
    await settleAll(service, own.businessId, 1n)
    const settlementId = await settleAll(service, other.businessId, 1n)
    await payOut(own.businessId)
    const payout = await payOut(other.businessId)
    const { batch } = await service.client(PayoutService).createPayouts({
      businessId: other.businessId,
      reference: fresh('hidden-batch'),
      items: [
        {
          reference: fresh('item'),
          amountMinor: 100n,
          beneficiary: { ...PAYEE, accountName: 'Ada Obi' },
        },
      ],
    })
    token = await issueToken(service, ['read'], [own.businessId])
    ids = { payment: id, endpoint: endpoint!.id, payout: payout.id, batch: batch!.id }
    hidden = [
      SECRET.name,
      SECRET.email,
      SECRET.url,
      SECRET.amountText,
      other.businessId,
      other.reference,
      other.accountNumber,
      other.merchantReference,
      ...Object.values(ids),
      sessionId,
      settlementId,
      payout.reference,
      batch!.reference,
    ]
  })

  async function payOut(businessId: string): Promise<Payout> {
    const payouts = service.client(PayoutService)
    const { resolution } = await payouts.resolveAccountName({ businessId, ...PAYEE })
    const reference = fresh('payout')
    const details = { businessId, reference, amountMinor: 100n, beneficiary: PAYEE }
    return (await payouts.createPayout({ ...details, resolution })).payout!
  }

  /** The links of the rail. */
  const railOf = (page: Page) => page.locator('nav.rail a')

  async function settled(page: Page): Promise<void> {
    await page.locator('h1').first().waitFor()
    await loaded(page)
  }

  /** Fails if a button of the page changes something. */
  async function expectNoChange(page: Page, where?: string): Promise<void> {
    const buttons = await page.getByRole('button').allInnerTexts()
    const changes = buttons.filter((each) => CHANGES.test(each.trim()))
    expect(changes, where).toEqual([])
  }

  /** Fails if a text of the other business is among these. */
  function expectNothingHidden(text: string, where: string): void {
    for (const each of hidden) expect(text.includes(each), `${each} in ${where}`).toBe(false)
  }

  test('each page that it shows has nothing of another business, and no change', async () => {
    const { page, follow } = await open('/', { token: token.secret })
    const bodies: Promise<void>[] = []
    let calls = 0
    page.on('response', (response) => {
      if (!response.url().includes('/inflow.')) return
      calls += 1
      expect(response.status(), response.url()).toBe(200)
      // Streams do not end; their events are checked on the page.
      if (response.url().endsWith('/Subscribe')) return
      const read = response.body().then(
        (body) => expectNothingHidden(body.toString('latin1'), response.url()),
        () => undefined,
      )
      bodies.push(read)
    })
    await page.reload()
    await railOf(page).first().waitFor()
    const titles = await railOf(page).locator('.rail-title').allInnerTexts()
    for (const title of [
      'Payments',
      'Payouts',
      'Accounts',
      'Webhooks',
      'Settlement',
      'API keys',
      'Team',
    ]) {
      expect(titles).toContain(title)
    }
    expect(titles).not.toContain('Reconciliation')
    expect(titles).not.toContain('Health')
    for (const path of ['batches', 'rules']) {
      await follow(`/payouts/${path}`)
      await settled(page)
      expectNothingHidden(await page.locator('body').innerText(), path)
      await expectNoChange(page, path)
    }
    for (const title of titles) {
      await railOf(page).filter({ hasText: title }).first().click()
      await settled(page)
      const row = page.locator('tr[data-row].opens').first()
      for (const where of [title, `${title}, opened`]) {
        const text = await page.locator('main').innerText()
        expect(text, where).not.toMatch(OPERATORS_WORDS)
        expectNothingHidden(await page.locator('body').innerText(), where)
        await expectNoChange(page, where)
        if (where !== title || (await row.count()) === 0) break
        await row.click({ position: { x: 4, y: 4 } })
        await settled(page)
      }
    }
    await Promise.all(bodies)
    expect(calls).toBeGreaterThan(10)
  })

  test('it has the name, logo and colour of the settings, legible in both themes; operators do not see them', async () => {
    const { page, follow } = await open('/', { token: token.secret })
    const logo = page.getByRole('img', { name: 'Acme Pay' }).first()
    await logo.waitFor()
    await expect.poll(() => page.evaluate("document.querySelector('.logo').naturalWidth")).toBe(120)
    await settled(page)
    expect(await page.title()).toMatch(/ · Acme Pay$/)
    const accent = "getComputedStyle(document.querySelector('.rail-link.here')).color"
    expect(await page.evaluate(accent)).toMatch(/^oklch\(.* 142/)
    for (const path of ['/', '/payments', '/payouts', '/webhooks', '/settlement']) {
      await follow(path)
      await settled(page)
      await expectAccessible(page)
    }
    const response = await fetch(`${service.httpUrl}/console/logo`)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'image/svg+xml',
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringMatching(/default-src 'none'.*sandbox/),
    })
    const operators = await open('/')
    await settled(operators.page)
    expect(await operators.page.title()).toBe('Overview · Inflow')
    expect(await operators.page.locator('.logo').count()).toBe(0)
    expect(await operators.page.evaluate(accent)).toBe('rgb(11, 107, 99)')
  })

  test('with the scope webhooks:write a business keeps its own webhooks, and nothing else', async () => {
    const receiver = await startReceiver()
    const { page, act, portalLinkId } = await openPortal(open, service, {
      businessId: own.businessId,
      scopes: ['read', 'webhooks:write'],
    })
    await railOf(page).filter({ hasText: 'Webhooks' }).click()
    await act('Create endpoint', {
      fill: (dialog) => dialog.getByLabel('URL').fill(`${receiver.url}/merchant`),
      secret: /^whsec_/,
    })
    await page.getByRole('row', { name: /\/merchant/ }).click()
    await act('Send test', { result: /Audit entry #\d+/ })
    await waitFor(() => expect(receiver.requests).toHaveLength(1))
    const { entries } = await service
      .client(AdminService)
      .listAuditEntries({ action: 'endpoint.create', actorId: portalLinkId })
    expect(entries).toHaveLength(1)
    await railOf(page).filter({ hasText: 'API keys' }).click()
    await settled(page)
    await expectNoChange(page)
    await receiver.close()
  })

  test('addresses of what belongs to others show nothing of it', async () => {
    const { page, go } = await open('/', { token: token.secret })
    const paths = [
      `payments/${ids.payment}`,
      `webhooks/${ids.endpoint}`,
      `settlement?business=${other.businessId}`,
      `payouts/${ids.payout}`,
      `payouts/batches?business=${other.businessId}`,
      `payouts/batches/${other.businessId}/${ids.batch}`,
      `businesses/${other.businessId}`,
    ]
    for (const path of paths) {
      await go(`/${path}`)
      await page.locator('main').waitFor()
      await loaded(page)
      const text = await page.locator('body').innerText()
      for (const each of [SECRET.name, SECRET.email, SECRET.url, SECRET.amountText]) {
        expect(text.includes(each), `${each} at ${path}`).toBe(false)
      }
    }
  })

  test('a session that is revoked leads to the sign-in page, and from there back', async () => {
    const { id: tokenId, secret } = await issueToken(service, ['read'], [own.businessId])
    const { page } = await open('/settlement?month=2026-10', { token: secret })
    await settled(page)
    await service.client(AdminService).revokeToken({ tokenId })
    await waitFor(async () => {
      for (const hasText of ['Payments', 'Settlement']) {
        await railOf(page)
          .filter({ hasText })
          .click({ timeout: 10_000 })
          .catch(() => {})
      }
      expect(page.url()).toContain('/console/sign-in?back=')
    })
    await page.getByText('Your session has ended.').waitFor()
    const back = new URL(page.url()).searchParams.get('back')
    await page.getByLabel('Token').fill(token.secret)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect.poll(() => page.url()).toBe(`${service.httpUrl}/console${back}`)
    await settled(page)
  })
})
