/** `system` follows the setting of the device. */
export type Theme = 'system' | 'light' | 'dark'

const KEY = 'inflow.theme'

export function readTheme(): Theme {
  const stored = localStorage.getItem(KEY)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

/** Sets the theme, and keeps it in this browser. */
export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  applyTheme()
}

export function applyTheme(): void {
  const theme = readTheme()
  if (theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
}

/** Sets the accent colour of both themes. @param color "#rrggbb"; empty: the default @returns a function that undoes it */
export function showColor(color: string): () => void {
  const { dataset, style } = document.documentElement
  if (color !== '') {
    dataset['brand'] = ''
    style.setProperty('--brand', color)
  }
  return () => {
    delete dataset['brand']
    style.removeProperty('--brand')
  }
}
