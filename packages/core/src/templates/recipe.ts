/**
 * What a template is built from, and which of its layers there are. Pure: a recipe and what it starts from give the layers, each
 * with the state that it runs in and a key. The key of a layer follows from the key of the one before it and from all that the
 * step is made of, so that equal keys mean equal content, as far as commands give the same result when they are run again.
 *
 * Steps that only say something (ENV, USER, WORKDIR) make no layer: they are a part of the key of each one that comes after.
 */
import { createHash } from 'node:crypto';
import type { NetworkPolicy } from '../egress/network-policy.ts';
import type { ImageSource } from './image.ts';

export type BuildStep = BuildStepKind & {
  /** It is run, and all after it, whatever is kept of earlier builds. */
  readonly force?: boolean;
};

type BuildStepKind =
  | { readonly type: 'run'; readonly command: string; readonly user?: string }
  /** `from` is a path or a pattern in the archive that was uploaded as `files`. */
  | {
      readonly type: 'copy';
      readonly files: string;
      readonly from: string;
      readonly to: string;
      readonly user?: string;
      /** Octal digits. */
      readonly mode?: string;
    }
  | { readonly type: 'env'; readonly values: Readonly<Record<string, string>> }
  | { readonly type: 'workdir'; readonly path: string }
  | { readonly type: 'user'; readonly name: string };

export interface Recipe {
  /** A template, with a tag if it has one; or an image. */
  readonly from: string | ImageSource;
  readonly steps: readonly BuildStep[];
  /** A program that runs in each sandbox made from the template: it is started once, and its memory is kept. */
  readonly start?: string;
  /** Asked again and again until it succeeds: then the template is ready. */
  readonly ready?: string;
  /** Nothing of earlier builds is used. */
  readonly force?: boolean;
  /** What the steps may reach. Undefined: what a sandbox may that says nothing of it. */
  readonly network?: NetworkPolicy;
}

/** What the steps before have said. */
export interface BuildState {
  readonly user: string;
  /** Null: the user's home. */
  readonly cwd: string | null;
  readonly env: Readonly<Record<string, string>>;
}

export const FIRST_STATE: BuildState = { user: 'user', cwd: null, env: {} };

/** What a recipe starts from. */
export interface BuildBase {
  readonly key: string;
  readonly state: BuildState;
}

export type LayerStep =
  | Extract<BuildStep, { readonly type: 'run' | 'copy' }>
  | { readonly type: 'finish'; readonly start?: string; readonly ready?: string };

export interface Layer {
  readonly step: LayerStep;
  /** Of the step in the recipe, from 1; of the last layer, one more than there are steps. */
  readonly number: number;
  readonly key: string;
  readonly state: BuildState;
  readonly isForced: boolean;
}

/** The layers in order; the last one is the template. */
export function layersOf(recipe: Recipe, base: BuildBase): readonly Layer[] {
  const layers: Layer[] = [];
  let { key, state } = base;
  let isForced = recipe.force === true;
  const add = (step: LayerStep, number: number) => {
    key = keyOf(key, step, state);
    layers.push({ step, number, key, state, isForced });
  };
  for (const [index, step] of recipe.steps.entries()) {
    isForced ||= step.force === true;
    if (step.type === 'run' || step.type === 'copy') add(step, index + 1);
    else state = after(state, step);
  }
  const { start, ready } = recipe;
  const programs = { ...(start === undefined ? {} : { start }), ...(ready === undefined ? {} : { ready }) };
  add({ type: 'finish', ...programs }, recipe.steps.length + 1);
  return layers;
}

function after(state: BuildState, step: Exclude<BuildStep, { readonly type: 'run' | 'copy' }>): BuildState {
  switch (step.type) {
    case 'env': {
      const values = Object.entries(step.values).map(([name, value]) => [name, expanded(value, state.env)]);
      return { ...state, env: { ...state.env, ...Object.fromEntries(values) } };
    }
    case 'user':
      return { ...state, user: step.name };
    case 'workdir':
      return { ...state, cwd: joined(state, step.path) };
  }
}

/** As Dockerfiles have it, a path follows the one before it. */
function joined({ cwd, user }: BuildState, path: string): string {
  return path.startsWith('/') ? path : `${cwd ?? homeOf(user)}/${path}`;
}

export function homeOf(user: string): string {
  return user === 'root' ? '/root' : `/home/${user}`;
}

/** `$NAME` and `${NAME}` of what was set before; others stay as they are. */
function expanded(value: string, env: Readonly<Record<string, string>>): string {
  return value.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced?: string, plain?: string) => {
    return env[braced ?? plain ?? ''] ?? whole;
  });
}

function keyOf(before: string, step: LayerStep, { user, cwd, env }: BuildState): string {
  const { force: _, ...content } = step as LayerStep & { readonly force?: boolean };
  const sorted = (fields: object) => Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const parts = JSON.stringify([before, sorted(content), user, cwd, sorted(env)]);
  return createHash('sha256').update(parts).digest('hex');
}
