/** Control over a node, composed: database → control → HTTP. */
import { type Control, createApiKey, createControl, type Records } from '@space/control';
import type { GatewayPort, NodePort } from '@space/core';
import { createPostgresRecords, openDatabase, startPrivateCluster } from '@space/db-postgres';
import { e2bFace } from '@space/e2b';
import { createHttpServer, type createLogger, type ListenOptions, listen, replaceTls, type Tls } from '@space/http';
import { chance, clock } from './clock.ts';
import { Closers } from './closers.ts';
import type { Config } from './config.ts';
import { openKms } from './kms.ts';
import { type PausedAll, pauseAll } from './pause-all.ts';
import { databaseDirOf, databaseSocketDirOf, keysFolderOf } from './places.ts';
import { type Tracing, VERSION } from './tracing.ts';

export type ControlConfig = Pick<
  Config,
  'dataDir' | 'runDir' | 'databaseUrl' | 'hosts' | 'domain' | 'previews' | 'kms' | 'encrypted'
> & { readonly tls?: Tls };

export interface OpenControlOptions {
  readonly config: ControlConfig;
  readonly node: NodePort;
  readonly gateway: GatewayPort;
  readonly listen: ListenOptions;
  /** Who runs PostgreSQL, when this process is root. */
  readonly databaseUser: string;
  readonly logger: ReturnType<typeof createLogger>;
  /** Settles when the node answers, or need not be waited for any longer. */
  readonly nodeUp: Promise<void>;
  readonly tracing: Tracing;
  readonly report: (step: string) => void;
}

export interface OpenControl {
  /** Base URL of the API. */
  readonly url: string;
  readonly control: Control;
  /** Whether there was no API key before. */
  readonly firstRun: boolean;
  /** Makes an API key; the secret is shown once and kept nowhere. */
  createApiKey(): Promise<string>;
  /** For connections that begin from now on. */
  replaceTls(tls: Tls): void;
  /** Answers nobody any more, and pauses every running sandbox. */
  pauseAll(): Promise<PausedAll>;
  close(): Promise<void>;
}

export async function openControl(options: OpenControlOptions): Promise<OpenControl> {
  const closers = new Closers();
  try {
    return await compose(options, closers);
  } catch (error) {
    await closers.closeAll();
    throw error;
  }
}

async function compose(options: OpenControlOptions, closers: Closers): Promise<OpenControl> {
  const { config, node, gateway, logger, report, tracing } = options;
  report('starting the database');
  const records = await openRecords(options, closers);
  const kms = config.encrypted ? { kms: await openKms(keysFolderOf(config), config.kms) } : {};
  const control = closers.add(
    createControl({ node, records, clock, chance, logger, ...kms, ...tracing }, gateway),
    (open) => open.close(),
  );
  await options.nodeUp;
  report('reconciling');
  await control.start();
  const http = closers.add(apiServer(control, { config, logger, tracing }), (open) => open.close());
  const url = await listen(http, options.listen);
  return {
    url,
    control,
    firstRun: !(await records.tenants.hasApiKeys()),
    createApiKey: async () => (await createApiKey({ records, chance, clock })).secretKey,
    replaceTls: (tls) => replaceTls(http, tls),
    async pauseAll() {
      await http.close();
      return pauseAll(control, records);
    },
    close: () => closers.closeAll(),
  };
}

/** Everything that is served over a control, by all of its faces. */
export function apiServer(
  control: Control,
  {
    config,
    logger,
    tracing = {},
  }: Pick<OpenControlOptions, 'logger'> & {
    readonly config: Pick<ControlConfig, 'hosts' | 'domain' | 'previews' | 'tls'>;
    readonly tracing?: Partial<Tracing>;
  },
) {
  const { hosts, domain, previews, tls } = config;
  return createHttpServer({
    useCases: control,
    authenticate: (token, project) => control.authenticate(token, project),
    openShare: (token, target) => control.openShare(token, target),
    openPublic: (target) => control.openPublic(target),
    faces: [
      e2bFace({
        useCases: control,
        tokenFor: (caller, id) => control.tokenFor(caller, id),
        reach: (id) => control.reach(id),
        uploads: control.uploads,
        findByToken: (isIt, limit) => control.findByToken(isIt, limit),
        listRuns: (caller, asked) => control.listRuns(caller, asked),
      }),
    ],
    logger,
    version: VERSION,
    ...tracing,
    hosts,
    ...(domain === undefined ? {} : { domain }),
    ...(previews === undefined ? {} : { previews }),
    ...(tls === undefined ? {} : { tls }),
  });
}

async function openRecords({ config, databaseUser, logger }: OpenControlOptions, closers: Closers): Promise<Records> {
  const address =
    config.databaseUrl === undefined
      ? closers.add(
          await startPrivateCluster({
            dataDir: databaseDirOf(config),
            socketDir: databaseSocketDirOf(config),
            user: databaseUser,
            logger,
          }),
          (cluster) => cluster.close(),
        ).address
      : { url: config.databaseUrl };
  const database = closers.add(await openDatabase(address, logger), (open) => open.close());
  return createPostgresRecords(database);
}
