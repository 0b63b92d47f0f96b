/**
 * The entry point in the browser. It is small, so that the files and the data of the opened page are requested while the
 * console itself still loads.
 */
import './app/pages.ts'
import { applyTheme } from './app/theme.ts'
import { beginFirstCalls } from './session/early-calls.ts'

beginFirstCalls()
void import('./app/app.tsx').then(({ drawConsole }) => drawConsole())
applyTheme()
