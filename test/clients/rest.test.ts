import { describe, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { runProgram } from '../support/program.ts'
import { useSharedService } from '../support/service.ts'
import { guideProgram } from './installed.ts'

const service = useSharedService()
// That of Python speaks gRPC: python.test.ts.
const { Go, PHP } = guideProgram('payments')

describe.each(Object.entries({ Go, PHP }))('the client in %s', (name, command) => {
  test.skipIf(!command)('opens an account, and looks a payment up', async () => {
    const { key } = await service.business(name)
    const run = (...args: string[]) =>
      runProgram(command!(...args), { INFLOW_URL: service.httpUrl, INFLOW_SECRET_KEY: key })
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

  test.skipIf(!command)('says which field is wrong, and which key', async () => {
    const { key } = await service.business()
    const run = (secret: string) =>
      runProgram(command!('x'.repeat(101)), {
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
