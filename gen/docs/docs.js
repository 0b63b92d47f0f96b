/** What the page does besides being read: its address in examples, copy buttons, search, the chosen language. */
const LOCAL_URL = 'http://127.0.0.1:8080'
const FOUND_MAX = 20

for (const block of document.querySelectorAll('.code')) {
  const code = block.querySelector('code')
  if (location.protocol.startsWith('http')) {
    code.textContent = code.textContent.replaceAll(LOCAL_URL, location.origin)
  }
  const button = document.createElement('button')
  button.className = 'copy'
  button.type = 'button'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(code.textContent)
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1_500)
  })
  block.append(button)
}

// On a narrow page the contents are closed at first.
if (matchMedia('(max-width: 760px)').matches) document.querySelector('nav details').open = false

const languages = document.querySelectorAll('[name=language]')
for (const input of languages) {
  if (localStorage.getItem('language') === input.value) input.checked = true
  input.addEventListener('change', () => localStorage.setItem('language', input.value))
}

const form = document.querySelector('[role=search]')
const [input, list] = form.children
form.hidden = false
let index
input.addEventListener('focus', async () => {
  index ??= fetch('/docs/search.json').then((response) => response.json())
  await index
})
input.addEventListener('input', async () => {
  index ??= fetch('/docs/search.json').then((response) => response.json())
  const entries = await index
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
  const found = words.length === 0 ? [] : entries.map((entry) => [rank(entry, words), entry])
  const best = found.filter(([score]) => score > 0).sort((a, b) => b[0] - a[0])
  list.replaceChildren(...best.slice(0, FOUND_MAX).map(([, entry]) => item(entry)))
  if (words.length > 0 && best.length === 0) list.append(nothing())
})
form.addEventListener('submit', (event) => {
  event.preventDefault()
  list.querySelector('a')?.click()
})
form.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') close()
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  const links = [input, ...list.querySelectorAll('a')]
  const step = event.key === 'ArrowDown' ? 1 : -1
  links[(links.indexOf(document.activeElement) + step + links.length) % links.length].focus()
  event.preventDefault()
})
list.addEventListener('click', close)
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input')) return
  event.preventDefault()
  input.focus()
})

/** All words must be found; in the title they count more. */
function rank({ title, text = '' }, words) {
  let score = 0
  for (const word of words) {
    const inTitle = title.toLowerCase().includes(word)
    if (!inTitle && !text.includes(word)) return 0
    score += inTitle ? 10 : 1
  }
  return score - title.length / 1_000
}

function item({ title, href }) {
  const link = document.createElement('a')
  link.href = href
  link.textContent = title
  const element = document.createElement('li')
  element.append(link)
  return element
}

function nothing() {
  const element = document.createElement('li')
  element.textContent = 'Nothing found'
  return element
}

function close() {
  input.value = ''
  list.replaceChildren()
}
