import { getPath, parseNaira } from '../../bank-fields.ts'
import type { FakeIds } from '../../fake/fake-ids.ts'
import { distort, enquiredName, type RequestFault } from '../../fake/faults.ts'
import type { BookedTransfer, TransferBook, TransferFault } from '../../fake/transfer-book.ts'
import { naira } from './books.ts'
import { done, rejected, type SafeHavenBody } from './methods.ts'

/** The operator's account at the fake bank. */
export const DEBIT_ACCOUNT = { id: '64f0c0ffee64f0c0ffee00d1', number: '0119536307' } as const

const LISTED_MAX = 100

const INSUFFICIENT: SafeHavenBody = { statusCode: 402, message: 'Insufficient balance.' }

/** The bank's words for the states of a transfer. */
const STATUSES = {
  pending: 'Created',
  paid: 'Completed',
  failed: 'Failed',
  returned: 'Completed',
} as const

const CODES = { pending: '09', paid: '00', failed: '07', returned: '00' } as const

/** `code …`: responds with this code instead of the code of the transfer. `reversed`: shows the transfer as reversed. */
export type StatusFault = RequestFault | `code ${string}` | 'reversed'

/** The methods of the bank's API for transfers out of the operator's account. */
export function createOutgoing(
  book: TransferBook,
  ids: FakeIds,
  client: string,
  now: () => number,
) {
  /** The session ids of enquiries, with the account that each was for. */
  const enquiries = new Map<string, string>()
  return {
    enquire(body: unknown, fault: RequestFault): SafeHavenBody {
      const [bankCode, accountNumber] = [getPath(body, 'bankCode'), getPath(body, 'accountNumber')]
      if (!/^\d{6}$/.test(bankCode) || !/^\d{10}$/.test(accountNumber)) {
        return rejected('bankCode and accountNumber are required.')
      }
      const accountName = enquiredName(book, accountNumber, fault)
      if (accountName === undefined) return rejected('Account not found.')
      const sessionId = ids.sessionId(now())
      enquiries.set(sessionId, `${bankCode} ${accountNumber}`)
      const account = { bankCode, accountNumber, accountName, kycLevel: '3' }
      return done('Account name fetched.', { responseCode: '00', sessionId, ...account })
    },
    transfer(body: unknown, fault: RequestFault): SafeHavenBody {
      const text = (name: string) => getPath(body, name)
      const [bankCode, accountNumber] = [
        text('beneficiaryBankCode'),
        text('beneficiaryAccountNumber'),
      ]
      const amountMinor = parseNaira(text('amount'))
      if (text('debitAccountNumber') !== DEBIT_ACCOUNT.number) {
        return rejected('Debit account not found.')
      }
      if (enquiries.get(text('nameEnquiryReference')) !== `${bankCode} ${accountNumber}`) {
        return rejected('Invalid name enquiry reference.')
      }
      if (fault === 'rejected') return rejected('Invalid beneficiary account.')
      if (fault === 'insufficient') return INSUFFICIENT
      if (!amountMinor || text('paymentReference') === '') return rejected('Bad request.')
      const result = book.send(
        {
          reference: text('paymentReference'),
          amountMinor,
          bankCode,
          accountNumber,
          narration: text('narration'),
        },
        fault as TransferFault | undefined,
      )
      if (result === 'insufficient') return INSUFFICIENT
      if (result === 'duplicate') return rejected('Duplicate payment reference.')
      return done('Approved or completed successfully', toJson(distort(result, fault), client))
    },
    /** @returns undefined if there is no such transfer */
    status(body: unknown, fault: StatusFault): SafeHavenBody | undefined {
      const sessionId = getPath(body, 'sessionId')
      const found =
        book.find(getPath(body, 'paymentReference')) ??
        book.list().find((transfer) => sessionId !== '' && transfer.sessionId === sessionId)
      if (found === undefined) return undefined
      const code = fault?.startsWith('code ') ? { responseCode: fault.slice('code '.length) } : {}
      const reversed = fault === 'reversed' ? { isReversed: 'true', responseCode: '96' } : {}
      const transfer = toJson(distort(found, fault as RequestFault), client)
      return done('Transfer fetched.', { ...transfer, ...code, ...reversed })
    },
    list(query: URLSearchParams): SafeHavenBody {
      const [page, limit] = [Number(query.get('page') ?? 0), Number(query.get('limit') ?? 25)]
      const [fromMs, toMs] = ['fromDate', 'toDate'].map((name) => Date.parse(query.get(name) ?? ''))
      const isKnown = query.get('accountId') === DEBIT_ACCOUNT.id
      if (!isKnown || !(limit >= 1 && limit <= LISTED_MAX) || fromMs === undefined) {
        return rejected('Bad request.')
      }
      const found = book.list().filter(({ atMs }) => atMs >= fromMs && atMs < Number(toMs))
      const data = found.slice(page * limit, (page + 1) * limit)
      const pages = Math.ceil(found.length / limit)
      const pagination = { total: found.length, pages, page: String(page), limit: String(limit) }
      const listed = data.map((transfer) => toJson(transfer, client))
      return { ...done('Transfers fetched.', listed), pagination }
    },
    balance: (): SafeHavenBody =>
      done('Account fetched.', {
        _id: DEBIT_ACCOUNT.id,
        accountNumber: DEBIT_ACCOUNT.number,
        accountBalance: naira(book.floatMinor),
      }),
  }
}

/** The transfer, in the form of responses, status queries and the list. */
function toJson(transfer: BookedTransfer, client: string) {
  const { state } = transfer
  const isReturned = state === 'returned'
  return {
    client,
    account: DEBIT_ACCOUNT.id,
    type: 'Outwards',
    sessionId: transfer.sessionId,
    paymentReference: transfer.reference,
    isReversed: isReturned,
    provider: 'NIBSS',
    providerChannel: 'NIP',
    destinationInstitutionCode: transfer.bankCode,
    creditAccountName: transfer.accountName,
    creditAccountNumber: transfer.accountNumber,
    debitAccountNumber: DEBIT_ACCOUNT.number,
    narration: transfer.narration,
    amount: naira(transfer.amountMinor),
    responseCode: CODES[state],
    responseMessage: '',
    status: STATUSES[state],
    createdAt: new Date(transfer.atMs).toISOString(),
  }
}
