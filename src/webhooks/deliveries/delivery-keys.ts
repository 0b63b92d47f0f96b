/** Identifies a delivery. The position says in which partition it is. */
export interface DeliveryKey {
  readonly id: string
  readonly position: bigint
}

/**
 * SQL: the deliveries whose `id` and `position` a CTE has. `any(array(…))` keeps the planner on the
 * primary key, and the range of positions on the partitions between the first and the last: an
 * array of positions would prune none.
 */
export const inCte = (cte: string, alias = 'webhook_delivery') =>
  `${alias}.id = any(array(select id from ${cte})) and ${alias}.position between
    (select min(position) from ${cte}) and (select max(position) from ${cte})`

/** The first and the last position. @param keys at least one */
export function positionRange(keys: readonly DeliveryKey[]): [bigint, bigint] {
  const sorted = keys.map(({ position }) => position).sort((a, b) => (a < b ? -1 : 1))
  return [sorted[0] ?? 0n, sorted.at(-1) ?? 0n]
}
