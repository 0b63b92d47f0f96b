import type { FieldFault } from '../../core/errors.ts'

/**
 * Who bears the fee of a payment that is split. OWNER: percentages are of the amount. SHARED: of the amount less the
 * fee, so that each bears it in proportion to its percentage.
 */
export const FEE_BEARERS = ['OWNER', 'SHARED'] as const

export type FeeBearer = (typeof FEE_BEARERS)[number]

/** A business that gets a share of each payment: a percentage or a fixed amount. */
export interface SplitRecipient {
  readonly businessId: string
  /** Hundredths of a percent; undefined: a fixed amount. */
  readonly basisPoints: number | undefined
  /** Kobo; undefined: a percentage. */
  readonly fixedMinor: bigint | undefined
}

/** How the payments into an account are divided when they are settled. SQL function: `split_shares`. */
export interface Split {
  /** In the order in which their shares are taken; at least one. */
  readonly recipients: readonly SplitRecipient[]
  readonly feeBearer: FeeBearer
}

/** A version is valid from the start, if the account was opened with it. */
export const FROM_THE_START = 0

/** What a protocol calls the two kinds of shares. */
export interface ShareNames {
  readonly points: string
  readonly amount: string
}

const ALL_POINTS = 10_000

/** What is wrong with a requested split, as far as it can be seen from the request. */
export function faultsOf(
  { recipients }: Split,
  ownerId: string,
  names: ShareNames,
): readonly FieldFault[] {
  const seen = new Set<string>()
  let points = 0
  return recipients.flatMap(({ businessId, basisPoints, fixedMinor }, index) => {
    const at = `split.recipients[${index}]`
    const faults: FieldFault[] = []
    if (businessId === ownerId) {
      faults.push({ field: `${at}.businessId`, message: 'must not be the owner of the account' })
    }
    if (seen.has(businessId)) {
      faults.push({ field: `${at}.businessId`, message: 'must not be a recipient twice' })
    }
    if ((basisPoints === undefined) === (fixedMinor === undefined)) {
      faults.push({ field: at, message: `must have either ${names.points} or ${names.amount}` })
    }
    const isOver = points <= ALL_POINTS && points + (basisPoints ?? 0) > ALL_POINTS
    if (isOver) {
      faults.push({ field: `${at}.${names.points}`, message: 'must not bring the sum over 100 %' })
    }
    points += basisPoints ?? 0
    seen.add(businessId)
    return faults
  })
}

/** A split as one text, which is equal only for equal ones; undefined: the owner keeps everything. */
export function splitText(split: Split | undefined): string | undefined {
  if (split === undefined) return undefined
  return JSON.stringify([
    split.feeBearer,
    ...split.recipients.map(({ businessId, basisPoints, fixedMinor }) => [
      businessId,
      basisPoints ?? null,
      fixedMinor?.toString() ?? null,
    ]),
  ])
}
