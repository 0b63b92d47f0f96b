import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { temporaryFolder } from '../cli/run-inflow.ts'
import { useSharedService } from '../support/service.ts'
import { installed } from './installed.ts'
import { runProgram } from './program.ts'

const service = useSharedService()
const at = (path: string) => join(import.meta.dirname, path)

interface Language {
  readonly program: string | undefined
  readonly command: (program: string) => readonly string[]
}

const LANGUAGES: Readonly<Record<string, Language>> = {
  Go: {
    program: installed.go,
    command(go) {
      const built = join(temporaryFolder(), 'payments')
      execFileSync(go, ['build', '-o', built, at('go/payments.go')])
      return [built]
    },
  },
  PHP: { program: installed.php, command: (php) => [php, at('php/payments.php')] },
}

describe.each(Object.entries(LANGUAGES))('the client in %s', (name, { program, command }) => {
  test.skipIf(!program)('opens an account, and looks a payment up', async () => {
    const { key } = await service.business(name)
    const built = command(program!)
    const run = (...args: string[]) =>
      runProgram([...built, ...args], { INFLOW_URL: service.httpUrl, INFLOW_SECRET_KEY: key })
    const opened = await run('order-1')
    expect(opened).toMatchObject({ code: 0, stderr: '' })
    const [, accountNumber] = /^account (\d{10}) .*Ada Obi.*\n$/i.exec(opened.stdout) ?? []
    expect(accountNumber).toBeDefined()

    const sessionId = `SESSION-${name}`
    const unknown = await run('order-1', sessionId)
    expect(unknown).toMatchObject({ code: 1, stdout: opened.stdout })
    expect(unknown.stderr).toMatch(/^not_found: .+ \(request \S+\)\n$/)

    const request = { bank: Bank.BANK_9PSB, accountNumber: accountNumber!, sessionId }
    const recorder = service.client(TransactionService)
    await recorder.recordPayment({ ...request, amountMinor: 115n })
    expect(await run('order-1', sessionId)).toEqual({
      code: 0,
      stdout: `${opened.stdout}payment 115 SUCCESS\n`,
      stderr: '',
    })
  })

  test.skipIf(!program)('says which field is wrong, and which key', async () => {
    const { key } = await service.business()
    const built = command(program!)
    const run = (secret: string) =>
      runProgram([...built, 'x'.repeat(101)], {
        INFLOW_URL: service.httpUrl,
        INFLOW_SECRET_KEY: secret,
      })
    const invalid = await run(key)
    expect(invalid).toMatchObject({ code: 1, stdout: '' })
    expect(invalid.stderr).toMatch(/^validation_failed: .+ \(request \S+\)\nreference .+\n$/)
    const refused = await run('sk_live_wrong')
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(/^unauthorized: /)
  })
})
