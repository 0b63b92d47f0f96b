import { notificationBody, startFakeNinePsb } from '../../../src/banks/9psb/fake.ts'
import { childProcessMain } from '../child-process-main.ts'
import { type HttpConnection, openHttpConnection } from './http-connection.ts'
import { type Caller, type LoadCommand, type LoadResult, runCallers } from './run-callers.ts'

/** A bank that is paid and notifies the service, one notification at a time on each connection. */
export interface NotificationLoadOptions {
  /** Of the service, which may start later. */
  readonly url: string
  readonly credentials: Parameters<typeof startFakeNinePsb>[0]['credentials']
  readonly accounts: number
  readonly connections: number
}

export interface NotificationLoadReady {
  /** Of the bank. */
  readonly url: string
  readonly accountNumbers: readonly string[]
}

childProcessMain<NotificationLoadOptions, NotificationLoadReady, LoadCommand, LoadResult>(
  async ({ url, credentials, accounts, connections }) => {
    const bank = await startFakeNinePsb({ port: 0, credentials })
    const accountNumbers = Array.from(
      { length: accounts },
      (_, index) => bank.openAccount(`Ada Obi ${index}`).accountNumber,
    )
    const { notificationUser: user, notificationPassword: password } = credentials
    const basic = Buffer.from(`${user}:${password}`).toString('base64')
    const notify = (connection: HttpConnection): Caller => {
      return (done) => {
        const account = accountNumbers[Math.floor(Math.random() * accounts)] as string
        const naira = `${1 + Math.floor(Math.random() * 100_000)}.50`
        const body = notificationBody(bank.receive(account, naira), password)
        connection.post(body, (failure, text) => {
          // The bank repeats the notification after any other code.
          done(failure ?? (text.includes('"code":"00"') ? undefined : text))
        })
      }
    }
    let opening: Promise<readonly Caller[]> | undefined
    const open = () =>
      Promise.all(
        Array.from({ length: connections }, async () =>
          notify(await openHttpConnection({ url, authorization: `Basic ${basic}` })),
        ),
      )
    return {
      ready: { url: bank.url, accountNumbers },
      async run({ seconds }) {
        opening ??= open()
        return runCallers(await opening, seconds)
      },
    }
  },
)
