import pino from 'pino'
import { ENTITIES } from '../../src/app/entities.ts'
import { startService } from '../../src/app/start-service.ts'
import { readConfig } from '../../src/config/config.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { MASTER_KEY } from '../support/master-key.ts'

// An instance of the service in a separate process, which can be killed. It measures the clock of the database
// often, so that it follows the database's clock when a test moves it, whatever its own clock says.

const {
  DATABASE_URL = '',
  ADMIN_TOKEN = '',
  AHEAD_MS = '0',
  LOG = 'silent',
  ...settings
} = process.env
const service = await startService({
  config: readConfig({ ...settings, HTTP_PORT: '0', GRPC_PORT: '0' }),
  database: await openDatabase(DATABASE_URL, ENTITIES, { connectionsMax: 24 }),
  masterKey: MASTER_KEY,
  adminToken: ADMIN_TOKEN,
  clock: { now: () => Date.now() + Number(AHEAD_MS) },
  clockEveryMs: 100,
  log: pino({ level: LOG }, pino.destination(2)),
  localWebhooks: true,
})
process.stdout.write(`http://127.0.0.1:${service.grpcPort}\n`)
