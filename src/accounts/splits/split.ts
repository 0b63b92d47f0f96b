import type { FieldFault } from '../../core/errors.ts'

/**
 * Who bears the fee of a payment that is split. OWNER: percentages apply to the amount. SHARED: they apply to the amount
 * less the fee, so that each recipient bears a part of the fee in proportion to its percentage.
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

/** The time from which the version is valid with which an account was opened. */
export const FROM_THE_START = 0

/** The names of the two kinds of shares in a protocol. */
export interface ShareNames {
  readonly points: string
  readonly amount: string
}

const ALL_POINTS = 10_000

/** The faults of a requested split that can be seen from the request alone. */
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
      faults.push({ field: `${at}.businessId`, message: 'must not be named twice' })
    }
    if ((basisPoints === undefined) === (fixedMinor === undefined)) {
      faults.push({ field: at, message: `must have either ${names.points} or ${names.amount}` })
    }
    const isOver = points <= ALL_POINTS && points + (basisPoints ?? 0) > ALL_POINTS
    if (isOver) {
      faults.push({ field: `${at}.${names.points}`, message: 'must not raise the sum above 100 %' })
    }
    points += basisPoints ?? 0
    seen.add(businessId)
    return faults
  })
}

/** A split as one text, which is equal only for equal splits; undefined: the owner keeps everything. */
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
