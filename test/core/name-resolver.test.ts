import { appendFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createNameResolver, NameError } from '../../src/core/addresses.ts'
import { makeFolder } from '../support/folder.ts'
import { type Nameserver, type Records, startNameserver } from '../support/nameserver.ts'
import { waitFor } from '../support/wait-for.ts'

const NAMES: Readonly<Record<string, Records>> = {
  'both.example': { ipv4: ['192.0.2.1', '192.0.2.2'], ipv6: ['2001:db8::1'] },
  'old.example': { ipv4: ['192.0.2.3'] },
  'new.example': { ipv6: ['2001:db8::2'] },
  'slow.example': { ipv4: ['192.0.2.4'], delayMs: 400 },
  'empty.example': {},
  'broken.example': 'fails',
  receiver: { ipv4: ['192.0.2.5'] },
}

let nameserver: Nameserver
let folder: string
const closing: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  folder = await makeFolder('dns')
  nameserver = await startNameserver((name) => (name.startsWith('hangs') ? 'hangs' : NAMES[name]))
})
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})
afterAll(async () => {
  await nameserver.close()
  await rm(folder, { recursive: true })
})

const resolver = (options: Parameters<typeof createNameResolver>[0] = {}) =>
  createNameResolver({ servers: [nameserver.address], ...options })

const failure = async (resolving: Promise<unknown>): Promise<NameError> => {
  const error = await resolving.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(NameError)
  return error as NameError
}

const queriesFor = (name: string) => nameserver.asked.filter((each) => each.startsWith(`${name} `))

describe('a name', () => {
  test('resolves to all its IPv4 and IPv6 addresses', async () => {
    const resolve = resolver()
    expect(await resolve('both.example')).toEqual([
      { address: '192.0.2.1', family: 4 },
      { address: '192.0.2.2', family: 4 },
      { address: '2001:db8::1', family: 6 },
    ])
    expect(await resolve('OLD.example.')).toEqual([{ address: '192.0.2.3', family: 4 }])
    expect(await resolve('new.example')).toEqual([{ address: '2001:db8::2', family: 6 }])
  })

  test('is queried unchanged: search domains are not tried', async () => {
    const resolve = resolver()
    expect(await resolve('receiver')).toEqual([{ address: '192.0.2.5', family: 4 }])
    expect((await failure(resolve('unknown'))).code).toBe('ENOTFOUND')
    expect(queriesFor('unknown').sort()).toEqual(['unknown A', 'unknown AAAA'])
  })

  test.each([
    ['that does not exist', 'nowhere.example', 'ENOTFOUND'],
    ['without an address', 'empty.example', 'ENOTFOUND'],
    ['with a failing nameserver', 'broken.example', 'EAI_AGAIN'],
    ['that is invalid', `${'a'.repeat(64)}.example`, 'EAI_AGAIN'],
  ])('%s fails with its code', async (_, name, code) => {
    expect((await failure(resolver()(name))).code).toBe(code)
  })

  test('resolves with a slow nameserver after other names resolved quickly', async () => {
    const resolve = resolver()
    for (let i = 0; i < 10; i++) await resolve('old.example')
    await waitFor(async () =>
      expect(await resolve('slow.example')).toEqual([{ address: '192.0.2.4', family: 4 }]),
    )
  })

  test('is queried once for concurrent callers, and again afterwards', async () => {
    const resolve = resolver()
    const before = queriesFor('both.example').length
    await Promise.all([1, 2, 3].map(() => resolve('both.example')))
    expect(queriesFor('both.example')).toHaveLength(before + 2)
    await resolve('both.example')
    expect(queriesFor('both.example')).toHaveLength(before + 4)
  })

  test('with an unresponsive nameserver gives up', async () => {
    const resolve = resolver({ timeoutMs: 100 })
    expect((await failure(resolve('hangs.example'))).code).toBe('EAI_AGAIN')
    await waitFor(() =>
      expect(queriesFor('hangs.example').sort()).toEqual(['hangs.example A', 'hangs.example AAAA']),
    )
  })

  test('is not queried at the limit of lookups, which do not block each other', async () => {
    const resolve = resolver({ lookupsMax: 3 })
    const hanging = [1, 2].map((number) => failure(resolve(`hangs${number}.example`)))
    expect(await resolve('old.example')).toHaveLength(1)
    hanging.push(failure(resolve('hangs3.example')))
    const before = queriesFor('old.example').length
    expect((await failure(resolve('old.example'))).code).toBe('EAI_AGAIN')
    expect(queriesFor('old.example')).toHaveLength(before)
    expect(await Promise.all(hanging)).toHaveLength(3)
    expect(await resolve('old.example')).toHaveLength(1)
  })
})

describe('no nameserver is queried', () => {
  const offline = () => resolver({ servers: ['127.0.0.1:1'] })

  test('for an address', async () => {
    expect(await offline()('192.0.2.9')).toEqual([{ address: '192.0.2.9', family: 4 }])
    expect(await offline()('::1')).toEqual([{ address: '::1', family: 6 }])
  })

  test('for this machine', async () => {
    for (const name of ['localhost', 'LOCALHOST.', 'api.localhost']) {
      expect(await offline()(name)).toEqual([
        { address: '127.0.0.1', family: 4 },
        { address: '::1', family: 6 },
      ])
    }
  })

  test('for names in the hosts file', async () => {
    const hostsPath = join(folder, 'hosts')
    await writeFile(
      hostsPath,
      [
        '# 192.0.2.1 commented.example',
        '192.0.2.10\tReceiver.internal  hooks # 192.0.2.11',
        '2001:db8::10 receiver.internal',
        'nonsense receiver.internal',
        '192.0.2.12 both.example\r',
      ].join('\n'),
    )
    const resolve = resolver({ hostsPath })
    const before = nameserver.asked.length
    expect(await resolve('receiver.internal')).toEqual([
      { address: '192.0.2.10', family: 4 },
      { address: '2001:db8::10', family: 6 },
    ])
    expect(await resolve('hooks')).toEqual([{ address: '192.0.2.10', family: 4 }])
    expect(await resolve('both.example')).toEqual([{ address: '192.0.2.12', family: 4 }])
    expect(nameserver.asked).toHaveLength(before)
    expect((await failure(resolve('commented.example'))).code).toBe('ENOTFOUND')
  })
})

test('queries nameservers for names beyond the first 256 KiB of the hosts file', async () => {
  expect(await resolver({ hostsPath: join(folder, 'none') })('old.example')).toHaveLength(1)
  const hostsPath = join(folder, 'long')
  await writeFile(hostsPath, '#\n'.repeat(200_000))
  await appendFile(hostsPath, '192.0.2.13 old.example\n')
  const resolve = resolver({ hostsPath })
  expect(await resolve('old.example')).toEqual([{ address: '192.0.2.3', family: 4 }])
})
