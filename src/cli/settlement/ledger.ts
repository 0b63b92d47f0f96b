import type { Command } from 'commander'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { jsonText, note, print, visible } from '../output.ts'
import { commandProgress } from '../progress.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

/** `inflow ledger` */
export function ledger(noun: Command): void {
  addVerb(noun, 'verify', {
    summary:
      'recompute the ledger, business by business, and report every discrepancy; prints a cursor, from ' +
      'which a later run continues',
    example: 'ledger verify',
  })
    .option(
      '--from <cursor>',
      'continue an interrupted run, or verify only what was written since a completed one',
    )
    .action(verify)
  addServiceOptions(noun)
}

/** Exit code 1 if there is a discrepancy. */
const verify = serviceAction<{ from?: string }>(async (service, options) => {
  const progress = commandProgress(options.json)
  let result = {
    transactions: 0n,
    estimatedTransactions: 0n,
    postings: 0n,
    discrepancyCount: 0n,
    completed: false,
    cursor: options.from ?? '',
  }
  const stream = service
    .client(SettlementService)
    .verifyLedger({ from: options.from ?? '' }, { timeoutMs: 0 })
  try {
    for await (const part of stream) {
      result = part
      if (part.discrepancies.length > 0) progress.end()
      for (const { subject, problem } of part.discrepancies) {
        print(options.json ? jsonText({ subject, problem }) : `${subject}: ${visible(problem)}`)
      }
      const [done, total] = [part.transactions, part.estimatedTransactions].map(Number)
      progress.show('verifying transactions', done ?? 0, total)
    }
    progress.end()
  } catch (error) {
    progress.end()
    if (result.cursor !== '') note(`Continue with --from ${result.cursor}`)
    throw error
  }
  const { transactions, postings, discrepancyCount, completed, cursor } = result
  const scope = `${transactions} transactions with ${postings} postings`
  if (!completed) throw new Failure(EXIT.refused, `the verification ended early, after ${scope}`)
  if (discrepancyCount > 0n) {
    throw new Failure(EXIT.refused, `${discrepancyCount} discrepancies in ${scope}`)
  }
  if (options.json) {
    print(jsonText({ transactions: `${transactions}`, postings: `${postings}`, cursor }))
    return
  }
  print(`The ledger is consistent: ${scope}`)
  note(`To verify only what is written from now on: --from ${cursor}`)
})
