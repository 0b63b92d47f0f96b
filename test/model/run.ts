import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'

/** Tries the model for as long as one likes: `npm run test:model -- --minutes 60 --seed 7`. */
const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, seed: { type: 'string' } },
})
const vitest = spawn('vitest', ['run', '--config', 'test/vitest.config.ts', 'test/model'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    MODEL_SECONDS: String(Number(values.minutes) * 60),
    MODEL_TOGETHER: '3',
    ...(values.seed !== undefined && { MODEL_SEED: values.seed }),
  },
})
const [code] = await once(vitest, 'exit')
process.exitCode = code ?? 1
