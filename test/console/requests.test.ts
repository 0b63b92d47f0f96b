import { beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { creation } from '../protocols/rest/rest.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'
import { expectAccessible, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the log of API requests', () => {
  const service = useService()
  const open = useBrowser(service)
  let own: { id: string; key: string }
  let other: { id: string; key: string }

  beforeAll(async () => {
    own = await service.business('Ada Stores')
    other = await service.business('Other Shop')
    await service.post('getBalance/', own.key, {})
    await service.post('getTransaction/', other.key, { session_id: 'of-other' })
    const refused = { bank: 'NOBANK', idType: 'bvn', idNumber: '22212345678' }
    await service.post('generateVirtualAccount/', own.key, creation(refused))
  })

  test('an operator finds the request that failed, what was wrong with it, and its body', async () => {
    const { page, problems, close } = await open('/requests')
    await page.getByRole('row', { name: /Other Shop.*getTransaction/ }).waitFor()
    await page.getByRole('row', { name: /200 OK.*Ada Stores.*getBalance/ }).waitFor()
    await page.getByRole('button', { name: 'Status' }).click()
    await page.getByLabel('Refused (4xx)').check()
    await expect.poll(() => page.getByRole('row', { name: /getBalance/ }).count()).toBe(0)
    await page.keyboard.press('Escape')
    const row = page.getByRole('row', { name: /422 validation failed.*generateVirtualAccount/ })
    await row.click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('must be one of 9PSB').waitFor()
    const text = await dialog.innerText()
    expect(text).toContain('NOBANK')
    expect(text).not.toContain('22212345678')
    expect(await dialog.getByRole('link', { name: 'About this error' }).getAttribute('href')).toBe(
      '/docs/errors#validation_failed',
    )
    await dialog.getByRole('button', { name: 'Close' }).click()
    expect(problems).toEqual([])
    await close()
  })

  test('of one business, a key is chosen by its first characters', async () => {
    const { page, close } = await open(`/requests?business=${own.id}`)
    await page.getByRole('row', { name: /getBalance/ }).waitFor()
    await page.getByRole('button', { name: 'Key' }).click()
    await page.getByLabel('sk_live_').check()
    await expect.poll(() => page.url()).toContain('key=key_')
    await page.getByRole('row', { name: /getBalance/ }).waitFor()
    await close()
  })

  test('a business sees its own requests alone', async () => {
    const request = { name: 'portal', scopes: ['read'], businessIds: [own.id] }
    const { secret } = await service.client(AdminService).issueToken(request)
    const { page, close } = await open('/', { token: secret })
    await page.getByRole('link', { name: 'Requests' }).click()
    await page.getByRole('row', { name: /getBalance/ }).waitFor()
    expect(await page.getByRole('row', { name: /getTransaction/ }).count()).toBe(0)
    await close()
  })

  test('has no serious fault of accessibility, light or dark, wide or narrow', async () => {
    const { page, close } = await open('/requests')
    await page.getByRole('row', { name: /getBalance/ }).waitFor()
    await expectAccessible(page)
    await page.getByRole('row', { name: /generateVirtualAccount/ }).click()
    await page.getByRole('dialog').waitFor()
    await expectAccessible(page)
    await close()
  })
})
