import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'

/** Runs the model tests for a given time: `npm run test:model -- --minutes 60 --seed 7`. */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: `${Date.now() % 1_000_000}` },
  },
})
const vitest = spawn('vitest', ['run', '--config', 'test/vitest.config.ts', 'test/model'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    MODEL_SECONDS: String(Number(values.minutes) * 60),
    MODEL_TOGETHER: '3',
    SEED: values.seed,
  },
})
const [code] = await once(vitest, 'exit')
process.exitCode = code ?? 1
