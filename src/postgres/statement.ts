import type { EntitySchemaWithMeta } from '@mikro-orm/core'
import type { InferKyselyTable } from '@mikro-orm/postgresql'
import type { Selectable } from 'kysely'

/** The bound values of a statement whose conditions vary. */
interface Binding {
  readonly values: unknown[]
  /** Adds a value. @returns its placeholder, such as `$3` */
  readonly bind: (value: unknown) => string
}

/** @param first the values of `$1`, `$2` and so on, which all forms of the statement have */
export function bindValues(...first: unknown[]): Binding {
  const values = [...first]
  return { values, bind: (value) => `$${values.push(value)}` }
}

/**
 * A row of an entity's table as the driver returns it: a `bigint` is text, and times are selected as milliseconds:
 * `round(date_part('epoch', paid_at) * 1000) as paid_at_ms`.
 */
export type RowOf<Entity extends EntitySchemaWithMeta> = RowOfColumns<
  Selectable<InferKyselyTable<Entity>>
>

type RowOfColumns<Columns> = {
  readonly [Name in keyof Columns & string as Date extends Columns[Name]
    ? `${Name}_ms`
    : Name]: ValueOf<Columns[Name]>
}

type ValueOf<Value> = Value extends bigint ? string : Value extends Date ? number : Value
