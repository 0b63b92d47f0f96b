import type { Command } from 'commander'
import type { Holiday } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  AddHolidayResponseSchema,
  ListHolidaysResponseSchema,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { addPageOptions, notePage, type PageOptions } from '../options.ts'
import { type Column, fields, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Holiday>[] = [
  { title: 'Day', of: ({ day }) => day },
  { title: 'Name', of: ({ name }) => name },
]

/** `inflow holiday` */
export function holiday(noun: Command): void {
  addVerb(noun, 'add', {
    summary: 'add a holiday, or rename an existing one',
    example: 'holiday add 2026-12-25 --name "Christmas Day"',
  })
    .argument('<day>', 'YYYY-MM-DD')
    .requiredOption('--name <text>', 'the name of the holiday')
    .action(add)
  addVerb(noun, 'remove', {
    summary: 'remove a holiday: the day becomes a working day again',
    example: 'holiday remove 2026-12-25',
  })
    .argument('<day>', 'YYYY-MM-DD')
    .action(remove)
  addPageOptions(
    addVerb(noun, 'list', { summary: 'list holidays in date order', example: 'holiday list' }),
  ).action(list)
  addServiceOptions(noun)
}

const add = serviceAction<{ name: string }>(async (service, options, day) => {
  const response = await service.client(SettlementService).addHoliday({ day, name: options.name })
  printResponse(options, AddHolidayResponseSchema, response, () =>
    response.holiday ? fields(response.holiday, COLUMNS) : '',
  )
})

const remove = serviceAction<object>(async (service, _options, day) => {
  await service.client(SettlementService).removeHoliday({ day })
  note(`Removed ${day}.`)
})

const list = serviceAction<PageOptions>(async (service, options) => {
  const response = await service.client(SettlementService).listHolidays({
    pageSize: options.limit ?? 0,
    pageToken: options.pageToken ?? '',
  })
  printResponse(options, ListHolidaysResponseSchema, response, () =>
    table(response.holidays, COLUMNS),
  )
  notePage(response)
})
