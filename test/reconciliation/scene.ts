import { afterAll } from 'vitest'
import { startFakeNinePsb } from '../../src/banks/9psb/fake.ts'
import { startFakePalmPay } from '../../src/banks/palmpay/fake.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { CREDENTIALS, ENV } from '../banks/9psb-fixture.ts'
import { safeHavenLive } from '../support/live-banks.ts'

/** Older than the grace period, so that a run does not leave the payment to its notification. */
export const OLD_MS = 600_000

/** Starts fakes of the banks that can list payments. @returns them and the service's settings */
export async function fakeBanks() {
  const ninePsb = await startFakeNinePsb({ port: 0, credentials: CREDENTIALS })
  const safeHaven = await startFakeSafeHaven({ port: 0 })
  const palmPay = await startFakePalmPay({ port: 0 })
  afterAll(async () => {
    await Promise.all([ninePsb.close(), safeHaven.close(), palmPay.close()])
  })
  const environment = {
    BANKS: '9PSB=live,SAFEHAVEN=live,PALMPAY=live',
    ...ENV,
    BANK_9PSB_BASE_URL: ninePsb.url,
    ...safeHavenLive(safeHaven),
    ...palmPay.environment,
    BANK_PALMPAY_TIMEOUT_MS: '60000',
    BANK_9PSB_TIMEOUT_MS: '60000',
  }
  return { ninePsb, safeHaven, palmPay, environment }
}
