import { create, type DescFile, type DescService, toBinary } from '@bufbuild/protobuf'
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt'
import {
  type Server,
  type ServerDuplexStream,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { ReflectionService } from '@grpc/reflection'
import { boundRequests } from './open-services.ts'

type Definitions = ConstructorParameters<typeof ReflectionService>[0]
type Reflection = ServerDuplexStream<unknown, unknown>

/** The maximum of reflection streams, which need no credential: each can have responses waiting. */
const STREAMS_MAX = 100

/** The paths of reflection: its two versions differ only in name. */
export const REFLECTION_PATHS = ['v1', 'v1alpha'].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
)

/** Serves the descriptors to tools such as `buf curl` and grpcurl. */
export function addReflection(
  server: Server,
  services: readonly DescService[],
  messageBytesMax: number,
): void {
  const files = new Map<string, Buffer>()
  for (const service of services) collect(service.file, files)
  // The package reads only the descriptors of a definition.
  const definition = { fileDescriptorProtos: [...files.values(), healthFile()] }
  const names = ['grpc.health.v1.Health', ...services.map((service) => service.typeName)]
  const reflection = new ReflectionService({ definition } as unknown as Definitions, {
    services: names,
  })
  const open = new Set<Reflection>()
  reflection.addToServer({
    addService: (methods, implementation) =>
      server.addService(boundRequests(methods, messageBytesMax), bounded(implementation, open)),
  })
}

/** Collects the descriptors of a file and of all its imports. */
function collect(file: DescFile, files: Map<string, Buffer>): void {
  if (files.has(file.proto.name)) return
  files.set(file.proto.name, Buffer.from(toBinary(FileDescriptorProtoSchema, file.proto)))
  for (const imported of file.dependencies) collect(imported, files)
}

/**
 * `grpc/health/v1/health.proto`, without List. The descriptor inside grpc-health-check names types
 * relatively, which clients in Go refuse.
 */
function healthFile(): Buffer {
  const answers = '.grpc.health.v1.HealthCheckResponse'
  const types = { inputType: '.grpc.health.v1.HealthCheckRequest', outputType: answers }
  const label = FieldDescriptorProto_Label.OPTIONAL
  const states = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN']
  const service = { name: 'service', number: 1, label, type: FieldDescriptorProto_Type.STRING }
  const status = {
    name: 'status',
    number: 1,
    label,
    type: FieldDescriptorProto_Type.ENUM,
    typeName: `${answers}.ServingStatus`,
  }
  const file = create(FileDescriptorProtoSchema, {
    name: 'grpc/health/v1/health.proto',
    package: 'grpc.health.v1',
    syntax: 'proto3',
    messageType: [
      { name: 'HealthCheckRequest', field: [service] },
      {
        name: 'HealthCheckResponse',
        field: [status],
        enumType: [
          { name: 'ServingStatus', value: states.map((name, number) => ({ name, number })) },
        ],
      },
    ],
    service: [
      {
        name: 'Health',
        method: [
          { name: 'Check', ...types },
          { name: 'Watch', ...types, serverStreaming: true },
        ],
      },
    ],
  })
  return Buffer.from(toBinary(FileDescriptorProtoSchema, file))
}

/** The package responds without back-pressure; here a client must read before it may ask more. */
function bounded(
  implementation: UntypedServiceImplementation,
  open: Set<Reflection>,
): UntypedServiceImplementation {
  const bound = (name: string) => (stream: Reflection) => {
    if (open.size >= STREAMS_MAX) {
      const details = 'Too many streams of reflection'
      stream.emit('error', { code: status.RESOURCE_EXHAUSTED, details })
      return
    }
    open.add(stream)
    stream.once('close', () => open.delete(stream))
    implementation[name]?.(stream as never, undefined as never)
    stream.on('data', () => {
      if (!stream.writableNeedDrain) return
      stream.pause()
      stream.once('drain', () => stream.resume())
    })
  }
  return Object.fromEntries(Object.keys(implementation).map((name) => [name, bound(name)]))
}
