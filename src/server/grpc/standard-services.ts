import { create, type DescFile, type DescService, toBinary } from '@bufbuild/protobuf'
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt'
import {
  type Server,
  type ServerDuplexStream,
  type ServerWritableStream,
  type ServiceDefinition,
  status,
  type UntypedHandleCall,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { ReflectionService } from '@grpc/reflection'
import { HealthImplementation } from 'grpc-health-check'

/** The most health watches at once; they need no credential. */
const WATCHES_MAX = 1_000

/** `grpc.health.v1.Health`, for the whole server and for every service. */
interface Health {
  /** Reports NOT_SERVING. */
  announceStop(): void
  /** Ends the watches, which would delay the close of the server. */
  endWatches(): void
}

type Watch = ServerWritableStream<unknown, unknown>

/** @param services the names of the services; the whole server has the name "" */
export function addHealth(
  server: Server,
  services: readonly string[],
  messageBytesMax: number,
): Health {
  const names = ['', ...services]
  const health = new HealthImplementation(
    Object.fromEntries(names.map((name) => [name, 'SERVING' as const])),
  )
  const watches = new Set<Watch>()
  health.addToServer({
    addService: (definition, implementation) => {
      const { watch } = implementation as UntypedServiceImplementation
      const bounded = (rpc: Watch): void => {
        if (watches.size >= WATCHES_MAX) {
          const details = 'Too many watches of health'
          rpc.emit('error', { code: status.RESOURCE_EXHAUSTED, details })
          return
        }
        watches.add(rpc)
        rpc.once('close', () => watches.delete(rpc))
        ;(watch as (rpc: Watch) => void)(rpc)
      }
      server.addService(boundRequests(definition, messageBytesMax), {
        ...(implementation as UntypedServiceImplementation),
        watch: bounded as UntypedHandleCall,
      })
    },
  })
  return {
    announceStop() {
      for (const name of names) health.setStatus(name, 'NOT_SERVING')
    },
    endWatches() {
      for (const watch of watches) watch.end()
    },
  }
}

/**
 * Bounds the size of requests to a service that needs no credential: each request stays in memory while its call is open.
 */
function boundRequests(definition: ServiceDefinition, messageBytesMax: number): ServiceDefinition {
  const entries = Object.entries(definition).map(([name, method]) => [
    name,
    {
      ...method,
      requestDeserialize: (bytes: Buffer) => {
        // Checked after decompression: a few compressed bytes can expand to a large message.
        if (bytes.length > messageBytesMax) throw new Error('The request is too large')
        return method.requestDeserialize(bytes)
      },
    },
  ])
  return Object.fromEntries(entries) as ServiceDefinition
}

type Definitions = ConstructorParameters<typeof ReflectionService>[0]
type Reflection = ServerDuplexStream<unknown, unknown>

/** The most reflection streams at once: they need no credential, and each can have responses waiting. */
const STREAMS_MAX = 100

/** The paths of the reflection service, whose two versions differ only in their names. */
export const REFLECTION_PATHS = ['v1', 'v1alpha'].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
)

/**
 * Serves the descriptors to tools such as `buf curl` and grpcurl. The first request indexes them, because that takes a
 * third of the CPU time of a start.
 */
export function addReflection(
  server: Server,
  services: readonly DescService[],
  messageBytesMax: number,
): void {
  const names = ['grpc.health.v1.Health', ...services.map((service) => service.typeName)]
  let indexed: UntypedServiceImplementation[] | undefined
  const index = (): UntypedServiceImplementation[] => {
    const files = new Map<string, Buffer>()
    for (const service of services) collect(service.file, files)
    return versionsOf([...files.values(), healthFile()], names).map((each) => each.implementation)
  }
  const open = new Set<Reflection>()
  for (const [version, { methods, implementation }] of versionsOf([], names).entries()) {
    const respond = (name: string, stream: Reflection): void => {
      indexed ??= index()
      indexed[version]?.[name]?.(stream as never, undefined as never)
    }
    const bound = Object.keys(implementation).map((name) => [name, bounded(name, respond, open)])
    server.addService(boundRequests(methods, messageBytesMax), Object.fromEntries(bound))
  }
}

interface ReflectionVersion {
  readonly methods: ServiceDefinition
  readonly implementation: UntypedServiceImplementation
}

/** Creates both versions of the reflection service for the descriptors of files. */
function versionsOf(files: readonly Buffer[], services: string[]): ReflectionVersion[] {
  // The package reads only the descriptors of a definition.
  const definition = { fileDescriptorProtos: files } as unknown as Definitions[string]
  const versions: ReflectionVersion[] = []
  new ReflectionService({ definition }, { services }).addToServer({
    addService: (methods, implementation) => versions.push({ methods, implementation }),
  })
  return versions
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

/** Adds back-pressure to the package: a client has to read its responses before it can ask for more. */
function bounded(
  name: string,
  respond: (name: string, stream: Reflection) => void,
  open: Set<Reflection>,
): (stream: Reflection) => void {
  return (stream) => {
    if (open.size >= STREAMS_MAX) {
      const details = 'Too many streams of reflection'
      stream.emit('error', { code: status.RESOURCE_EXHAUSTED, details })
      return
    }
    open.add(stream)
    stream.once('close', () => open.delete(stream))
    respond(name, stream)
    stream.on('data', () => {
      if (!stream.writableNeedDrain) return
      stream.pause()
      stream.once('drain', () => stream.resume())
    })
  }
}
