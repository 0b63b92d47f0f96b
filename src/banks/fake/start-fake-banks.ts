import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { type FakeNinePsb, startFakeNinePsb } from '../9psb/fake.ts'
import type { BankCode } from '../bank.ts'
import { type FakePalmPay, startFakePalmPay } from '../palmpay/fake.ts'
import { type FakeProvidus, startFakeProvidus } from '../providus/fake.ts'
import { type FakeSafeHaven, startFakeSafeHaven } from '../safehaven/fake/safehaven.ts'
import type { NinePsbTransferAccess } from './9psb-transfers.ts'
import type { ProvidusTransferAccess } from './providus-transfers.ts'

/** The four fake banks, and the settings of a service that uses them. */
export interface FakeBanks {
  readonly '9PSB': FakeNinePsb
  readonly SAFEHAVEN: FakeSafeHaven
  readonly PROVIDUS: FakeProvidus
  readonly PALMPAY: FakePalmPay
  /** Settings by name, including `BANKS` and credentials that are new at each start. */
  readonly environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

interface FakeBanksOptions {
  /** The first of four consecutive ports; 0 picks free ports. */
  readonly port: number
  /** URL of the service's HTTP server, on this machine. */
  readonly serviceUrl: string
  /** Delays before the retries of a notification; default: those of each bank. */
  readonly retryDelaysMs?: readonly number[]
  /** Default: the clock of the system. */
  readonly clock?: Clock
  /** Called with a line for each request and each notification. */
  readonly observe?: (bank: BankCode, line: string) => void
}

const secret = () => randomBytes(24).toString('base64url')

const newNinePsbKeys = () => ({
  publicKey: secret(),
  privateKey: secret(),
  notificationUser: '9psb',
  notificationPassword: secret(),
})

const newNinePsbTransfers = (): NinePsbTransferAccess => ({
  username: 'inflow',
  password: secret(),
  clientId: 'waas',
  clientSecret: secret(),
  account: '1100035911',
})

const ninePsbEnvironment = (
  { url, transfersUrl }: FakeNinePsb,
  keys: ReturnType<typeof newNinePsbKeys>,
  transfers: NinePsbTransferAccess,
) => ({
  BANK_9PSB_BASE_URL: url,
  BANK_9PSB_TRANSFER_BASE_URL: transfersUrl,
  BANK_9PSB_TRANSFER_USERNAME: transfers.username,
  BANK_9PSB_TRANSFER_PASSWORD: transfers.password,
  BANK_9PSB_TRANSFER_CLIENT_ID: transfers.clientId,
  BANK_9PSB_TRANSFER_CLIENT_SECRET: transfers.clientSecret,
  BANK_9PSB_TRANSFER_ACCOUNT: transfers.account,
  BANK_9PSB_TRANSFER_SENDER: 'Inflow Development',
  BANK_9PSB_PUBLIC_KEY: keys.publicKey,
  BANK_9PSB_PRIVATE_KEY: keys.privateKey,
  BANK_9PSB_NOTIFICATION_USER: keys.notificationUser,
  BANK_9PSB_NOTIFICATION_PASSWORD: keys.notificationPassword,
})

const newProvidusTransfers = (): ProvidusTransferAccess => ({
  userName: 'inflow',
  password: secret(),
  account: '1700263070',
})

const providusEnvironment = (
  url: string,
  keys: { readonly clientId: string; readonly clientSecret: string },
  transfers: ProvidusTransferAccess,
) => ({
  BANK_PROVIDUS_BASE_URL: url,
  BANK_PROVIDUS_CLIENT_ID: keys.clientId,
  BANK_PROVIDUS_CLIENT_SECRET: keys.clientSecret,
  BANK_PROVIDUS_TRANSFER_BASE_URL: url,
  BANK_PROVIDUS_TRANSFER_USERNAME: transfers.userName,
  BANK_PROVIDUS_TRANSFER_PASSWORD: transfers.password,
  BANK_PROVIDUS_TRANSFER_ACCOUNT: transfers.account,
  BANK_PROVIDUS_TRANSFER_SENDER: 'Inflow Development',
})

/**
 * @throws RangeError if the service is not on this machine
 * @throws if a port is in use; the banks already started are closed
 */
export async function startFakeBanks(options: FakeBanksOptions): Promise<FakeBanks> {
  const { port: first, serviceUrl, retryDelaysMs, clock, observe } = options
  const started: { close(): Promise<void> }[] = []
  const close = async () => void (await Promise.all(started.map((bank) => bank.close())))
  const notificationsUrl = (bank: BankCode) =>
    `${serviceUrl}/banks/${bank.toLowerCase()}/notifications`
  const common = (bank: BankCode, offset: number) => ({
    port: first === 0 ? 0 : first + offset,
    observe: (line: string) => observe?.(bank, line),
    ...(retryDelaysMs && { retryDelaysMs }),
    ...(clock && { clock }),
  })
  const keep = <Bank extends { close(): Promise<void> }>(bank: Bank): Bank => {
    started.push(bank)
    return bank
  }
  const ninePsbKeys = newNinePsbKeys()
  const ninePsbTransfers = newNinePsbTransfers()
  const providusKeys = { clientId: secret(), clientSecret: secret() }
  const providusTransfers = newProvidusTransfers()
  try {
    const ninePsb = keep(
      await startFakeNinePsb({
        ...common('9PSB', 0),
        credentials: ninePsbKeys,
        transfers: ninePsbTransfers,
        notify: notificationsUrl('9PSB'),
      }),
    )
    const safeHaven = keep(await startFakeSafeHaven(common('SAFEHAVEN', 1)))
    const providus = keep(
      await startFakeProvidus({
        ...common('PROVIDUS', 2),
        credentials: providusKeys,
        transfers: providusTransfers,
        notify: notificationsUrl('PROVIDUS'),
      }),
    )
    const palmPay = keep(
      await startFakePalmPay({ ...common('PALMPAY', 3), notify: notificationsUrl('PALMPAY') }),
    )
    return {
      '9PSB': ninePsb,
      SAFEHAVEN: safeHaven,
      PROVIDUS: providus,
      PALMPAY: palmPay,
      environment: {
        BANKS: '9PSB=live,SAFEHAVEN=live,PROVIDUS=live,PALMPAY=live',
        ...ninePsbEnvironment(ninePsb, ninePsbKeys, ninePsbTransfers),
        ...safeHaven.environment,
        BANK_SAFEHAVEN_CALLBACK_URL: notificationsUrl('SAFEHAVEN'),
        BANK_SAFEHAVEN_CALLBACK_SECRET: secret(),
        ...providusEnvironment(providus.url, providusKeys, providusTransfers),
        ...palmPay.environment,
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
