import type { Command } from 'commander'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { note, print, visible } from '../output.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

/** How often the way it has come is told. */
const EVERY = 500_000n

/** `inflow ledger` */
export function ledger(noun: Command): void {
  addVerb(noun, 'verify', {
    summary: 'compute the whole ledger anew and name what does not agree',
    example: 'ledger verify',
  }).action(verify)
  addServiceOptions(noun)
}

/** Exit code 1 when something does not agree. */
const verify = serviceAction<object>(async (service, options) => {
  let told = 0n
  let result = { transactions: 0n, postings: 0n, differenceCount: 0n, completed: false }
  const stream = service.client(SettlementService).verifyLedger({}, { timeoutMs: 0 })
  for await (const progress of stream) {
    result = progress
    for (const { subject, problem } of progress.differences) {
      print(options.json ? JSON.stringify({ subject, problem }) : `${subject}: ${visible(problem)}`)
    }
    if (progress.transactions - told < EVERY) continue
    told = progress.transactions
    note(`${told.toLocaleString('en')} transactions …`)
  }
  const { transactions, postings, differenceCount, completed } = result
  const what = `${transactions} transactions with ${postings} postings`
  if (!completed) throw new Failure(EXIT.refused, `ended early, after ${what}`)
  if (differenceCount > 0n) {
    throw new Failure(EXIT.refused, `${differenceCount} differences in ${what}`)
  }
  if (options.json)
    print(JSON.stringify({ transactions: `${transactions}`, postings: `${postings}` }))
  else print(`Everything agrees: ${what}`)
})
