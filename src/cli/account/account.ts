import { type Command, InvalidArgumentError } from 'commander'
import { AccountStatus, IdType, OpeningState } from '../../../gen/inflow/account/v1/account_pb.ts'
import {
  AccountService,
  CloseAccountResponseSchema,
  CreateAccountResponseSchema,
  GetAccountResponseSchema,
  ListAccountsResponseSchema,
  ResolveAccountResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AmountRule } from '../../../gen/inflow/account/v1/terms_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { EXIT, Failure } from '../failure.ts'
import {
  addBusinessOption,
  addModeOptions,
  addPageOptions,
  amount,
  durationSeconds,
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
import { readSecret, readSecretFile } from '../read-secret.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { accountFields, accountTable } from './account-columns.ts'
import { addSplit, addSplitOptions, type SplitOptions, splitOf } from './split.ts'

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

/** Where the command line takes an identity number from. */
interface IdNumberOptions {
  readonly idNumber?: string
  readonly idNumberFile?: string
}

const STANDARD_INPUT = '-'

/** Adds the options to a verb. @param description of the number */
function addIdNumberOptions(verb: Command, description: string): Command {
  return verb
    .option('--id-number <->', `${description}, read from standard input`)
    .option('--id-number-file <path>', `${description}, read from a file ("-": standard input)`)
}

/**
 * Reads the identity number; empty if no option asks for one.
 *
 * @throws Failure when it is on the command line itself, which others on the machine can see
 */
async function readIdNumber({ idNumber, idNumberFile }: IdNumberOptions): Promise<string> {
  if (idNumber !== undefined && idNumber !== STANDARD_INPUT) {
    throw new Failure(EXIT.usage, 'an identity number must not be on the command line', [
      'others on the machine can see it there: pass --id-number-file <path>, or --id-number - and',
      'type it or write it to standard input',
    ])
  }
  if (idNumber !== undefined && idNumberFile !== undefined) {
    throw new Failure(EXIT.usage, '--id-number and --id-number-file are both given: remove one')
  }
  if ((idNumberFile ?? idNumber) === STANDARD_INPUT) return readSecret('Identity number')
  return idNumberFile === undefined ? '' : readSecretFile(idNumberFile, '--id-number-file')
}

/** The options of `inflow account create` that make a one-time account. */
interface TermsOptions {
  readonly amount?: bigint
  readonly amountRule?: AmountRule
  readonly expiresIn?: number
  readonly singleUse?: boolean
  readonly allowedPayer?: readonly string[]
  readonly metadata?: Readonly<Record<string, string>>
}

function addTermsOptions(create: Command): void {
  create
    .option('--amount <naira>', 'expected amount of a payment', amount)
    .addOption(enumOption('--amount-rule <rule>', 'how it has to compare', AmountRule))
    .option('--expires-in <duration>', 'close it after so long, such as 30m', durationSeconds)
    .option('--single-use', 'close it after the first payment that is as expected')
    .option('--allowed-payer <names...>', 'names of those who may pay')
    .option('--metadata <key=value...>', "the business's own data", pairs)
}

/** The fields of the request. */
function termsOf(options: TermsOptions) {
  const { expiresIn, singleUse, allowedPayer = [], metadata = {} } = options
  return {
    amountMinor: options.amount ?? 0n,
    amountRule: options.amountRule ?? AmountRule.UNSPECIFIED,
    ...(expiresIn !== undefined && { expiresInSeconds: expiresIn }),
    singleUse: singleUse ?? false,
    allowedPayers: allowedPayer.map((name) => ({ name })),
    metadata: { ...metadata },
  }
}

function pairs(text: string, before: Readonly<Record<string, string>> = {}) {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (key === undefined || value === undefined) throw new InvalidArgumentError('Must be key=value.')
  return { ...before, [key]: value }
}

/** `inflow account close` */
function addCloseAccount(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'close', {
      summary: 'close an account; later payments into it are recorded as unmatched',
      example: 'account close order-1',
    }),
  )
    .argument('<reference>', "the account's reference (R-…) or the business's own")
    .option(...YES)
    .action(closeAccount)
}

const closeAccount = serviceAction<YesOption & { business?: string }>(
  async (service, options, reference) => {
    const businessId = service.business(options.business)
    const client = service.client(AccountService)
    await confirmAction(service, options, {
      word: 'close',
      target: `account ${reference}`,
      findId: async () => (await client.getAccount({ businessId, reference })).account?.id ?? '',
      effect: 'It cannot be opened again. Later payments into it are recorded as unmatched.',
    })
    const response = await client.closeAccount({ businessId, reference })
    printResponse(options, CloseAccountResponseSchema, response, () =>
      accountFields(response.account),
    )
  },
)

/** `inflow account resolve` */
function addResolveAccount(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'resolve', {
      summary: 'resolve a pending account with the result that the bank reports',
      example: 'account resolve order-1 --account-number 1234567890',
    }),
  )
    .argument('<reference>', "the account's reference (R-…) or the business's own")
    .option('--account-number <digits>', 'the bank opened it: its account number, ten digits')
    .option('--account-name <name>', 'its name at the bank (default: the requested name)')
    .option('--bank-account-id <id>', "the bank's own identifier of the account, if it has one")
    .option('--not-opened', 'the bank opened nothing: the reference may be used again')
    .option(...YES)
    .action(resolveAccount)
}

interface ResolveOptions extends YesOption {
  readonly business?: string
  readonly accountNumber?: string
  readonly accountName?: string
  readonly bankAccountId?: string
  readonly notOpened?: boolean
}

const resolveAccount = serviceAction<ResolveOptions>(async (service, options, reference) => {
  const { accountNumber, accountName = '', bankAccountId = '', notOpened } = options
  if ((accountNumber === undefined) === (notOpened !== true)) {
    throw new Failure(EXIT.usage, 'pass either --account-number or --not-opened')
  }
  const businessId = service.business(options.business)
  const client = service.client(AccountService)
  await confirmAction(service, options, {
    word: 'resolve',
    target: `account ${reference}`,
    findId: async () => (await client.getAccount({ businessId, reference })).account?.id ?? '',
    effect:
      accountNumber === undefined
        ? 'The bank opened nothing: the pending account is removed.'
        : `Its number becomes ${accountNumber}: payments into that number are credited to its business.`,
  })
  const response = await client.resolveAccount({
    businessId,
    reference,
    resolution:
      accountNumber === undefined
        ? { case: 'notOpened', value: true }
        : { case: 'opened', value: { accountNumber, accountName, bankAccountId } },
  })
  printResponse(options, ResolveAccountResponseSchema, response, () =>
    accountFields(response.account),
  )
  if (!response.account) note('Nothing was opened; the reference may be used again.')
})
