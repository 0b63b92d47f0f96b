/**
 * A plugin of buf that writes the REST API and the webhooks as an OpenAPI document. Part of `npm run generate`.
 */
import { createEcmaScriptPlugin, runNodeJs, type Schema } from '@bufbuild/protoplugin'
import { stringify } from 'yaml'
import { toDocument } from './document.ts'

const plugin = createEcmaScriptPlugin({ name: 'protoc-gen-openapi', version: 'v1', generateTs })

function generateTs(schema: Schema): void {
  const document = toDocument(schema.files)
  schema.generateFile('openapi.json').print(JSON.stringify(document, null, 1))
  // Long texts stay on one line, and there are no aliases, so that all YAML parsers can read the document.
  const yaml = stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })
  schema.generateFile('openapi.yaml').print(yaml.trimEnd())
}

runNodeJs(plugin)
