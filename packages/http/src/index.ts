/**
 * The HTTP face of the platform: binds the use-cases of the contract to a server. It holds no state and decides nothing
 * but who may call and how answers travel.
 */
export type { Authenticate, Identity } from './auth.ts';
export { type ListenOptions, listen } from './listen.ts';
export { createLogger, type LoggerOptions } from './logger.ts';
export { replaceTls, type Tls } from './node-server.ts';
export type { OpenedShare, OpenPublic, OpenShare } from './ports/ports-face.ts';
export { createHttpServer, type HttpServerOptions, loadFramework } from './server.ts';
