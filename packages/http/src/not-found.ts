/** What to say of a path that no route takes: that it is unknown, or which methods it has. */
import { ProtocolError, ROUTE_NAMES, ROUTES, type Route } from '@space/contract';
import { AppError } from '@space/core';

const PATHS = ROUTE_NAMES.map((name) => {
  const route: Route = ROUTES[name];
  return { method: route.method, pattern: new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`) };
});

export function noSuchRoute(url: string): AppError | ProtocolError {
  const [path = ''] = url.split('?', 1);
  const methods = PATHS.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  if (methods.length === 0) return new AppError('not_found', 'No call has that path; GET /openapi.json lists them.');
  const allow = methods.join(', ');
  return new ProtocolError('method_not_allowed', `This path takes ${allow}.`, { allow });
}
