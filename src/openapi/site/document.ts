/** The parts of an OpenAPI document that the reference page shows. */
export interface OpenApi {
  readonly info: { readonly title: string; readonly description: string }
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, { readonly post: Operation }>>
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly responses: Readonly<Record<string, Response>>
    readonly headers: Readonly<Record<string, { readonly description: string }>>
    readonly parameters: Readonly<Record<string, Parameter>>
  }
}

export interface Operation {
  readonly operationId: string
  readonly tags?: readonly string[]
  readonly summary: string
  readonly description: string
  readonly parameters?: readonly Reference[]
  readonly requestBody: Content
  readonly responses: Readonly<Record<string, Response | Reference>>
}

export interface Reference {
  readonly $ref: string
}

export interface Parameter {
  readonly name: string
  readonly description: string
}

export interface Content {
  readonly content: Readonly<Record<string, MediaType>>
}

export interface Response extends Partial<Content> {
  readonly description: string
  readonly headers?: Readonly<Record<string, unknown>>
}

export interface MediaType {
  readonly schema: Schema
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

/** A JSON Schema with the keywords that the document uses. */
export interface Schema {
  readonly $ref?: string
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: Schema | boolean
}

/** What a reference refers to, or the thing itself. @throws for a reference that leads nowhere */
export function resolve<T extends object>(document: OpenApi, thing: T | Reference): T {
  if (!('$ref' in thing) || typeof thing.$ref !== 'string') return thing as T
  const path = thing.$ref.replace('#/', '').split('/')
  const found = path.reduce<unknown>(
    (at, key) => (at as Record<string, unknown> | undefined)?.[key],
    document,
  )
  if (found === undefined) throw new Error(`no such component: ${thing.$ref}`)
  const { $ref: _, ...own } = thing
  return { ...(found as T), ...own }
}

/** The JSON of a request or response. */
export function jsonOf(content: Partial<Content>): MediaType | undefined {
  return content.content?.['application/json']
}
