import { afterAll } from 'vitest'
import { startFakeNinePsb } from '../../src/banks/9psb/fake.ts'
import { startFakePalmPay } from '../../src/banks/palmpay/fake.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { ENV } from '../banks/9psb-fixture.ts'

/** Older than the grace period, so that a run does not leave the payment to its notification. */
export const OLD_MS = 600_000

/** Starts fakes of the banks that can list payments. @returns them and the service's settings */
export async function fakeBanks() {
  const ninePsb = await startFakeNinePsb({
    port: 0,
    credentials: {
      publicKey: ENV.BANK_9PSB_PUBLIC_KEY,
      privateKey: ENV.BANK_9PSB_PRIVATE_KEY,
      notificationUser: ENV.BANK_9PSB_NOTIFICATION_USER,
      notificationPassword: ENV.BANK_9PSB_NOTIFICATION_PASSWORD,
    },
  })
  const safeHaven = await startFakeSafeHaven({ port: 0 })
  const palmPay = await startFakePalmPay({ port: 0 })
  afterAll(async () => {
    await Promise.all([ninePsb.close(), safeHaven.close(), palmPay.close()])
  })
  const environment = {
    BANKS: '9PSB=live,SAFEHAVEN=live,PALMPAY=live',
    ...ENV,
    BANK_9PSB_BASE_URL: ninePsb.url,
    ...safeHaven.environment,
    BANK_SAFEHAVEN_CALLBACK_URL: 'http://127.0.0.1:9',
    BANK_SAFEHAVEN_CALLBACK_SECRET: 'callback-secret-0123456789abcdef',
    ...palmPay.environment,
  }
  return { ninePsb, safeHaven, palmPay, environment }
}
