import type { Http2Connection } from './connection.ts'
import type { Http2Limits } from './limits.ts'
import type { Outbox } from './outbox.ts'
import type { Quota } from './quota.ts'
import type { Http2Stream, StreamListener } from './stream.ts'

/** What a connection needs from its server. */
export interface ConnectionHost {
  readonly limits: Http2Limits
  readonly quota: Quota
  /** Somebody asks something. @returns who is told of what follows */
  open(stream: Http2Stream, connection: Http2Connection): StreamListener
  /** Has the outbox flushed at the end of the turn. */
  schedule(outbox: Outbox): void
  closed(connection: Http2Connection): void
  /** Something failed on our side. */
  failed(error: unknown): void
}
