import { type DescMessage, type MessageShape, toJson } from '@bufbuild/protobuf'
import { jsonText, print } from './output.ts'

/**
 * Prints a response of the service.
 *
 * @param options with `json`: prints the protobuf JSON form instead of the text
 * @param text the text for a terminal; empty: prints nothing
 */
export function printResponse<Desc extends DescMessage>(
  options: { readonly json?: boolean },
  schema: Desc,
  message: MessageShape<Desc>,
  text: () => string,
): void {
  const lines = options.json ? jsonText(toJsonForm(schema, message), 2) : text()
  if (lines !== '') print(lines)
}

/** Returns the protobuf JSON form with every field, so that scripts need not know the defaults. */
export function toJsonForm<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>) {
  return toJson(schema, message, { alwaysEmitImplicit: true })
}
