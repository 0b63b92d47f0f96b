import { parseArgs } from 'node:util'
import { generator } from '../support/random.ts'
import { FULL, type Placement, simulateCells } from './cells.ts'
import { createBusinesses } from './demand.ts'

const USAGE = `npm run simulate -- [--seed 7] [--businesses 20000] [--per-second 10000] [--capacity 2000] [--skew 0.9] [--days 30]

How evenly businesses of very different sizes spread over cells, by the way they are placed.
  --per-second  payments of all businesses, on average over the first day
  --capacity    payments per second that one cell records: see npm run bench -- ingest
  --skew        Zipf's exponent: 0 is even, 1 gives the largest of 20,000 a tenth of all payments`

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '7' },
    businesses: { type: 'string', default: '20000' },
    'per-second': { type: 'string', default: '10000' },
    capacity: { type: 'string', default: '2000' },
    skew: { type: 'string', default: '0.9' },
    days: { type: 'string', default: '30' },
    help: { type: 'boolean', default: false },
  },
})
const [seed, count, perSecond, capacity, skew, days] = [
  values.seed,
  values.businesses,
  values['per-second'],
  values.capacity,
  values.skew,
  values.days,
].map(Number) as [number, number, number, number, number, number]
if (values.help || [seed, count, perSecond, capacity, skew, days].some((each) => !(each >= 0))) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}

const businesses = createBusinesses({ random: generator(seed), businesses: count, perSecond, skew })
const largest = Math.max(...businesses.map((business) => business.perSecond))
console.log(
  `seed ${seed}: ${count} businesses, ${perSecond} payments/s, the largest ${percent(largest / perSecond)} of them; cells of ${capacity}/s; ${days} days`,
)
console.log(`full: the busiest cell above ${percent(FULL)} of its capacity\n`)
const columns = ['cells', 'placement', 'peak', 'peak p99', 'busiest/mean', 'hours full', 'moves']
console.log(columns.map((column) => column.padStart(13)).join(''))
const fewest = Math.ceil(perSecond / capacity)
for (const factor of [2, 3, 4]) {
  const cells = Math.ceil(fewest * factor)
  for (const placement of ['hash', 'two', 'moves'] satisfies Placement[]) {
    const random = generator(seed + 1)
    const report = simulateCells({ random, businesses, cells, capacity, days, placement })
    const row = [
      `${cells}`,
      placement,
      percent(report.peak),
      percent(report.peak99),
      report.imbalance.toFixed(2),
      percent(report.fullHours),
      report.movesPerNight.toFixed(1),
    ]
    console.log(row.map((cell) => cell.padStart(13)).join(''))
  }
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}
