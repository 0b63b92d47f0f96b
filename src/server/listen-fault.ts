import { ConfigError } from '../config/config.ts'

/** Why nothing can listen at an address, by the setting that has to change. */
export function listenFault(
  setting: 'HTTP_PORT' | 'GRPC_PORT',
  { host, port }: { readonly host: string; readonly port: number },
  cause: unknown,
): ConfigError {
  const { code, message } = cause as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new ConfigError([
      `${setting} ${port} is in use: choose another, or stop what listens there`,
    ])
  }
  if (code === 'EACCES') {
    return new ConfigError([`${setting} ${port} is for root alone: choose 1024 or more`])
  }
  return new ConfigError([`HOST ${host} cannot be listened at: ${message}`])
}
