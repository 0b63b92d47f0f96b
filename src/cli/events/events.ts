import { type Command, Option } from 'commander'
import { addModeOptions, time } from '../options.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { bumpEpoch } from './epoch.ts'
import { tail } from './tail.ts'

/** `inflow events` */
export function events(noun: Command): void {
  const starts = ['fromBeginning', 'since', 'cursor']
  const start = (flags: string, text: string) => {
    const option = new Option(flags, text)
    return option.conflicts(starts.filter((name) => name !== option.attributeName()))
  }
  addModeOptions(
    addVerb(noun, 'tail', {
      summary: 'print events as they happen, until Ctrl-C; with --json one line for each',
      example: 'events tail --since "2026-11-20 10:00:00" --kind PAYMENT_NOTIFICATION',
    }),
  )
    .addOption(start('--from-beginning', 'start at the oldest event that is kept'))
    .addOption(start('--since <time>', 'start at this time (default: now)').argParser(time))
    .addOption(start('--cursor <cursor>', 'start after the event that carried this cursor'))
    .option('--kind <kinds...>', 'only events of these kinds (default: of all)')
    .option('--business <ids...>', 'only events of these businesses (default: of all)')
    .action(tail)
  addServiceOptions(noun)
  epoch(noun.command('epoch').description('epochs of cursors: bump').helpCommand(false))
}

/** `inflow events epoch` */
function epoch(noun: Command): void {
  addVerb(noun, 'bump', {
    summary:
      'start a new epoch of cursors: for after a restore of the database, or a failover that lost ' +
      'commits. Cursors made before are refused with a safe place to go on, as other events may ' +
      'stand where they point',
    example: 'events epoch bump --yes',
  })
    .option('--yes', 'do not ask for a confirmation')
    .action(bumpEpoch)
  addServiceOptions(noun)
}
