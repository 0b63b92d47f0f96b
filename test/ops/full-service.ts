import { rm } from 'node:fs/promises'
import { afterAll, beforeAll } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { makeCertificate, writeCertificate } from '../support/certificate.ts'
import { useDatabase } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { parseScrape, type Scrape } from '../support/scrape.ts'
import { waitFor } from '../support/wait-for.ts'

/** What a service exposes with all settings that add metrics: relay, replicas and TLS. */
export function useFullScrape(): { readonly text: string; readonly scrape: Scrape } {
  const db = useDatabase()
  let instance: Instance
  let folder: string
  let text = ''
  beforeAll(async () => {
    folder = await makeFolder('metrics')
    const { TLS_CERT: certFile } = writeCertificate(folder, makeCertificate())
    // There is no broker, and the replica is no standby: their metrics say so.
    const { relay } = readConfig({ RELAY_URL: 'nats://127.0.0.1:1', RELAY_TLS_CA: certFile })
    instance = await startInstance(db.url, { relay, databaseReadUrls: [db.url] })
    text = await waitFor(async () => {
      const response = await fetch(`${instance.httpUrl}/metrics`)
      const found = await response.text()
      for (const name of ['relay_up', 'certificate_expiry_timestamp_seconds{', 'reads_total{'])
        if (!found.includes(`inflow_${name}`)) throw new Error(`no inflow_${name} yet`)
      return found
    })
  })
  afterAll(async () => {
    await instance?.close()
    await rm(folder, { recursive: true, force: true })
  })
  return {
    get text() {
      return text
    },
    get scrape() {
      return parseScrape(text)
    },
  }
}
