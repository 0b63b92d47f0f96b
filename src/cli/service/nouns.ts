import { listNouns, type Noun } from '../command-line.ts'

/** The commands that work on the database, the files and the processes of the service on this machine. */
export const MACHINE_NOUNS: readonly Noun[] = listNouns(
  `
  serve: start the service in this process
  init: prepare a database for the first start in production, with keys and the first business
  config: the settings of the service: check
  migrate: database schema: up, status
  master-key: the key that encrypts identity numbers and webhook secrets: rotate, status
  doctor: check settings, database, keys, events, banks and service, and say what to do
  health: ask the service on this machine whether it is healthy, for health checks of containers
  fake-banks: run fakes of the four banks on this machine, for a service with live banks`,
  {
    serve: async () => (await import('./serve.ts')).serve,
    init: async () => (await import('./init.ts')).init,
    config: async () => (await import('./config.ts')).config,
    migrate: async () => (await import('./migrate.ts')).migrate,
    'master-key': async () => (await import('./master-key.ts')).masterKey,
    doctor: async () => (await import('./doctor.ts')).doctor,
    health: async () => (await import('./serve.ts')).health,
    'fake-banks': async () => (await import('./fake-banks.ts')).fakeBanks,
  },
)
