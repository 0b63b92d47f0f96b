import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { liveProcess } from '../../src/postgres/embedded/rival.ts'
import { query } from '../support/database.ts'
import { waitUntil } from '../support/wait-for.ts'
import {
  isRoot,
  postmasterId,
  scratch,
  service,
  start,
  untilGone,
  useCluster,
} from './embedded-fixture.ts'

const cluster = useCluster()

describe('after a crash', () => {
  test('of the server, the owner logs it and the next start recovers', async () => {
    const { folder } = cluster
    const lines: string[] = []
    const first = await start({ folder, log: (line) => lines.push(line) })
    await query(first.url, 'create table kept as select 42 as answer')
    process.kill(postmasterId(folder), 'SIGKILL')
    await waitUntil(() => lines.some((line) => line.includes('ended by itself (SIGKILL)')))
    await first.stop()
    const second = await start({ folder })
    expect(await query(second.url, 'table kept')).toEqual([{ answer: 42 }])
  })

  test('a lock file with the id of another program does not prevent a start', async () => {
    const { folder } = cluster
    const first = await start({ folder })
    const lock = readFileSync(join(folder, 'postmaster.pid'), 'utf8')
    await first.stop()
    const { uid, gid } = statSync(folder)
    const other = spawn('sleep', ['600'], isRoot ? { uid, gid } : {})
    onTestFinished(() => void other.kill())
    await once(other, 'spawn')
    const [, ...rest] = lock.split('\n')
    writeFileSync(join(folder, 'postmaster.pid'), [other.pid, ...rest].join('\n'))
    chownSync(join(folder, 'postmaster.pid'), uid, gid)
    const second = await start({ folder })
    expect(await query(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(liveProcess(other.pid ?? 0)).toBeDefined()
  })
})

describe('two services on one folder', () => {
  test('the second fails with the process id of the first, which keeps running', async () => {
    const { folder } = cluster
    const first = service(folder)
    const { url } = await first.said
    const expected = `another Inflow (process ${first.child.pid}) is using ${folder}`
    await expect(startEmbedded({ folder })).rejects.toThrow(expected)
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test.each(['a new', "a killed service's"])('one of many wins %s', async (kind) => {
    const isNew = kind === 'a new'
    const folder = isNew ? scratch() : cluster.folder
    if (!isNew) {
      const killed = service(folder)
      await killed.said
      await killed.kill()
    }
    const services = Array.from({ length: 4 }, () => service(folder))
    const said = await Promise.all(services.map((each) => each.said))
    const winner = services[said.findIndex((each) => each.error === undefined)]
    const message = `another Inflow (process ${winner?.child.pid}) is using ${folder}; stop it or set DATA_DIR`
    expect(said.map((each) => each.error).sort()).toEqual([message, message, message, undefined])
    const url = said.find((each) => each.error === undefined)?.url ?? ''
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(readdirSync(dirname(folder)).filter((name) => name.includes('.new-'))).toEqual([])
  })
})

describe('the end of the service', () => {
  test('by process.exit stops the server', async () => {
    const { folder } = cluster
    const also = "process.once('SIGTERM', () => process.exit(7))"
    const { child, said } = service(folder, { also })
    await said
    const pid = postmasterId(folder)
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await exited).toEqual([7, null])
    await untilGone(pid)
  })

  test('by an empty event loop does not wait for the server', async () => {
    const { folder } = cluster
    const { child, said } = service(folder, { also: 'clearInterval(hold)' })
    const exited = once(child, 'exit')
    await said
    expect(await exited).toEqual([0, null])
    await waitUntil(() => !existsSync(join(folder, 'postmaster.pid')))
  })

  test('by Ctrl-C leaves the server to the service until it has finished', async () => {
    const { folder } = cluster
    const pg = import.meta.resolve('pg')
    const also = `
      const { default: { Client } } = await import(${JSON.stringify(pg)})
      process.once('SIGINT', async () => {
        const client = new Client(server.url)
        await client.connect()
        await client.query('create table drained ()')
        await client.end()
        await server.stop()
        process.exit(7)
      })`
    const { child, said } = service(folder, { also })
    await said
    const exited = once(child, 'exit')
    // A terminal signals the whole process group.
    process.kill(-(child.pid ?? Number.NaN), 'SIGINT')
    expect(await exited).toEqual([7, null])
    const { url } = await start({ folder })
    expect(await query(url, 'table drained')).toEqual([])
  })
})
