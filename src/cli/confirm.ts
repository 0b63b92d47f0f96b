import { createInterface } from 'node:readline'
import { Code, ConnectError } from '@connectrpc/connect'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKindSchema, type SearchResult } from '../../gen/inflow/overview/v1/search_pb.ts'
import { formatAmount } from '../core/money.ts'
import { enumName } from './options.ts'
import { EXIT, Failure, visible } from './output.ts'
import type { Service } from './service-action.ts'

/** Options of a verb that cannot be undone. */
export interface YesOption {
  readonly yes?: boolean
}

/** The line of its help text. */
export const YES = '--yes  do not ask for confirmation; required without a terminal'

export interface Confirmation {
  /** The word that confirms. */
  readonly word: string
  /** What is about to happen, in one or more lines. A function is called only if the operator sees the text. */
  readonly question: string | (() => Promise<string>)
}

/** The streams of a terminal; tests replace them. */
interface Terminal {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly output: NodeJS.WritableStream
}

/**
 * Asks the operator to type a word before an action that cannot be undone, unless `--yes` is given.
 *
 * @throws Failure if another text is typed, or the input is not a terminal; it states what would have happened
 */
export async function confirm(
  { yes }: YesOption,
  { word, question }: Confirmation,
  { input, output }: Terminal = { input: process.stdin, output: process.stderr },
): Promise<void> {
  if (yes === true) return
  const text = typeof question === 'string' ? question : await question()
  if (input.isTTY !== true) {
    const lines = text.split('\n')
    throw new Failure(
      EXIT.usage,
      'this cannot be undone, so it needs a confirmation: add --yes',
      lines,
    )
  }
  output.write(`${text}\n`)
  const lines = createInterface({ input, output })
  try {
    const typed = await new Promise<string>((resolve) => {
      lines.once('close', () => resolve(''))
      lines.once('SIGINT', () => resolve(''))
      lines.question(`Type "${word}" to continue: `, resolve)
    })
    if (typed.trim() !== word) throw new Failure(EXIT.refused, 'not confirmed: nothing was changed')
  } finally {
    lines.close()
  }
}

export interface Action {
  readonly word: string
  /** The target of the action: an id, or a text for which `findId` returns the id. */
  readonly target: string
  /** Finds the id of the target, if the target itself is not an id. */
  readonly findId?: () => Promise<string>
  /** The effect on the target. */
  readonly effect: string
}

/** Confirms an action on a stored object: the question describes the object, with its amount. */
export function confirmAction(
  service: Service,
  options: YesOption,
  { word, target, findId = async () => target, effect }: Action,
): Promise<void> {
  const question = async () => {
    try {
      const id = await findId()
      const { results } = await service.client(OverviewService).search({ query: id })
      const found = results.find((result) => result.id === id)
      return `${visible(found ? describe(found) : target)}\n${effect}`
    } catch (error) {
      // A token may have the scope of the action but not the scope to read.
      const isDenied = error instanceof ConnectError && error.code === Code.PermissionDenied
      if (isDenied) return `${visible(target)}\n${effect}`
      throw error
    }
  }
  return confirm(options, { word, question })
}

function describe(result: SearchResult): string {
  const { id, kind, amountMinor, title, subtitle, status, businessId } = result
  const amount = amountMinor === 0n ? '' : `${formatAmount(amountMinor)} NGN`
  const parts = [amount, title, subtitle, status, businessId].filter((part) => part !== '')
  const name = enumName(ResultKindSchema, kind).toLowerCase().replaceAll('_', ' ')
  return `${name} ${id}: ${parts.join(', ')}`
}
