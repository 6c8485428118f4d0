// SPDX-License-Identifier: MIT OR Apache-2.0
// From a row of another page to its place in the timeline.
import type { Shown } from "./address";
import { choiceOf, type Lanes } from "./rows";
import type { Span } from "./timeline";

/** What a page is given. */
export interface PageProps {
	recording: number;
	origin: bigint;
	whole: Span;
	lanes: Lanes | null;
	shown: Shown;
	show: (change: Partial<Shown>) => void;
}

/** What is seen around a time that has no duration, in ns. */
const AROUND = 200_000;

export interface Place {
	/** In ns from the beginning of the recording. */
	at: number;
	duration?: number | undefined;
	tid?: number | undefined;
	cpu?: number | undefined;
}

/** The timeline at a time, with the thread or the CPU selected; a time without either is marked. */
export function opened(place: Place, shown: Shown, whole: Span, lanes: Lanes | null): Partial<Shown> {
	const { at, duration = 0, tid, cpu } = place;
	// Thread 0 is the idle thread of every CPU.
	const lane =
		(tid ? lanes?.ofThread(tid) : undefined) ?? lanes?.all.find((lane) => lane.kind === "cpu" && lane.cpu === cpu);
	return {
		page: "timeline",
		span: around({ begin: at, end: at + duration }, whole, AROUND),
		range: null,
		filter: "",
		selected: lane ? { lane: lane.id, at } : null,
		pinned: lane?.kind === "thread" ? [...new Set([...shown.pinned, lane.id])] : shown.pinned,
		marks: lane ? shown.marks : [...new Set([...shown.marks, at])],
	};
}

/** The timeline as it is seen, with a lane selected at a time, and moved there if that is outside. Without a lane, the time is marked. */
export function revealed(id: number | null, at: number, shown: Shown, whole: Span, lanes: Lanes): Partial<Shown> {
	const lane = id === null ? undefined : lanes.get(id);
	const { begin, end } = shown.span ?? whole;
	const half = (end - begin) / 2;
	const isSeen = at >= begin && at <= end;
	const open = lane?.of == null ? shown.open : [...new Set([...shown.open, lane.of])];
	const isShown = !lane || lanes.rows(choiceOf({ ...shown, open })).some((row) => row.lane === lane);
	// Whatever hides it.
	const groups = lane ? lanes.groupsOf(lane.of ?? lane.id, shown.group).map(({ key }) => key) : [];
	return {
		page: "timeline",
		span: isSeen ? shown.span : { begin: at - half, end: at + half },
		selected: lane ? { lane: lane.id, at } : null,
		open,
		...(!isShown && {
			filter: "",
			hidden: shown.hidden.filter((one) => one !== lane.id && one !== lane.of),
			hiddenGroups: shown.hiddenGroups.filter((key) => !groups.includes(key)),
			closed: shown.closed.filter((key) => !groups.includes(key)),
		}),
		marks: lane ? shown.marks : [...new Set([...shown.marks, at])],
	};
}

/** What is seen if a part of the time is to be in the middle: twice as much, and at least so many ns, within the trace. */
export function around({ begin, end }: Span, whole: Span, least: number): Span {
	const width = Math.min(whole.end - whole.begin, Math.max(least, (end - begin) * 2));
	const first = Math.max(whole.begin, Math.min((begin + end) / 2 - width / 2, whole.end - width));
	return { begin: first, end: first + width };
}

/** A time in a text, in ns: a time stamp, or a number of ns. */
export function timeOf(text: string): bigint | null {
	if (/^\d{1,19}$/.test(text)) return BigInt(text);
	const found = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z?$/.exec(text);
	const seconds = found ? Date.parse(`${found[1]}Z`) : Number.NaN;
	return found && !Number.isNaN(seconds)
		? BigInt(seconds) * 1_000_000n + BigInt((found[2] ?? "").padEnd(9, "0"))
		: null;
}
