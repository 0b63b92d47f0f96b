/** An address that the page replaces by its own. */
const LOCAL_URL = 'http://127.0.0.1:8080'

/** A request of the REST API in each language, with nothing but its standard library. */
export function samplesOf(path: string, body: unknown): Readonly<Record<Language, string>> {
  const url = LOCAL_URL + path
  return {
    sh: curl(url, body),
    ts: typescript(url, body),
    python: python(url, body),
    php: php(url, body),
    go: go(url, body),
  }
}

export type Language = 'sh' | 'ts' | 'python' | 'php' | 'go'

function curl(url: string, body: unknown): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", "'\\''")
  return `curl -sS \\
  ${url} \\
  -H "Authorization: Bearer $INFLOW_SECRET_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '${json}'`
}

function typescript(url: string, body: unknown): string {
  return `import { env } from 'node:process'

const response = await fetch('${url}', {
  method: 'POST',
  headers: {
    authorization: \`Bearer \${env.INFLOW_SECRET_KEY}\`,
    'content-type': 'application/json',
  },
  body: JSON.stringify(${indented(literal(body, TYPESCRIPT), 2)}),
})
const { status, message, data, code, errors } = await response.json()`
}

function python(url: string, body: unknown): string {
  return `import json, os, urllib.request

request = urllib.request.Request(
    "${url}",
    json.dumps(${indented(literal(body, PYTHON), 4)}).encode(),
    {
        "Authorization": "Bearer " + os.environ["INFLOW_SECRET_KEY"],
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request, timeout=30) as response:
    data = json.load(response)["data"]`
}

function php(url: string, body: unknown): string {
  return `<?php
$request = curl_init('${url}');
curl_setopt_array($request, [
    CURLOPT_POST => true,
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_HTTPHEADER => [
        'Authorization: Bearer ' . getenv('INFLOW_SECRET_KEY'),
        'Content-Type: application/json',
    ],
    CURLOPT_POSTFIELDS => json_encode(${indented(literal(body, PHP), 4)}),
]);
$answer = json_decode(curl_exec($request), true);`
}

function go(url: string, body: unknown): string {
  return `body := strings.NewReader(\`${JSON.stringify(body, null, 2)}\`)
request, err := http.NewRequest("POST", "${url}", body)
if err != nil {
	log.Fatal(err)
}
request.Header.Set("Authorization", "Bearer "+os.Getenv("INFLOW_SECRET_KEY"))
request.Header.Set("Content-Type", "application/json")
response, err := http.DefaultClient.Do(request)`
}

/** How a language writes data. */
interface Literals {
  readonly text: (value: string) => string
  readonly word: Readonly<Record<'true' | 'false' | 'null', string>>
  readonly key: (name: string) => string
  readonly object: readonly [open: string, close: string, empty: string]
  readonly step: number
}

const single = (value: string): string =>
  `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')}'`

const TYPESCRIPT: Literals = {
  text: single,
  word: { true: 'true', false: 'false', null: 'null' },
  key: (name) => `${/^[A-Za-z_]\w*$/.test(name) ? name : single(name)}: `,
  object: ['{', '}', '{}'],
  step: 2,
}
const PYTHON: Literals = {
  text: (value) => JSON.stringify(value),
  word: { true: 'True', false: 'False', null: 'None' },
  key: (name) => `${JSON.stringify(name)}: `,
  object: ['{', '}', '{}'],
  step: 4,
}
const PHP: Literals = {
  text: single,
  word: TYPESCRIPT.word,
  key: (name) => `${single(name)} => `,
  // An empty array would become a JSON list.
  object: ['[', ']', 'new stdClass()'],
  step: 4,
}

function literal(value: unknown, language: Literals): string {
  const { text, word, key, object, step } = language
  if (typeof value === 'string') return text(value)
  if (typeof value !== 'object' || value === null) {
    return word[String(value) as keyof typeof word] ?? String(value)
  }
  const parts = Array.isArray(value)
    ? value.map((each) => literal(each, language))
    : Object.entries(value).map(([name, each]) => key(name) + literal(each, language))
  const [open, close, empty] = Array.isArray(value) ? (['[', ']', '[]'] as const) : object
  if (parts.length === 0) return empty
  const lines = parts.map((part) => `${' '.repeat(step)}${indented(part, step)},`)
  return `${open}\n${lines.join('\n')}\n${close}`
}

const indented = (code: string, by: number): string => code.replaceAll('\n', `\n${' '.repeat(by)}`)
