import { ENTITIES } from '../../src/app/entities.ts'
import { openLog, startInstance } from '../../src/app/start-instance.ts'
import { readConfig } from '../../src/config/config.ts'
import { secretText } from '../../src/config/settings.ts'
import { openDatabase, poolSizes } from '../../src/postgres/orm.ts'

// The service as `main.ts` starts it, except that webhooks may go to receivers of this machine without TLS. Otherwise
// they may in embedded mode only, and so on no other server.
const config = readConfig(process.env)
const { adminToken, databasePoolSize, pooler } = config
const database = await openDatabase(config.databaseUrl as string, ENTITIES, {
  ...poolSizes(1, databasePoolSize),
  ...pooler,
})
const log = openLog(config, secretText(process.env, 'MASTER_KEY'))
const service = await startInstance({
  config,
  database,
  adminToken,
  log,
  localWebhooks: true,
  tls: undefined,
})
process.once('SIGTERM', async () => {
  await service.close()
  await database.close()
  process.exit()
})
const { host } = config
console.log(
  `Inflow is ready: HTTP http://${host}:${service.httpPort}, gRPC ${host}:${service.grpcPort}`,
)
