import type { Encrypter } from '../../crypto/encryption.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { UrlRules } from '../sender/address-guard.ts'

/** The dependencies of the endpoint and delivery use cases. */
export interface EndpointContext extends Runtime {
  readonly encrypter: Encrypter
  readonly rules: UrlRules
  /** Called when deliveries have become due. */
  readonly onDue: () => void
}
