import { type Command, InvalidArgumentError } from 'commander'
import { type Account, AccountSchema } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { type FeeBearer, FeeBearerSchema } from '../../gen/inflow/account/v1/split_pb.ts'
import { AmountRuleSchema } from '../../gen/inflow/account/v1/terms_pb.ts'
import { formatAmount, parseAmount } from '../core/money.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { durationSeconds, enumName, enumRule, localTime } from './options.ts'
import { EXIT, Failure, table } from './output.ts'
import { readSecret, readSecretFile } from './read-secret.ts'
import { BUSINESS, MODE, PAGE, rpc } from './rpc-verb.ts'
import type { Service } from './service-action.ts'
import { addVerbs } from './verb.ts'

const COLUMNS =
  'reference, merchantReference=Own reference, live, bank, accountNumber=Number, accountName=Name, status, createdAt'

/** The columns of pending accounts. */
const OPENING = 'opening.state=Opening state, opening.cause'

const COMPUTED = {
  Imported: importedText,
  Customer: ({ customer }: Account) =>
    customer ? `${customer.firstName} ${customer.lastName}` : '',
  Expected: expectedText,
  Split: splitText,
}

const ACCOUNT = columnsOf(
  AccountSchema,
  `${COLUMNS}, ${OPENING}, Imported, opening.attempts, opening.nextTryAt, bankName, Customer,
  customer.email=E-mail, customer.phone, Expected, terms.expiresAt, terms.singleUse?, terms.usedAt,
  terms.endedAt, metadata, Split, businessId, id`,
  COMPUTED,
)

/** The columns of a table depend on whether some accounts are pending or were imported. */
function accountTable(accounts: readonly Account[]): string {
  const isOpening = accounts.some(({ opening }) => opening)
  const isImported = accounts.some(({ importedAt }) => importedAt)
  const columns = [COLUMNS, ...(isOpening ? [OPENING] : []), ...(isImported ? ['Imported'] : [])]
  return table(accounts, columnsOf(AccountSchema, columns.join(), COMPUTED).list)
}

function importedText({ importedAt, bankConfirmed }: Account): string {
  if (importedAt === undefined) return ''
  const confirmed = bankConfirmed ? 'confirmed' : 'not yet confirmed'
  return `${localTime.format(importedAt)}, ${confirmed} by the bank`
}

/** "EXACT 5000.00"; empty for a permanent account, and if no amount is expected. */
function expectedText({ terms }: Account): string {
  if (terms === undefined || terms.amountMinor === 0n) return ''
  return `${enumName(AmountRuleSchema, terms.amountRule)} ${formatAmount(terms.amountMinor)}`
}

/** "biz_1 12.50 %, biz_2 500.00; fee: OWNER"; empty if the owner keeps everything. */
function splitText({ split }: Account): string {
  if (split === undefined) return ''
  const shares = split.recipients.map(({ businessId, basisPoints, amountMinor }) => {
    const part =
      basisPoints > 0 ? `${formatAmount(BigInt(basisPoints))} %` : formatAmount(amountMinor)
    return `${businessId} ${part}`
  })
  return `${shares.join(', ')}; fee: ${enumName(FeeBearerSchema, split.feeBearer)}`
}

const REFERENCE = "<reference>  the account's reference (R-…) or the business's own"
const SPLIT = `--share <business=share...>  businesses that get a share, in their order: biz_…=12.5% or biz_…=500 (naira)
  --fee-bearer <who>  who bears the fee of a split`
const SPLIT_FLAGS = { share: { read: share }, feeBearer: enumRule(FeeBearerSchema) }

/** The options of an identity number, which must not be on the command line. @param what describes the number */
const idNumberOptions = (what: string) =>
  `--id-number <->  ${what}, read from standard input
  --id-number-file <path>  ${what}, read from a file ("-": standard input)`

const ACCOUNT_HELP = `
  create: open an account; repeating it with the same details returns the same account
  ${BUSINESS}
  --reference <text>!  the business's own reference, unique within it
  --bank <code>!  the bank
  --first-name <name>!  customer's first name
  --last-name <name>!  customer's last name
  --email <address>!  customer's e-mail address
  --phone <number>!  customer's phone number: 080…, 234… or +…
  --id-type <kind>  identity number, for PALMPAY
  --test  open it in test mode, where the sandbox serves every bank
  ${idNumberOptions('identity number, 11 digits, for PALMPAY')}
  --amount <naira>  expected amount of a payment
  --amount-rule <rule>  how the amount of a payment has to compare with it
  --expires-in <duration>  close the account after this time, such as 30m
  --single-use  close the account after the first payment that is as expected
  --allowed-payer <names...>  names of the allowed payers
  --metadata <key=value...>  the business's own data
  ${SPLIT}
  Example: account create --reference order-1 --bank 9PSB --first-name Ada --last-name Obi \\
    --email ada@example.com --phone 08012345678

  get: show one account
  ${BUSINESS}
  ${REFERENCE}
  Example: account get order-1

  list: list accounts, newest first
  --business <id>  of this business only (default: all businesses)
  --status <status>  with this status only
  --bank <code>  at this bank only
  --email <address>  of the customer with this e-mail address only; needs --business
  --opening <state...>  pending accounts in these opening states only
  --id-type <kind>  kind of the identity number
  ${MODE}
  ${PAGE}
  ${idNumberOptions('only of the customer with this identity number')}
  Example: account list --status ACTIVE --limit 20

  split: divide the payments into an account that are recorded from now on
  ${BUSINESS}
  ${REFERENCE}
  ${SPLIT}
  --none  leave everything to the owner
  Example: account split order-1 --share biz_…=12.5% biz_…=500

  close: close an account; later payments into it are recorded as unmatched
  ${BUSINESS}
  ${REFERENCE}
  ${YES}
  Example: account close order-1

  resolve: resolve a pending account with the result that the bank reports
  ${BUSINESS}
  ${REFERENCE}
  --account-number <digits>  the bank opened it: its account number, ten digits
  --account-name <name>  its name at the bank (default: the requested name)
  --bank-account-id <id>  the bank's own identifier of the account, if it has one
  --not-opened  the bank opened nothing: the reference may be used again
  ${YES}
  Example: account resolve order-1 --account-number 1234567890`

export function account(noun: Command): void {
  addVerbs(noun, ACCOUNT_HELP, {
    create: rpc(AccountService.method.createAccount, {
      flags: {
        ...SPLIT_FLAGS,
        expiresIn: { field: 'expiresInSeconds', read: durationSeconds },
        metadata: { field: 'metadata', read: pairs },
      },
      request: async (
        options: IdNumberOptions & SplitOptions & { allowedPayer?: readonly string[] },
      ) => ({
        idNumber: await readIdNumber(options),
        allowedPayers: (options.allowedPayer ?? []).map((name) => ({ name })),
        ...splitOf(options),
      }),
      shows: ACCOUNT,
      notes: ({ replayed }) => (replayed ? 'The account was already open.' : undefined),
    }),
    get: rpc(AccountService.method.getAccount, { shows: ACCOUNT }),
    list: rpc(AccountService.method.listAccounts, {
      flags: { email: 'customerEmail' },
      request: async (options: IdNumberOptions) => ({ idNumber: await readIdNumber(options) }),
      shows: ({ accounts }) => accountTable(accounts),
    }),
    split: rpc(AccountService.method.setAccountSplit, {
      flags: SPLIT_FLAGS,
      request(options: SplitOptions & { none?: boolean }) {
        const found = splitOf(options)
        if ((found.split === undefined) === (options.none === true)) return found
        throw new Failure(EXIT.usage, 'pass either --share or --none')
      },
      shows: ACCOUNT,
    }),
    close: rpc(AccountService.method.closeAccount, {
      confirms: (request, service) => ({
        ...targetOf(request, service),
        effect: 'It cannot be opened again. Later payments into it are recorded as unmatched.',
      }),
      shows: ACCOUNT,
    }),
    resolve: rpc(AccountService.method.resolveAccount, {
      request: resolutionOf,
      confirms: (request, service) => ({
        ...targetOf(request, service),
        effect:
          request.resolution.case === 'opened'
            ? `Its number becomes ${request.resolution.value.accountNumber}: payments into that number are credited to its business.`
            : 'The bank opened nothing: the pending account is removed.',
      }),
      shows: ACCOUNT,
      notes: (response) =>
        response.account ? undefined : 'Nothing was opened; the reference may be used again.',
    }),
  })
}

/** The target of a confirmation: an account, found by its reference. */
function targetOf(account: { businessId: string; reference: string }, service: Service) {
  const { businessId, reference } = account
  const findId = async () => {
    const found = await service.client(AccountService).getAccount({ businessId, reference })
    return found.account?.id ?? ''
  }
  return { target: `account ${reference}`, findId }
}

interface ResolveOptions {
  readonly accountNumber?: string
  readonly accountName?: string
  readonly bankAccountId?: string
  readonly notOpened?: boolean
}

function resolutionOf(options: ResolveOptions) {
  const { accountNumber, accountName = '', bankAccountId = '', notOpened } = options
  if ((accountNumber === undefined) === (notOpened !== true)) {
    throw new Failure(EXIT.usage, 'pass either --account-number or --not-opened')
  }
  if (accountNumber === undefined) {
    return { resolution: { case: 'notOpened', value: true } as const }
  }
  const value = { accountNumber, accountName, bankAccountId }
  return { resolution: { case: 'opened', value } as const }
}

/** The sources of an identity number. */
interface IdNumberOptions {
  readonly idNumber?: string
  readonly idNumberFile?: string
}

const STANDARD_INPUT = '-'

/**
 * Reads the identity number; empty if no option gives one.
 *
 * @throws Failure if the number is on the command line itself, which others on the machine can see
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

/** Reads "key=value", and adds it to the earlier pairs. */
function pairs(text: string, before: Readonly<Record<string, string>> = {}) {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (key === undefined || value === undefined) throw new InvalidArgumentError('Must be key=value.')
  return { ...before, [key]: value }
}

/** The options that state how payments into an account are divided. */
interface SplitOptions {
  readonly share?: readonly Recipient[]
  readonly feeBearer?: FeeBearer
}

interface Recipient {
  readonly businessId: string
  readonly basisPoints: number
  readonly amountMinor: bigint
}

/** The split of a request; no split without recipients. */
function splitOf({ share: recipients = [], feeBearer = 0 }: SplitOptions) {
  return recipients.length === 0 ? {} : { split: { recipients: [...recipients], feeBearer } }
}

function share(text: string, before: readonly Recipient[] = []): readonly Recipient[] {
  const [, businessId = '', number = '', sign] = /^([^=]+)=([\d.]+)(%?)$/.exec(text) ?? []
  // A percentage with two decimals has the form of an amount: 12.50 % is 1250 basis points like 12.50 NGN is 1250 kobo.
  const value = parseAmount(number)
  if (value === undefined || value === 0n) {
    throw new InvalidArgumentError('Must be business=percentage% or business=naira.')
  }
  const recipient =
    sign === '%'
      ? { businessId, basisPoints: Number(value), amountMinor: 0n }
      : { businessId, basisPoints: 0, amountMinor: value }
  return [...before, recipient]
}

const RECIPIENTS = 'recipientId, businessId, approvedAt'

const RECIPIENT_HELP = `
  approve: let a business divide its payments with another business
  ${BUSINESS}
  <recipient>  the business that may get a share
  Example: recipient approve biz_01jd9w3k6t8v2x4z6b8d0f2h4j

  revoke: let no further split name a recipient; existing splits with it stay until they are changed
  ${BUSINESS}
  <recipient>  the business that may no longer get a share
  Example: recipient revoke biz_01jd9w3k6t8v2x4z6b8d0f2h4j

  list: list the approved recipients of a business
  ${BUSINESS}
  ${PAGE}
  Example: recipient list`

export function recipient(noun: Command): void {
  addVerbs(noun, RECIPIENT_HELP, {
    approve: rpc(AccountService.method.approveSplitRecipient, { shows: RECIPIENTS }),
    revoke: rpc(AccountService.method.revokeSplitRecipient, {
      silent: true,
      notes: (_response, { recipientId }) => `Revoked ${recipientId}.`,
    }),
    list: rpc(AccountService.method.listSplitRecipients, { shows: RECIPIENTS }),
  })
}
