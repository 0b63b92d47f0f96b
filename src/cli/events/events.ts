import { type Command, Option } from 'commander'
import { YES } from '../confirm.ts'
import { addModeOptions, time } from '../options.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { bumpEpoch } from './epoch.ts'
import { listKinds } from './kinds.ts'
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
      summary: 'print events as they happen, until Ctrl-C; --json prints one line for each',
      example: 'events tail --since "2026-11-20 10:00:00" --kind PAYMENT_NOTIFICATION',
    }),
  )
    .addOption(start('--from-beginning', 'start at the oldest stored event'))
    .addOption(start('--since <time>', 'start at this time (default: now)').argParser(time))
    .addOption(start('--cursor <cursor>', 'start after the event with this cursor'))
    .option('--kind <kinds...>', 'only events of these kinds, see events kinds (default: all)')
    .option('--business <ids...>', 'only events of these businesses (default: all)')
    .action(tail)
  addVerb(noun, 'kinds', {
    summary: 'list the kinds of events; of one kind, its JSON schema and an example',
    example: 'events kinds PAYMENT_NOTIFICATION',
  })
    .argument('[kind]', 'show this kind only')
    .action(listKinds)
  addServiceOptions(noun)
  epoch(noun.command('epoch').description('manage the epoch of cursors: bump').helpCommand(false))
}

/** `inflow events epoch` */
function epoch(noun: Command): void {
  addVerb(noun, 'bump', {
    summary:
      'start a new epoch of cursors, after a restore of the database or a failover that lost ' +
      'commits. Earlier cursors are then refused with a safe cursor to resume from, because their ' +
      'positions may now belong to other events',
    example: 'events epoch bump --yes',
  })
    .option(...YES)
    .action(bumpEpoch)
  addServiceOptions(noun)
}
