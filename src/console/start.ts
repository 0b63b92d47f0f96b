/**
 * What the browser runs first. It is small, so that the files of the opened page, and what the page reads, are requested
 * while the console itself still loads.
 */
import './app/pages.ts'
import { applyTheme } from './app/theme.ts'
import { beginFirstCalls } from './session/early-calls.ts'

beginFirstCalls()
void import('./main.tsx')
applyTheme()
