import type { Command } from 'commander'
import { AccountStatus, IdType, OpeningState } from '../../../gen/inflow/account/v1/account_pb.ts'
import {
  AccountService,
  CreateAccountResponseSchema,
  GetAccountResponseSchema,
  ListAccountsResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import {
  addBusinessOption,
  addModeOptions,
  addPageOptions,
  enumOption,
  enumsOption,
  type ModeOptions,
  modeOf,
  nextPage,
  notePage,
  type PageOptions,
} from '../options.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { accountFields, accountTable } from './account-columns.ts'
import { addCloseAccount } from './close-account.ts'
import { addIdNumberOptions, type IdNumberOptions, readIdNumber } from './id-number.ts'
import { addResolveAccount } from './resolve-account.ts'
import { addSplit, addSplitOptions, type SplitOptions, splitOf } from './split.ts'
import { addTermsOptions, type TermsOptions, termsOf } from './terms.ts'

/** `inflow account` */
export function account(noun: Command): void {
  const create = addBusinessOption(
    addVerb(noun, 'create', {
      summary: 'open an account; repeating it with the same details returns the same account',
      example:
        'account create --reference order-1 --bank 9PSB --first-name Ada --last-name Obi \\\n' +
        '    --email ada@example.com --phone 08012345678',
    }),
  )
    .requiredOption('--reference <text>', "the business's own reference, unique within it")
    .addOption(enumOption('--bank <code>', 'the bank', Bank, 'BANK_').makeOptionMandatory())
    .requiredOption('--first-name <name>', "customer's first name")
    .requiredOption('--last-name <name>', "customer's last name")
    .requiredOption('--email <address>', "customer's e-mail address")
    .requiredOption('--phone <number>', "customer's phone number: 080…, 234… or +…")
    .addOption(enumOption('--id-type <kind>', 'identity number, for PALMPAY', IdType))
    .option('--test', 'open it in test mode, where the sandbox serves every bank')
    .action(createAccount)
  addIdNumberOptions(create, 'identity number, 11 digits, for PALMPAY')
  addTermsOptions(create)
  addSplitOptions(create)
  addBusinessOption(
    addVerb(noun, 'get', { summary: 'show one account', example: 'account get order-1' }),
  )
    .argument('<reference>', "the account's reference (R-…) or the business's own")
    .action(getAccount)
  const list = addPageOptions(
    addModeOptions(
      addVerb(noun, 'list', {
        summary: 'list accounts, newest first',
        example: 'account list --status ACTIVE --limit 20',
      })
        .option('--business <id>', 'of this business only (default: all businesses)')
        .addOption(enumOption('--status <status>', 'with this status only', AccountStatus))
        .addOption(enumOption('--bank <code>', 'at this bank only', Bank, 'BANK_'))
        .addOption(
          enumsOption('--opening <state...>', 'pending ones in these states only', OpeningState),
        )
        .addOption(enumOption('--id-type <kind>', 'kind of that number', IdType)),
    ),
  ).action(listAccounts)
  addIdNumberOptions(list, 'only of the customer with this identity number')
  addSplit(noun)
  addCloseAccount(noun)
  addResolveAccount(noun)
  addServiceOptions(noun)
}

interface CreateOptions extends IdNumberOptions, TermsOptions, SplitOptions {
  readonly business?: string
  readonly reference: string
  readonly bank: Bank
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly idType?: IdType
  readonly test?: boolean
}

const createAccount = serviceAction<CreateOptions>(async (service, options) => {
  const { reference, bank, firstName, lastName, email, phone } = options
  const idNumber = await readIdNumber(options)
  const split = splitOf(options)
  const response = await service.client(AccountService).createAccount({
    businessId: service.business(options.business),
    reference,
    bank,
    firstName,
    lastName,
    email,
    phone,
    idType: options.idType ?? IdType.UNSPECIFIED,
    test: options.test ?? false,
    idNumber,
    ...termsOf(options),
    ...(split && { split }),
  })
  printResponse(options, CreateAccountResponseSchema, response, () =>
    accountFields(response.account),
  )
  if (response.replayed) note('The account was already open.')
})

const getAccount = serviceAction<{ business?: string }>(async (service, options, reference) => {
  const businessId = service.business(options.business)
  const response = await service.client(AccountService).getAccount({ businessId, reference })
  printResponse(options, GetAccountResponseSchema, response, () => accountFields(response.account))
})

interface ListOptions extends PageOptions, ModeOptions, IdNumberOptions {
  readonly business?: string
  readonly status?: AccountStatus
  readonly bank?: Bank
  readonly opening?: readonly OpeningState[]
  readonly idType?: IdType
}

const listAccounts = serviceAction<ListOptions>(async (service, options) => {
  const idNumber = await readIdNumber(options)
  const client = service.client(AccountService)
  const request = {
    businessId: options.business ?? '',
    status: options.status ?? AccountStatus.UNSPECIFIED,
    ...modeOf(options),
    idNumber,
    idType: options.idType ?? IdType.UNSPECIFIED,
    bank: options.bank ?? Bank.BANK_UNSPECIFIED,
    openingStates: [...(options.opening ?? [])],
    pageSize: options.limit ?? 0,
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listAccounts({ ...request, pageToken }),
    ({ accounts }) => accounts.length === 0,
  )
  printResponse(options, ListAccountsResponseSchema, response, () =>
    accountTable(response.accounts),
  )
  notePage(response)
})
