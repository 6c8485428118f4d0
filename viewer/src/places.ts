// SPDX-License-Identifier: MIT OR Apache-2.0
// From a row of another page to its place in the timeline.
import type { Shown } from "./address";
import { choiceOf, type Lanes } from "./rows";
import { isNumeric } from "./tables";
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

/** Columns of times in the tables of `piste query`. */
const TIMES = new Set(["time_ns", "begin_ns", "end_ns", "queued_ns", "issued_ns", "completed_ns", "raised_ns"]);

/** The time in a cell of a column, in ns from the begin of the recording. Null: it is none, or not in the span. */
export function timeIn(column: string, text: string, origin: bigint, span: Span): number | null {
	if (/^\d+$/.test(text) && !/_ns\)*$/.test(column)) return null;
	const ns = timeOf(text);
	// If the clock does not count from 1970, a duration can look like a time.
	const isSure = origin > 10n ** 17n || TIMES.has(column);
	if (ns === null || !isSure) return null;
	const at = Number(ns - origin);
	return at >= span.begin && at <= span.end ? at : null;
}

/** What a cell of a row is about, if it has a time in the recording. */
export function placeIn(columns: string[], row: string[], index: number, origin: bigint, whole: Span): Place | null {
	const at = timeIn(columns[index]!, row[index]!, origin, whole);
	if (at === null) return null;
	const number = (column: string) => {
		const text = row[columns.indexOf(column)];
		return text && isNumeric(text) ? Number(text) : undefined;
	};
	const isBegin = /^begin(_ns)?$/.test(columns[index]!);
	return { at, duration: isBegin ? number("duration_ns") : undefined, tid: number("tid"), cpu: number("cpu") };
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
