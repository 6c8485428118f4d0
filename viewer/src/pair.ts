// SPDX-License-Identifier: MIT OR Apache-2.0
// Two timelines with a common axis: the times of the page are those of the first recording, and the second is shown `offset` ns later.
import { NONE_OWN, type Own, type Shown } from "./address";
import { around } from "./places";
import type { Span } from "./timeline";

const OWN_KEYS = Object.keys(NONE_OWN) as (keyof Own)[];

/** What is seen around pieces, in ns. */
const AROUND = 2000;

const moved = (span: Span | null, by: number): Span | null => span && { begin: span.begin + by, end: span.end + by };

const ownOf = (all: Partial<Shown>): Partial<Own> =>
	Object.fromEntries(OWN_KEYS.filter((key) => key in all).map((key) => [key, all[key]]));

/** The recording that another one is compared with; of two, it is the other one. null: it is to be chosen. */
export function otherOf({ other }: Shown, recording: number, count: number): number | null {
	if (other !== null && other < count) return other;
	return count === 2 ? 1 - recording : null;
}

/** What the second timeline shows: its own lanes, and the same times. */
export function secondOf(shown: Shown): Shown {
	const { offset, second, span, range } = shown;
	return { ...shown, ...second, span: moved(span, -offset), range: moved(range, -offset) };
}

/** What is shown if the second timeline changes. */
export function ofSecond(change: Partial<Shown>, shown: Shown): Partial<Shown> {
	const own = ownOf(change);
	const common = Object.fromEntries(Object.entries(change).filter(([key]) => !(key in NONE_OWN))) as Partial<Shown>;
	return {
		...common,
		...("span" in change && { span: moved(change.span ?? null, shown.offset) }),
		...("range" in change && { range: moved(change.range ?? null, shown.offset) }),
		...(Object.keys(own).length > 0 && { second: chosen(shown.second, own) }),
	};
}

/** The lane that is selected is the last one, also afterwards. */
const chosen = (own: Own, change: Partial<Own>): Own => ({
	...own,
	...change,
	...(change.selected && { last: change.selected.lane }),
});

/** The first and the second recording, exchanged; what is seen stays. */
export function exchanged(shown: Shown, other: number): Partial<Shown> {
	const { offset, second, recording, span, range } = shown;
	return {
		...second,
		recording: other,
		other: recording,
		offset: -offset,
		span: moved(span, -offset),
		range: moved(range, -offset),
		second: ownOf(shown) as Own,
	};
}

/** Both recordings, on the axis of the first. */
export function reachOf(first: Span, second: Span, offset: number): Span {
	return { begin: Math.min(first.begin, second.begin + offset), end: Math.max(first.end, second.end + offset) };
}

/** What of a recording something is about: the lanes, the first of them most, and a piece. */
export interface Place {
	pinned: number[];
	open: number[];
	piece: (Span & { lane: number }) | null;
}

/** The timelines with such places at their tops. Two pieces begin at the same place of the axis. */
export function placed([first, second]: [Place, Place], shown: Shown, wholes: [Span, Span]): Partial<Shown> {
	const own = ({ pinned, open, piece }: Place, before: Own): Own => {
		const selected = piece && { lane: piece.lane, at: piece.begin };
		return chosen(before, { pinned, open: [...new Set([...before.open, ...open])], selected });
	};
	const offset = first.piece && second.piece ? first.piece.begin - second.piece.begin : shown.offset;
	const pieces = [first.piece, moved(second.piece, offset)].filter((piece) => piece !== null);
	const seen = pieces.length > 0 && {
		begin: Math.min(...pieces.map(({ begin }) => begin)),
		end: Math.max(...pieces.map(({ end }) => end)),
	};
	return {
		...ownOf(own(first, shown)),
		second: own(second, shown.second),
		offset,
		span: seen ? around(seen, reachOf(...wholes, offset), AROUND) : null,
		range: null,
	};
}

/** What is shown if two times, each of its own recording, are at the same place. The first one stays where it is, and is seen. */
export function aligned(first: number, second: number, shown: Shown, reach: Span): Partial<Shown> {
	const { begin, end } = shown.span ?? reach;
	const half = (end - begin) / 2;
	const isSeen = first >= begin && first <= end;
	return { offset: first - second, span: isSeen ? { begin, end } : { begin: first - half, end: first + half } };
}

/** `-1.5 ms` in ns; a number alone is of seconds. null: it is none. */
export function nsOf(text: string): number | null {
	const found = /^\s*([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*(ns|µs|us|ms|s|)\s*$/.exec(text.replace("−", "-"));
	if (!found) return null;
	const size = { ns: 1, µs: 1e3, us: 1e3, ms: 1e6, s: 1e9, "": 1e9 }[found[3]!]!;
	const ns = Math.round(Number(found[2]) * size);
	return ns < 2 ** 53 ? (found[1] === "-" ? -ns : ns) : null;
}
