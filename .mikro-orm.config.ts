import { ENTITIES } from './src/app/entities.ts'
import { ormConfig } from './src/postgres/orm.ts'

/** For the `mikro-orm` command, in development. */
export default ormConfig(process.env['DATABASE_URL'] ?? 'postgres://localhost/inflow', ENTITIES, 2)
