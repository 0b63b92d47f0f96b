import { afterAll, expect, test } from 'vitest'
import { freePort } from '../../support/free-port.ts'
import { useService } from '../../support/service.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { createBrowser } from './browser.ts'
import { startProvider } from './provider.ts'

const port = await freePort()
const home = `http://127.0.0.1:${port}`
const provider = await startProvider(`${home}/console/oidc/callback`)

useService({
  HTTP_PORT: `${port}`,
  PUBLIC_URL: home,
  OIDC_ISSUER: provider.issuer,
  OIDC_CLIENT_ID: 'inflow',
})

afterAll(() => provider.close())

const open = () => createBrowser().open(`${home}/console/oidc`, /\/console\/sign-in#|\/auth\?/)

test('nothing is asked of the provider before the first sign-in', () => {
  expect(provider.paths).toEqual([])
})

test('a provider that does not respond is reported within the time-out, and used once it responds', async () => {
  provider.fault = () => undefined
  const attempts = await Promise.all(Array.from({ length: 5 }, open))
  for (const { url } of attempts) {
    expect(url).toBe(`${home}/console/sign-in#error=oidc_unavailable`)
  }
  expect(provider.paths).toHaveLength(1)
  provider.fault = undefined
  await waitUntil(async () => (await open()).url.startsWith(provider.issuer))
  // The library alone would wait for 30 s.
}, 25_000)
