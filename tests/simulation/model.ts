/**
 * What a user was promised: a sandbox as a machine that does one thing at a time. `explain` looks for an order of what the
 * clients did to one sandbox, in which everything they were told is true. It must agree with the order of calls that did
 * not overlap; what failed may or may not have taken place, before its caller was told.
 *
 * The content of a sandbox is the list of marks that were made in it, once in memory and once on its disk.
 */
export interface Happening {
  readonly kind:
    | 'create'
    | 'mark'
    | 'look'
    | 'exists'
    | 'take'
    | 'pause'
    | 'resume'
    | 'rewind'
    | 'delete'
    /** It is handed over: to be taken up elsewhere, or where it was. */
    | 'leave'
    /** It is taken up. */
    | 'arrive'
    /** Where it was, it is taken back. */
    | 'undo'
    /** Its VMM died. */
    | 'crash'
    /** Somebody was told that there is no such sandbox. */
    | 'gone'
    /** Somebody was told that it has moved away. */
    | 'away';
  /** The installation; left out: wherever it is. */
  readonly site?: string;
  /** Of a mark its text; of what shows or sets the content, that; null: not known. */
  readonly value: string | null;
  /** Of a rewind: what the present was kept as; null: not known. */
  readonly kept?: string | null;
  /** Of a rewind: whether the point is one of the sandbox's own. */
  readonly own?: boolean;
  /** Places in the order of all begins and ends. */
  readonly begunAt: number;
  readonly endedAt: number;
  /** It may have had no effect. */
  readonly maybe: boolean;
  /** For people. */
  readonly text: string;
}

interface State {
  readonly life: 'absent' | 'up' | 'crashed' | 'left' | 'deleted';
  /** Where it is, or has left. */
  readonly place: string | undefined;
  readonly content: string;
  /** Of the newest point of its line; null: it has none of its own. */
  readonly tip: string | null;
}

export const NO_MARKS = '| ';

/** Whether there is such an order. */
export function explain(happenings: readonly Happening[]): boolean {
  const seen = new Set<string>();
  const all = [...happenings].sort((a, b) => a.begunAt - b.begunAt);
  const visit = (left: readonly Happening[], state: State): boolean => {
    const required = left.filter(({ maybe }) => !maybe);
    if (required.length === 0) return true;
    const key = `${left.map((one) => all.indexOf(one)).join()} ${state.life} ${state.place} ${state.content} ${state.tip}`;
    if (seen.has(key)) return false;
    seen.add(key);
    const horizon = Math.min(...required.map(({ endedAt }) => endedAt));
    for (const next of left) {
      if (next.begunAt > horizon) break;
      // What had ended before this began, and is not in the order yet, had no effect.
      const rest = left.filter((one) => one !== next && !(one.maybe && one.endedAt < next.begunAt));
      if (apply(state, next).some((after) => visit(rest, after))) return true;
    }
    return false;
  };
  return visit(all, { life: 'absent', place: undefined, content: NO_MARKS, tip: null });
}

/** The states that may follow; none: it cannot have happened then. */
function apply(state: State, { kind, value, kept, own, site }: Happening): readonly State[] {
  const { content } = state;
  const isHere = site === undefined || site === state.place;
  // Elsewhere there is at most what it left behind.
  const life = isHere || state.life === 'absent' ? state.life : 'left';
  const fits = (seen: string | null | undefined) => seen === null || seen === undefined || seen === content;
  switch (kind) {
    case 'create':
      return life === 'absent' ? [{ life: 'up', place: site, content: value ?? NO_MARKS, tip: null }] : [];
    case 'gone':
      return life === 'absent' || life === 'deleted' || life === 'left' ? [state] : [];
    case 'away':
      return life === 'left' ? [state] : [];
    case 'exists':
      return life === 'up' || life === 'crashed' ? [state] : [];
    case 'mark':
      return life === 'up' ? [{ ...state, content: marked(content, value ?? '') }] : [];
    case 'look':
      return life === 'up' && fits(value) ? [state] : [];
    case 'take':
    case 'pause':
      return life === 'up' && fits(value) ? [{ ...state, tip: content }] : [];
    case 'resume':
      if (life === 'crashed') return recoveries(state);
      return life === 'up' ? [state] : [];
    case 'rewind':
      if (life !== 'up' && life !== 'crashed') return [];
      if (life === 'up' && !fits(kept)) return [];
      return [{ ...state, life: 'up', content: value ?? content, tip: own === true ? value : null }];
    case 'delete':
      // One that was being created, and came to nothing.
      // Where it has left, what it has left there.
      if (life === 'absent' || life === 'left') return [state];
      return [{ ...state, life: 'deleted', content: '', tip: null }];
    case 'leave':
      if (life === 'up') return [{ ...state, life: 'left', tip: content }];
      // Where it has left, the move is told again, also when it was taken up since.
      return life === 'left' ? [state] : [];
    case 'arrive':
      if (state.life === 'left') return [{ ...state, life: 'up', place: site }];
      // Once more: it goes on.
      if (life === 'crashed') return recoveries(state);
      return life === 'up' ? [state] : [];
    case 'undo':
      return isHere && life === 'left' ? [{ ...state, life: 'up' }] : [];
    case 'crash':
      return life === 'up' ? [{ ...state, life: 'crashed' }] : [];
  }
}

/** Nothing goes that was in the newest point of its line; the platform may have taken newer ones by itself. */
function recoveries({ content, tip, place }: State): readonly State[] {
  const { memory, disk } = partsOf(content);
  const older: State[] = [];
  for (let kept = memory.length; kept >= 0; kept--) {
    const gone = memory.length - kept;
    const recovered = contentOf(memory.slice(0, kept), disk.slice(0, disk.length - gone));
    older.push({ life: 'up', place, content: recovered, tip: recovered });
    if (recovered === tip) return older;
  }
  // Without a point it is booted from its disk.
  return tip === null ? [{ life: 'up', place, content: contentOf([], disk), tip: null }, ...older] : older;
}

function marked(content: string, mark: string): string {
  const { memory, disk } = partsOf(content);
  return contentOf([...memory, mark], [...disk, mark]);
}

function partsOf(content: string): { readonly memory: readonly string[]; readonly disk: readonly string[] } {
  const [memory = '', disk = ''] = content.split('|').map((part) => part.trim());
  const words = (text: string) => (text === '' ? [] : text.split(' '));
  return { memory: words(memory), disk: words(disk) };
}

function contentOf(memory: readonly string[], disk: readonly string[]): string {
  const text = (words: readonly string[]) => words.map((word) => `${word} `).join('');
  return `${text(memory)}| ${text(disk)}`;
}

/** Marks that were made more than once in one line. */
export function repeatedMarks(content: string): readonly string[] {
  const { memory, disk } = partsOf(content);
  return [memory, disk].flatMap((marks) => marks.filter((mark, at) => marks.indexOf(mark) !== at));
}
