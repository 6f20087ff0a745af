/** Kernel modules: what each depends on (read from the module itself) and the order in which they can be loaded. */

/** A module name as the kernel knows it: file names may have dashes where the name has underscores. */
export const moduleName = (fileName: string): string => fileName.replace(/\.ko$/, '').replaceAll('-', '_');

/**
 * The `depends=` entry of a module's `.modinfo` section, a list of NUL-terminated strings. It is searched for in the
 * whole file, since the entry is unmistakable and its section is not worth an ELF parser.
 */
export function readDependencies(module: Buffer): string[] {
  const key = '\0depends=';
  const at = module.indexOf(key, 0, 'latin1');
  if (at < 0) throw new Error('This is no kernel module: it has no list of dependencies');
  const start = at + key.length;
  const end = module.indexOf(0, start);
  return module
    .toString('latin1', start, end)
    .split(',')
    .filter((name) => name !== '')
    .map(moduleName);
}

/**
 * The wanted modules and all they depend on, each after its dependencies, otherwise in the order wanted.
 * `dependenciesOf` gives `undefined` for a module that does not exist.
 */
export function loadOrder(
  wanted: readonly string[],
  dependenciesOf: (name: string) => readonly string[] | undefined,
): string[] {
  const order: string[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const visit = (name: string, neededBy: string): void => {
    if (state.get(name) === 'done') return;
    if (state.get(name) === 'open') throw new Error(`The modules ${name} and ${neededBy} depend on each other`);
    const dependencies = dependenciesOf(name);
    if (!dependencies) throw new Error(`The kernel package has no module ${name} (needed by ${neededBy})`);
    state.set(name, 'open');
    for (const dependency of dependencies) visit(dependency, name);
    state.set(name, 'done');
    order.push(name);
  };
  for (const name of wanted) visit(name, 'the recipe');
  return order;
}
