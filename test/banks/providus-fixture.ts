import { onTestFinished } from 'vitest'
import type { LiveConnector } from '../../src/banks/bank.ts'
import {
  type FakeProvidus,
  type FakeProvidusOptions,
  startFakeProvidus,
} from '../../src/banks/providus/fake.ts'
import { createProvidus } from '../../src/banks/providus/providus.ts'
import { readProvidusSettings } from '../../src/banks/providus/settings.ts'
import { connectorParts, settingsOf } from './fixture.ts'

/** The test credentials that the bank publishes. */
export const ENV = {
  BANK_PROVIDUS_CLIENT_ID: 'dGVzdF9Qcm92aWR1cw==',
  BANK_PROVIDUS_CLIENT_SECRET:
    '29A492021F4B709A8D1152C3EF4D32DC5A7092723ECAC4C511781003584B4887' +
    '3CCBFEBDEAE89CF22ED1CB1A836213549BC6638A3B563CA7FC009BEB3BC30CF8',
}

/** What permits transfers, as the fake bank expects it by default. */
export const TRANSFERS = {
  BANK_PROVIDUS_TRANSFER_USERNAME: 'test',
  BANK_PROVIDUS_TRANSFER_PASSWORD: 'test',
  BANK_PROVIDUS_TRANSFER_ACCOUNT: '1700263070',
  BANK_PROVIDUS_TRANSFER_SENDER: 'Operator Ltd',
}

interface Fixture {
  readonly bank: FakeProvidus
  readonly connector: LiveConnector
}

/** Starts the fake bank and creates a connector to it over HTTP. */
export async function providusFixture(
  options: Partial<FakeProvidusOptions> = {},
  env: Readonly<Record<string, string>> = {},
): Promise<Fixture> {
  const credentials = {
    clientId: ENV.BANK_PROVIDUS_CLIENT_ID,
    clientSecret: ENV.BANK_PROVIDUS_CLIENT_SECRET,
  }
  const bank = await startFakeProvidus({ port: 0, credentials, ...options })
  onTestFinished(() => bank.close())
  const settings = settingsOf(readProvidusSettings, 'PROVIDUS', {
    ...ENV,
    BANK_PROVIDUS_BASE_URL: bank.url,
    BANK_PROVIDUS_TRANSFER_BASE_URL: bank.url,
    ...env,
  })
  const parts = connectorParts(settings.baseUrl)
  return { bank, connector: createProvidus({ ...parts, settings }) }
}
