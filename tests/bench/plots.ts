/**
 * Draws what `npm run bench:growth` measured: `npm run bench:plots -- FILE [FOLDER]` writes an SVG per series, by default
 * beside the file. The same file gives the same pictures.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { GrowthReport, Series } from './growth-report.ts';

/** SVG by the name of the series. */
export async function plotsOf({ series }: Pick<GrowthReport, 'series'>): Promise<ReadonlyMap<string, string>> {
  const drawn = new Map<string, string>();
  for (const [name, one] of Object.entries(series)) {
    // Two points make no line.
    if (one.points.length < 3) continue;
    const view = new View(parse(compile(specOf(one)).spec), { renderer: 'none' });
    drawn.set(name, await view.toSVG());
    view.finalize();
  }
  return drawn;
}

/** Medians in milliseconds, with whiskers up to the p95 where there is one. */
function specOf({ varies, points }: Series): TopLevelSpec {
  const values = points.flatMap(({ x, results }) =>
    results.filter(({ unit }) => unit === 'ms').map(({ name, p50, p95 }) => ({ x, name, p50, p95: p95 ?? p50 })),
  );
  const x = { field: 'x', type: 'quantitative', title: varies, scale: { type: 'log', base: 2, nice: false } } as const;
  const color = { field: 'name', type: 'nominal', title: null } as const;
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width: 520,
    height: 260,
    background: 'white',
    data: { values },
    encoding: { x, color },
    layer: [
      {
        mark: { type: 'line', point: true },
        encoding: { y: { field: 'p50', type: 'quantitative', title: 'ms, p50', scale: { type: 'log' } } },
      },
      { mark: 'rule', encoding: { y: { field: 'p50', type: 'quantitative' }, y2: { field: 'p95' } } },
    ],
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, folder] = process.argv.slice(2);
  if (file === undefined) throw new Error('Name the file that `npm run bench:growth -- --json FILE` wrote.');
  const measured = JSON.parse(await readFile(file, 'utf8')) as GrowthReport;
  for (const [name, svg] of await plotsOf(measured)) await writeFile(join(folder ?? dirname(file), `${name}.svg`), svg);
}
