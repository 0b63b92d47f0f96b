import { type DescMessage, type MessageShape, toJson } from '@bufbuild/protobuf'
import { print } from './output.ts'

/**
 * Prints an answer of the service.
 *
 * @param options with `json`: for machines, as the protobuf JSON form
 * @param text for people; empty prints nothing
 */
export function answer<Desc extends DescMessage>(
  options: { readonly json?: boolean },
  schema: Desc,
  message: MessageShape<Desc>,
  text: () => string,
): void {
  const lines = options.json ? JSON.stringify(toJsonForm(schema, message), null, 2) : text()
  if (lines !== '') print(lines)
}

/** The protobuf JSON form with every field, so that scripts need not know the defaults. */
export function toJsonForm<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>) {
  return toJson(schema, message, { alwaysEmitImplicit: true })
}
