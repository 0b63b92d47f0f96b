import type { Noun } from '../command-line.ts'

/** The commands that work on the database, the files and the processes of the service on this machine. */
export const MACHINE_NOUNS: readonly Noun[] = [
  {
    name: 'serve',
    summary: 'start the service in this process',
    load: async () => (await import('./serve.ts')).serve,
  },
  {
    name: 'init',
    summary:
      'prepare a database for the first start in production, with keys and the first business',
    load: async () => (await import('./init.ts')).init,
  },
  {
    name: 'config',
    summary: 'the settings of the service: check',
    load: async () => (await import('./config.ts')).config,
  },
  {
    name: 'migrate',
    summary: 'database schema: up, status',
    load: async () => (await import('./migrate.ts')).migrate,
  },
  {
    name: 'master-key',
    summary: 'the key that encrypts identity numbers and webhook secrets: rotate, status',
    load: async () => (await import('./master-key.ts')).masterKey,
  },
  {
    name: 'doctor',
    summary: 'check settings, database, keys, events, banks and service, and say what to do',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  {
    name: 'health',
    summary:
      'ask the service on this machine whether it is healthy, for health checks of containers',
    load: async () => (await import('./health.ts')).health,
  },
  {
    name: 'fake-banks',
    summary: 'run fakes of the four banks on this machine, for a service with live banks',
    load: async () => (await import('./fake-banks.ts')).fakeBanks,
  },
]
