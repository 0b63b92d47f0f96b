import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromBinary } from '@bufbuild/protobuf'
import { type FileDescriptorProto, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import { file_buf_validate_validate } from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import {
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
} from '@grpc/grpc-js'
import { load } from '@grpc/proto-loader'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { has, ROOT } from '../support/embedded-service.ts'
import { temporaryFolder } from '../support/folder.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { runHere } from './run-inflow.ts'

declare const Contract: {
  inflow: { business: { v1: { BusinessService: ServiceClientConstructor } } }
}

const service = useSharedService()
const BUF = join(ROOT, 'node_modules/.bin/buf')

let folder: string
beforeEach(() => {
  folder = join(temporaryFolder(), 'deep/contract')
})

const filesIn = (path: string) =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .sort()

/** Compiles a folder of .proto files. */
function build(path: string): FileDescriptorProto[] {
  const image = execFileSync(BUF, ['build', '--exclude-source-info', '-o', '-'], {
    cwd: path,
    maxBuffer: 16 * 1024 * 1024,
  })
  return fromBinary(FileDescriptorSetSchema, new Uint8Array(image)).file
}

/** A file for comparison, without the JSON names and the own field of a file that buf adds. */
function textOf(file: FileDescriptorProto): string {
  const { $unknown: _, ...rest } = file
  return JSON.stringify(rest, (key, value) => {
    if (key === 'jsonName' || key === 'debugRedact') return undefined
    return typeof value === 'bigint' ? String(value) : value
  })
}

test('writes the contract with its imports, which buf compiles, lints and generates as it is', async () => {
  const outcome = await runHere(['proto', 'export', folder])
  const files = filesIn(folder)
  expect(outcome).toEqual({
    code: 0,
    stdout: `Wrote ${files.length} files into ${folder}.\n`,
    stderr: '',
  })
  expect(files).toEqual([
    'buf.yaml',
    'buf/validate/validate.proto',
    'google/api/annotations.proto',
    'google/api/http.proto',
    'google/rpc/error_details.proto',
    'google/rpc/status.proto',
    ...filesIn(join(ROOT, 'proto/inflow')).map((name) => `inflow/${name}`),
  ])
  const built = build(folder)
  expect(built.map(textOf)).toEqual(build(join(ROOT, 'proto')).map(textOf))
  // Libraries accept it beside their own.
  const { proto } = file_buf_validate_validate
  const validate = built.find(({ name }) => name === proto.name)!
  expect(textOf(validate) === textOf(proto)).toBe(true)
  execFileSync(BUF, ['lint'], { cwd: folder })
  const template = {
    version: 'v2',
    plugins: [{ local: join(ROOT, 'node_modules/.bin/protoc-gen-es'), out: 'gen' }],
  }
  execFileSync(
    BUF,
    ['generate', '--path', 'inflow/event', '--template', JSON.stringify(template)],
    { cwd: folder },
  )
  expect(filesIn(join(folder, 'gen'))).toContain('inflow/event/v1/event_service_pb.js')
})

test.skipIf(!has('protoc'))('protoc compiles the export as it is', async () => {
  await runHere(['proto', 'export', folder])
  const protos = filesIn(folder).filter((name) => name.endsWith('.proto'))
  execFileSync('protoc', ['-I', '.', '--descriptor_set_out=set.binpb', ...protos], { cwd: folder })
  const set = fromBinary(FileDescriptorSetSchema, readFileSync(join(folder, 'set.binpb')))
  expect(set.file.map(({ name }) => name).sort()).toEqual(protos)
})

test('proto-loader of grpc-js loads the export as it is, and calls a service with it', async () => {
  await runHere(['proto', 'export', folder])
  const protos = filesIn(folder).filter((name) => name.startsWith('inflow/'))
  const definition = await load(protos, { includeDirs: [folder], longs: String })
  const contract = loadPackageDefinition(definition) as unknown as typeof Contract
  const { id } = await service.business('Shop')
  const { BusinessService } = contract.inflow.business.v1
  const client = new BusinessService(new URL(service.grpcUrl).host, credentials.createInsecure())
  onTestFinished(() => client.close())
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${ADMIN_TOKEN}`)
  const found = await new Promise((resolve, reject) => {
    client['getBusiness']!({ businessId: id }, metadata, (error: unknown, response: unknown) => {
      if (error) reject(error)
      else resolve(response)
    })
  })
  expect(found).toMatchObject({ business: { id, name: 'Shop' } })
})

test('a folder that is not empty is refused, unless by --force, which keeps other files', async () => {
  mkdirSync(join(folder, 'inflow/event/v1'), { recursive: true })
  writeFileSync(join(folder, 'notes.txt'), 'mine')
  expect(await runHere(['proto', 'export', folder])).toEqual({
    code: 1,
    stdout: '',
    stderr: `error: the folder ${folder} is not empty\n  name another one, or write into it with --force\n`,
  })
  expect(filesIn(folder)).toEqual(['notes.txt'])
  writeFileSync(join(folder, 'inflow/event/v1/event.proto'), 'an earlier version')
  expect(await runHere(['proto', 'export', folder, '--force'])).toMatchObject({ code: 0 })
  expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('mine')
  const exported = readFileSync(join(folder, 'inflow/event/v1/event.proto'), 'utf8')
  expect(exported).toBe(readFileSync(join(ROOT, 'proto/inflow/event/v1/event.proto'), 'utf8'))
})
