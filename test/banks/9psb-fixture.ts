import { onTestFinished } from 'vitest'
import { createNinePsb } from '../../src/banks/9psb/9psb.ts'
import {
  type FakeNinePsb,
  type FakeNinePsbOptions,
  startFakeNinePsb,
} from '../../src/banks/9psb/fake.ts'
import { readNinePsbSettings } from '../../src/banks/9psb/settings.ts'
import type { LiveConnector } from '../../src/banks/bank.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { connectorParts, settingsOf } from './fixture.ts'

export const ENV = {
  BANK_9PSB_PUBLIC_KEY: '31B24088687A4401',
  BANK_9PSB_PRIVATE_KEY: 'R4lXf-oB-d429kIV_3b_O8Fx',
  BANK_9PSB_NOTIFICATION_USER: 'ninepsb',
  BANK_9PSB_NOTIFICATION_PASSWORD: 'hdUof9b92D0WS40HnOhgtsem',
}

/** The same for the fake bank. */
export const CREDENTIALS = {
  publicKey: ENV.BANK_9PSB_PUBLIC_KEY,
  privateKey: ENV.BANK_9PSB_PRIVATE_KEY,
  notificationUser: ENV.BANK_9PSB_NOTIFICATION_USER,
  notificationPassword: ENV.BANK_9PSB_NOTIFICATION_PASSWORD,
}

/** What permits transfers, as the fake bank expects it by default. */
export const TRANSFERS = {
  BANK_9PSB_TRANSFER_USERNAME: 'test',
  BANK_9PSB_TRANSFER_PASSWORD: 'test',
  BANK_9PSB_TRANSFER_CLIENT_ID: 'waas',
  BANK_9PSB_TRANSFER_CLIENT_SECRET: 'test',
  BANK_9PSB_TRANSFER_ACCOUNT: '1100035911',
  BANK_9PSB_TRANSFER_SENDER: 'Operator Ltd',
}

interface Fixture {
  readonly bank: FakeNinePsb
  readonly connector: LiveConnector
}

/** Starts the fake bank and creates a connector to it over HTTP. */
export async function ninePsbFixture(
  options: Partial<FakeNinePsbOptions> = {},
  env: Readonly<Record<string, string>> = {},
  clock: Clock = systemClock,
): Promise<Fixture> {
  const bank = await startFakeNinePsb({ port: 0, credentials: CREDENTIALS, ...options })
  onTestFinished(() => bank.close())
  const settings = settingsOf(readNinePsbSettings, '9PSB', {
    ...ENV,
    BANK_9PSB_BASE_URL: bank.url,
    ...('BANK_9PSB_TRANSFER_ACCOUNT' in env && { BANK_9PSB_TRANSFER_BASE_URL: bank.transfersUrl }),
    ...env,
  })
  const parts = connectorParts(settings.baseUrl)
  return { bank, connector: createNinePsb({ ...parts, settings, clock }) }
}
