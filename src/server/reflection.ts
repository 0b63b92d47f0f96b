import { create, type DescFile, type DescService, toBinary } from '@bufbuild/protobuf'
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt'
import { ReflectionService } from '@grpc/reflection'
import type { GrpcMethod } from './grpc-method.ts'
import { packageMethods } from './grpc-packages.ts'

type Definitions = ConstructorParameters<typeof ReflectionService>[0]
type PackageServer = Parameters<ReflectionService['addToServer']>[0]

/** Lets tools such as `buf curl` and grpcurl ask what the services look like. */
export function reflectionMethods(services: readonly DescService[]): GrpcMethod[] {
  const files = new Map<string, Buffer>()
  for (const service of services) collect(service.file, files)
  // Of a definition, the package reads the descriptors and nothing else.
  const definition = { fileDescriptorProtos: [...files.values(), healthFile()] }
  const names = ['grpc.health.v1.Health', ...services.map((service) => service.typeName)]
  const reflection = new ReflectionService({ definition } as unknown as Definitions, {
    services: names,
  })
  const methods: GrpcMethod[] = []
  const addService = (definitions: object, handlers: object) =>
    methods.push(...packageMethods(definitions, handlers))
  reflection.addToServer({ addService } as unknown as PackageServer)
  return methods
}

/** The file and all that it imports, in protobuf's own form. */
function collect(file: DescFile, files: Map<string, Buffer>): void {
  if (files.has(file.proto.name)) return
  files.set(file.proto.name, Buffer.from(toBinary(FileDescriptorProtoSchema, file.proto)))
  for (const imported of file.dependencies) collect(imported, files)
}

/**
 * `grpc/health/v1/health.proto`, without its List. The descriptor inside grpc-health-check is of
 * no use: it names types relatively, which clients in Go refuse.
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
