import { ConfigError } from '../config/config.ts'

/** Names the setting to change when a server cannot listen at an address. */
export function listenFault(
  setting: 'HTTP_PORT' | 'GRPC_PORT' | 'OPS_PORT',
  { host, port }: { readonly host: string; readonly port: number },
  cause: unknown,
): ConfigError {
  const { code, message } = cause as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new ConfigError([
      `${setting} ${port} is in use: choose another port, or stop what listens there`,
    ])
  }
  if (code === 'EACCES') {
    return new ConfigError([`${setting} ${port} needs root: choose 1024 or more`])
  }
  return new ConfigError([`cannot listen at HOST ${host}: ${message}`])
}
