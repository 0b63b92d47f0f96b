import type { Command } from 'commander'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { note, print, visible } from '../output.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

/** The number of transactions between two progress reports. */
const REPORT_EVERY = 500_000n

/** `inflow ledger` */
export function ledger(noun: Command): void {
  addVerb(noun, 'verify', {
    summary: 'recompute the whole ledger and report every discrepancy',
    example: 'ledger verify',
  }).action(verify)
  addServiceOptions(noun)
}

/** Exit code 1 if there is a discrepancy. */
const verify = serviceAction<object>(async (service, options) => {
  let reported = 0n
  let result = { transactions: 0n, postings: 0n, discrepancyCount: 0n, completed: false }
  const stream = service.client(SettlementService).verifyLedger({}, { timeoutMs: 0 })
  for await (const progress of stream) {
    result = progress
    for (const { subject, problem } of progress.discrepancies) {
      print(options.json ? JSON.stringify({ subject, problem }) : `${subject}: ${visible(problem)}`)
    }
    if (progress.transactions - reported < REPORT_EVERY) continue
    reported = progress.transactions
    note(`${reported.toLocaleString('en')} transactions verified …`)
  }
  const { transactions, postings, discrepancyCount, completed } = result
  const scope = `${transactions} transactions with ${postings} postings`
  if (!completed) throw new Failure(EXIT.refused, `the verification ended early, after ${scope}`)
  if (discrepancyCount > 0n) {
    throw new Failure(EXIT.refused, `${discrepancyCount} discrepancies in ${scope}`)
  }
  if (options.json)
    print(JSON.stringify({ transactions: `${transactions}`, postings: `${postings}` }))
  else print(`The ledger is consistent: ${scope}`)
})
