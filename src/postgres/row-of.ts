import type { EntitySchemaWithMeta } from '@mikro-orm/core'
import type { InferKyselyTable } from '@mikro-orm/postgresql'
import type { Selectable } from 'kysely'

/**
 * A row of an entity's table as the driver returns it: a `bigint` is text, and a time is selected as
 * `epochMs('paid_at') as paid_at_ms`.
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
