import type { Command } from 'commander'
import {
  AccountService,
  ImportedAccountSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import {
  ImportedTransactionSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { addBusinessOption } from '../options.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { type ImportKind, importFile } from './import-file.ts'

/** `inflow import` */
export function importNoun(noun: Command): void {
  const verbs = [
    addVerb(noun, 'accounts', {
      summary: 'import accounts that another provider opened',
      example: 'import accounts accounts.csv --business biz_… --dry-run',
    }).action(importAccounts),
    addVerb(noun, 'transactions', {
      summary: 'import the history of their payments, which changes no balance',
      example: 'import transactions payments.csv --business biz_…',
    }).action(importTransactions),
  ]
  for (const verb of verbs) {
    addBusinessOption(verb)
      .argument('<file>', 'CSV with a line of headers, or .jsonl with an object on each line')
      .option('--test', 'in test mode')
      .option('--dry-run', 'only validate the file')
      .addHelpText(
        'after',
        '\nThe columns are the fields of the contract, such as account_number or accountNumber; amount is in\n' +
          'naira. Nothing is imported if any row is wrong. A run that was interrupted is repeated.',
      )
  }
  addServiceOptions(noun)
}

interface Options {
  readonly business?: string
  readonly test?: boolean
  readonly dryRun?: boolean
}

const ACCOUNTS: ImportKind<typeof ImportedAccountSchema> = {
  schema: ImportedAccountSchema,
  keysOf: ({ reference, providerReference, bank, accountNumber }) => [
    ['reference', reference],
    ['providerReference', providerReference],
    ['accountNumber', `${bank} ${accountNumber}`],
  ],
}

const importAccounts = serviceAction<Options>(async (service, options, file) => {
  const businessId = service.business(options.business)
  const client = service.client(AccountService)
  await importFile(ACCOUNTS, file, options, async (accounts, validateOnly) => {
    const request = { businessId, test: options.test ?? false, validateOnly, accounts }
    return (await client.importAccounts(request)).results
  })
})

const TRANSACTIONS: ImportKind<typeof ImportedTransactionSchema> = {
  schema: ImportedTransactionSchema,
  keysOf: ({ bank, sessionId }) => [['sessionId', `${bank} ${sessionId}`]],
}

const importTransactions = serviceAction<Options>(async (service, options, file) => {
  const businessId = service.business(options.business)
  const client = service.client(TransactionService)
  await importFile(TRANSACTIONS, file, options, async (transactions, validateOnly) => {
    const request = { businessId, test: options.test ?? false, validateOnly, transactions }
    return (await client.importTransactions(request)).results
  })
})
