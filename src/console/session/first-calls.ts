import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'

/** An encoded request. */
interface EncodedCall {
  readonly path: string
  readonly body: readonly number[]
}

function encode<I extends DescMessage, O extends DescMessage>(
  { parent, name, input }: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
): EncodedCall {
  return {
    path: `/${parent.typeName}/${name}`,
    body: [...toBinary(input, create(input, request))],
  }
}

/** The call that the frame of every page needs before it is drawn. */
export const CALLER_CALL = encode(SessionService.method.getCaller, {})

/**
 * The calls that pages need before they show anything, by path, for URLs without mode, business and filter. They must equal
 * the requests of the pages. The build computes them, so that they can be sent before the contract has loaded.
 */
export const PAGE_CALLS: Readonly<Record<string, readonly EncodedCall[]>> = {
  '/': [
    encode(OverviewService.method.getOverview, {}),
    encode(OverviewService.method.listReviewItems, { live: true, pageSize: 5 }),
  ],
  '/payments': [encode(TransactionService.method.listTransactions, { live: true, pageSize: 50 })],
}
