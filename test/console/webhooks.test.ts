import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DeliveryStatus } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { openAccount, pay } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { expectAccessible, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the pages of webhooks', () => {
  const service = useService()
  const open = useBrowser(service)
  let receiver: Receiver
  let isQueueFull = true
  let business: { id: string }
  let other: { id: string }
  beforeAll(async () => {
    receiver = await startReceiver()
    receiver.answer(({ path }) =>
      path === '/bad' && isQueueFull
        ? { status: 500, body: '{"error":"queue is full"}' }
        : { status: 204 },
    )
    business = await service.business('Ada Stores')
    other = await service.business('Bello Logistics')
    await endpoint(other.id, '/other')
  })
  afterAll(() => receiver?.close())

  async function endpoint(businessId: string, path: string): Promise<string> {
    const created = await service
      .client(WebhookService)
      .createEndpoint({ businessId, url: receiver.url + path })
    return created.endpoint!.id
  }

  const payInto = async (businessId: string) => pay(service, await openAccount(service, businessId))

  it('rehearses a receiver of test mode, and shows each step as it is done', async () => {
    const request = { businessId: business.id, url: `${receiver.url}/good`, live: false }
    const { endpoint: tested } = await service.client(WebhookService).createEndpoint(request)
    const { page, dialog } = await open(`/webhooks/${tested!.id}`)
    await page.getByRole('button', { name: 'Rehearse' }).click()
    await dialog.getByRole('button', { name: 'Rehearse' }).click()
    await dialog.getByText('answered 204 in').first().waitFor()
    // It accepts whatever it is sent.
    await dialog.getByText('accepts a wrong signature: anyone can credit payments').waitFor()
    await dialog.getByText(/^3 steps failed: /).waitFor()
    await dialog.getByText(/203 payments credited, each once, NGN 26000\.50/).waitFor()
    expect(await dialog.getByRole('listitem').count()).toBe(8)
    await expectAccessible(page)
    // Genuinely signed payments that never happened do not reach a live receiver.
    const live = await open(`/webhooks/${await endpoint(business.id, '/live')}`)
    await live.page.getByRole('button', { name: 'Send test' }).waitFor()
    expect(await live.page.getByRole('button', { name: 'Rehearse' }).count()).toBe(0)
  })

  it('creates an endpoint, shows its secret once, and sends it a test event', async () => {
    const { page, dialog, act } = await open('/webhooks')
    await page.getByRole('button', { name: 'Create endpoint' }).click()
    await dialog.getByLabel('Business').fill(business.id)
    await dialog.getByLabel('URL').fill('ftp://127.0.0.1/hooks')
    await dialog.getByRole('button', { name: 'Create endpoint' }).click()
    // What is wrong is said beside the field.
    await dialog.locator('.field', { hasText: 'URL' }).locator('.fault').waitFor()
    await dialog.getByLabel('URL').fill(`${receiver.url}/good`)
    await dialog.getByRole('button', { name: 'Create endpoint' }).click()
    const secret = dialog.getByText(/^whsec_/)
    await secret.waitFor()
    await dialog.getByText(/Audit entry #\d+/).waitFor()
    // Neither Escape nor a click beside it closes it before the secret is kept.
    await page.keyboard.press('Escape')
    await page.mouse.click(5, 5)
    expect(await secret.isVisible()).toBe(true)
    expect(await dialog.getByRole('button', { name: 'Close' }).isDisabled()).toBe(true)
    await dialog.getByLabel('I have kept it').check()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('row', { name: /\/good/ }).click()
    await page.getByRole('heading', { name: /127\.0\.0\.1/ }).waitFor()
    await act('Send test', { result: /^Acknowledged 204 after/ })
    await page.getByRole('row', { name: /Endpoint test.*Delivered/ }).waitFor()
  })

  it('shows what a receiver answers to what fails, and that an endpoint is degraded', async () => {
    const failing = await service.business('Failing Shop')
    const id = await endpoint(failing.id, '/bad')
    await payInto(failing.id)
    const { page, go, act } = await open(`/webhooks/${id}`)
    await act('Send test', { result: 'queue is full' })
    await page.reload()
    const failures = page.getByRole('table', { name: 'What fails' })
    await failures.getByRole('row', { name: /500.*queue is full/ }).waitFor()
    await expectAccessible(page)
    // The receiver works again, but half of the day's attempts failed.
    isQueueFull = false
    const client = service.client(WebhookService)
    const { deliveries } = await client.listDeliveries({ endpointId: id })
    for (const { id: deliveryId } of deliveries) await client.redeliver({ deliveryId })
    await waitUntil(async () => {
      const answer = await client.listDeliveries({ endpointId: id })
      return answer.deliveries.every(({ status }) => status === DeliveryStatus.DELIVERED)
    })
    await go(`/webhooks?business=${failing.id}`)
    await page.getByRole('row', { name: /\/bad.*Degraded/ }).waitFor()
    isQueueFull = true
  })

  it('creates an endpoint for a receiver that exists, and switches to a new text after a test', async () => {
    const { page, dialog, act } = await open('/webhooks')
    await act('Create endpoint', {
      fill: async () => {
        await dialog.getByLabel('Business').fill(business.id)
        await dialog.getByLabel('URL').fill(`${receiver.url}/existing`)
        await dialog.getByLabel('Profile').selectOption('WIAXY')
        await dialog.getByLabel('Text secret').fill('too short')
        await dialog.getByRole('button', { name: 'Create endpoint' }).click()
        await dialog.locator('.field', { hasText: 'Text secret' }).locator('.fault').waitFor()
        await dialog.getByLabel('Text secret').fill('the text of the receiver')
        await dialog.getByLabel('Signature of earlier receivers').selectOption('MD5')
      },
      result: /^Created/,
    })
    await page.getByRole('row', { name: /\/existing/ }).click()
    await page.getByText('MD5 of the text (weak)').waitFor()
    const shown = 'The receiver verifies test events with this text:'
    await act('Rotate text', { result: shown, kept: true })
    await page.getByText(/signs test events until you switch to it/).waitFor()
    await act('Switch text')
    await page.getByText(/signs test events until you switch to it/).waitFor({ state: 'detached' })
  })

  it('sets the options of an endpoint, keeps what is not changed, and removes what is', async () => {
    const { page, dialog, act } = await open('/webhooks')
    await act('Create endpoint', {
      fill: async () => {
        await dialog.getByLabel('Business').fill(other.id)
        await dialog.getByLabel('URL').fill(`${receiver.url}/options`)
        await dialog.getByText(/^Options/).click()
        await dialog.getByLabel('Most requests a second').fill('7')
        await dialog.getByLabel('Headers of every request').fill('x-tenant: ada\nx-shop:7')
        await dialog.getByLabel('Authentication').selectOption('basic')
        await dialog.getByLabel('User name').fill('inflow')
        await dialog.getByLabel('Password').fill('a secret of the receiver')
      },
      kept: true,
    })
    const options = async () => {
      const request = { businessId: other.id }
      const { endpoints } = await service.client(WebhookService).listEndpoints(request)
      return endpoints.find(({ url }) => url.endsWith('/options'))?.options
    }
    const authentication = { case: 'basicUsername', value: 'inflow' }
    const headerNames = ['x-shop', 'x-tenant']
    expect(await options()).toMatchObject({ rateLimit: 7, ordered: false, authentication })
    expect((await options())?.headerNames.toSorted()).toEqual(headerNames)

    await page.getByRole('row', { name: /\/options/ }).click()
    const edit = (change: () => Promise<unknown>) =>
      act('Edit', {
        fill: async () => {
          await dialog.getByText(/^Options/).click()
          await change()
        },
        result: 'Done.',
      })
    await edit(() => dialog.getByLabel('Send events strictly in their order').check())
    expect(await options()).toMatchObject({ rateLimit: 7, ordered: true, authentication })
    expect((await options())?.headerNames.toSorted()).toEqual(headerNames)
    await edit(() => dialog.getByLabel(/^Authentication/).selectOption('none'))
    expect(await options()).toMatchObject({ ordered: true, authentication: { case: undefined } })
  })

  it('shows failing endpoints first, and every attempt of a delivery with request and response', async () => {
    const failing = await endpoint(business.id, '/bad')
    await payInto(business.id)
    await receiver.waitFor((requests) => requests.some(({ path }) => path === '/bad'))
    const { page, act } = await open('/webhooks')
    const first = page.getByRole('row').nth(1)
    await expect
      .poll(async () => {
        if (!(await first.innerText()).includes('Failing')) await page.reload()
        return first.innerText()
      })
      .toContain('/bad')
    // The keyboard walks the rows and opens one.
    await first.focus()
    await page.keyboard.press('j')
    await page.keyboard.press('k')
    await page.keyboard.press('Enter')
    await page.waitForURL(new RegExp(failing))
    await page.getByRole('row', { name: /Payment notification/ }).click()
    // The latest attempt is open: there may be several by now.
    const latest = page.locator('.attempts details[open]')
    await latest.getByText('responded with 500').waitFor()
    await latest.getByText('queue is full').waitFor()
    await page.getByRole('row', { name: /webhook-signature differs by attempt/ }).waitFor()
    await page.getByText('1500.50').waitFor()
    // An endpoint that works again is sent it at once.
    receiver.answer({ status: 204 })
    await act('Redeliver', { result: 'It is due now.' })
    await page.locator('.state-line').getByText('Delivered').waitFor()
  })

  it('adds deliveries as payments arrive, and shows results before the page is gone', async () => {
    const endpointId = await endpoint(business.id, '/gone')
    const { page, act } = await open(`/webhooks/${endpointId}?of=${business.id}`)
    await page.getByText('No deliveries').waitFor()
    await page.getByText('live', { exact: true }).waitFor()
    await payInto(business.id)
    await page.getByRole('row', { name: /Payment notification.*Delivered/ }).waitFor()
    await page.getByRole('button', { name: 'Status' }).click()
    await page.getByLabel('Failed').check()
    await page.getByText('No deliveries').waitFor()
    expect(page.url()).toContain('status=failed')
    await page.keyboard.press('Escape')
    await act('Disable', { result: /Audit entry #\d+/ })
    await page.getByText('An operator disabled it').waitFor()
    await act('Enable', { result: /Audit entry #\d+/ })
    await page.locator('.state-line').getByText('Enabled').waitFor()
    await act('Delete', { result: /Audit entry #\d+/ })
    await page.waitForURL(/\/webhooks$/)
  })

  it('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    const { page } = await open('/webhooks')
    await page.getByRole('row', { name: /\/good/ }).waitFor()
    await expectAccessible(page)
    await page.getByRole('row', { name: /\/good/ }).click()
    await page.getByRole('row', { name: /Endpoint test/ }).click()
    await page.getByText('Attempt 1').waitFor()
    await expectAccessible(page)
  })
})
