import { randomBytes } from 'node:crypto'
import { type FakeNinePsb, startFakeNinePsb } from '../9psb/fake.ts'
import type { BankCode } from '../bank.ts'
import { type FakePalmPay, startFakePalmPay } from '../palmpay/fake.ts'
import { type FakeProvidus, startFakeProvidus } from '../providus/fake.ts'
import { type FakeSafeHaven, startFakeSafeHaven } from '../safehaven/fake/safehaven.ts'

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
  /** Delays before the retries of a notification; default: as each bank does it. */
  readonly retryDelaysMs?: readonly number[]
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

const ninePsbEnvironment = (url: string, keys: ReturnType<typeof newNinePsbKeys>) => ({
  BANK_9PSB_BASE_URL: url,
  BANK_9PSB_PUBLIC_KEY: keys.publicKey,
  BANK_9PSB_PRIVATE_KEY: keys.privateKey,
  BANK_9PSB_NOTIFICATION_USER: keys.notificationUser,
  BANK_9PSB_NOTIFICATION_PASSWORD: keys.notificationPassword,
})

/**
 * @throws RangeError if the service is not on this machine
 * @throws if a port is in use; the banks already started are closed
 */
export async function startFakeBanks(options: FakeBanksOptions): Promise<FakeBanks> {
  const { port: first, serviceUrl, retryDelaysMs, observe } = options
  const started: { close(): Promise<void> }[] = []
  const close = async () => void (await Promise.all(started.map((bank) => bank.close())))
  const notificationsUrl = (bank: BankCode) =>
    `${serviceUrl}/banks/${bank.toLowerCase()}/notifications`
  const common = (bank: BankCode, offset: number) => ({
    port: first === 0 ? 0 : first + offset,
    observe: (line: string) => observe?.(bank, line),
    ...(retryDelaysMs && { retryDelaysMs }),
  })
  const keep = <Bank extends { close(): Promise<void> }>(bank: Bank): Bank => {
    started.push(bank)
    return bank
  }
  const ninePsbKeys = newNinePsbKeys()
  const providusKeys = { clientId: secret(), clientSecret: secret() }
  const providusTransfers = { userName: 'inflow', password: secret(), account: '1700263070' }
  try {
    const ninePsb = keep(
      await startFakeNinePsb({
        ...common('9PSB', 0),
        credentials: ninePsbKeys,
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
        ...ninePsbEnvironment(ninePsb.url, ninePsbKeys),
        ...safeHaven.environment,
        BANK_SAFEHAVEN_CALLBACK_URL: notificationsUrl('SAFEHAVEN'),
        BANK_SAFEHAVEN_CALLBACK_SECRET: secret(),
        BANK_PROVIDUS_BASE_URL: providus.url,
        BANK_PROVIDUS_CLIENT_ID: providusKeys.clientId,
        BANK_PROVIDUS_CLIENT_SECRET: providusKeys.clientSecret,
        BANK_PROVIDUS_TRANSFER_BASE_URL: providus.url,
        BANK_PROVIDUS_TRANSFER_USERNAME: providusTransfers.userName,
        BANK_PROVIDUS_TRANSFER_PASSWORD: providusTransfers.password,
        BANK_PROVIDUS_TRANSFER_ACCOUNT: providusTransfers.account,
        BANK_PROVIDUS_TRANSFER_SENDER: 'Inflow Development',
        ...palmPay.environment,
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
