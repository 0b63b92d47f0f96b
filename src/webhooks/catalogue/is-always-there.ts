import type { DescField } from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'

/**
 * Whether every webhook has a field of EventData, or every message a field of its own. Fields with
 * presence appear only if they apply; `previous_sequence` applies to every webhook.
 */
export function isAlwaysThere({ name, presence }: DescField): boolean {
  return presence === FeatureSet_FieldPresence.IMPLICIT || name === 'previous_sequence'
}
