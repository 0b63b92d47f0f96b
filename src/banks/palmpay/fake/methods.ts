import { getPath } from '../../get-path.ts'
import type { PalmPayBooks } from './books.ts'
import { orderFields, type PalmPayOrder, toJson } from './order.ts'

/** Prefixes of identity numbers that are rejected. */
export const PALMPAY_MAGIC_IDENTITIES = { notVerified: '000', used: '111' } as const

/** The JSON of a response. */
export type PalmPayBody = Readonly<Record<string, unknown>>

const LISTED_MAX = 50

export const NOT_FOUND: PalmPayBody = { respCode: 'AC100001', respMsg: 'record not found' }
export const BAD_PARAMETER: PalmPayBody = { respCode: 'OPEN_GW_000020', respMsg: 'param error' }

const success = (data: unknown): PalmPayBody => ({
  respCode: '00000000',
  respMsg: 'success',
  data,
})

/** PalmPay's API methods. */
export function createPalmPayMethods(
  books: PalmPayBooks,
  { appId, findsReference }: { readonly appId: string; readonly findsReference: boolean },
) {
  const show = (order: PalmPayOrder) => toJson(orderFields(order, appId))
  return {
    /** A repeated reference opens a second account: PalmPay does not document otherwise. */
    create(body: unknown): PalmPayBody {
      const text = (name: string) => getPath(body, name)
      const number = text('licenseNumber')
      if (number.startsWith(PALMPAY_MAGIC_IDENTITIES.notVerified)) {
        return { respCode: 'AC100007', respMsg: 'license number verification failed' }
      }
      if (number.startsWith(PALMPAY_MAGIC_IDENTITIES.used)) {
        return { respCode: 'AC100009', respMsg: 'license number already used' }
      }
      const isComplete =
        text('virtualAccountName') && text('customerName') && text('accountReference')
      const isKnownKind = /^(personal|personal_nin|company)$/.test(text('identityType'))
      if (!isComplete || !isKnownKind || !/^\d{11}$/.test(number)) return BAD_PARAMETER
      return success(books.open(text('virtualAccountName'), text('accountReference')))
    },
    queryOne(body: unknown): PalmPayBody {
      const [number, reference] = [
        getPath(body, 'virtualAccountNo'),
        findsReference ? getPath(body, 'accountReference') : '',
      ]
      if (!number && !reference) return BAD_PARAMETER
      const account = books.accounts.get(number) ?? books.accountsByReference.get(reference)
      return account ? success(account) : NOT_FOUND
    },
    update(body: unknown): PalmPayBody {
      const account = books.accounts.get(getPath(body, 'virtualAccountNo'))
      const status = getPath(body, 'status')
      if (!account) return NOT_FOUND
      if (status !== 'Enabled' && status !== 'Disabled') return BAD_PARAMETER
      account.status = status
      return success(account)
    },
    detail(body: unknown): PalmPayBody {
      const order = books.orders.get(getPath(body, 'orderNo'))
      return order ? success(show(order)) : NOT_FOUND
    },
    /** Bodies are parsed by `parseBankJson`, so numbers are strings. */
    pageList(body: unknown): PalmPayBody {
      const count = (name: string) => Number(getPath(body, name) || Number.NaN)
      const [from, to, page] = [count('startTime'), count('endTime'), count('pageIndex')]
      const size = count('pageSize')
      if (!(from <= to && page >= 1 && size >= 1 && size <= LISTED_MAX)) return BAD_PARAMETER
      const number = getPath(body, 'accountNo')
      const found = [...books.orders.values()].filter(
        ({ createdAtMs, accountNumber }) =>
          createdAtMs >= from && createdAtMs < to && (number === '' || number === accountNumber),
      )
      const list = found.slice((page - 1) * size, page * size).map(show)
      return success({ totalCount: found.length, pageIndex: page, pageSize: size, list })
    },
  }
}
