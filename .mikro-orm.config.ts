import { ormConfig } from './src/store/orm.ts'

/** For the `mikro-orm` command, in development. */
export default ormConfig(process.env['DATABASE_URL'] ?? 'postgres://localhost/inflow', 2)
