import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import {
  type Endpoint as EndpointMessage,
  EndpointSchema,
} from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type { Endpoint } from './endpoint.entity.ts'

export function toEndpointMessage(endpoint: Endpoint): EndpointMessage {
  return create(EndpointSchema, {
    id: endpoint.id,
    businessId: endpoint.business,
    url: endpoint.url,
    kinds: endpoint.kinds,
    description: endpoint.description,
    createdAt: timestampFromDate(endpoint.createdAt),
  })
}
