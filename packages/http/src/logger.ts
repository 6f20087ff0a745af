/** The logger of the server: JSON lines, one per request, without what would give a key or a tenant's content away. */
import { type DestinationStream, type Logger, pino } from 'pino';

export interface LoggerOptions {
  readonly level?: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** Of the process, where several write to one log. */
  readonly name?: string;
  /** Where lines go; standard output when left out. */
  readonly destination?: DestinationStream;
}

const SECRET_PATHS = [
  'authorization',
  'headers.authorization',
  'req.headers.authorization',
  'request.headers.authorization',
  '*.headers.authorization',
  ...['x-api-key', 'x-access-token', 'e2b-traffic-access-token'].map((name) => `*.headers["${name}"]`),
];

export function createLogger(options: LoggerOptions = {}): Logger {
  return pino(
    {
      ...(options.name === undefined ? {} : { name: options.name }),
      level: options.level ?? 'info',
      redact: { paths: SECRET_PATHS, censor: '[redacted]' },
    },
    options.destination ?? pino.destination(1),
  );
}
