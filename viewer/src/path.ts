// SPDX-License-Identifier: MIT OR Apache-2.0
// The critical path of a thread, as `piste analyze critical-path` finds it: asked for while its tab is open, and drawn over the lanes.
import { useMemo, useRef } from "preact/hooks";
import type { Shown } from "./address";
import { REST_MS, useAnswer } from "./answers";
import * as api from "./api";
import { css, type Theme } from "./colours";
import type { Lanes } from "./rows";
import type { Selection } from "./selected";
import type { Span } from "./timeline";

/** The tab of the details that shows it. */
export const PATH_TAB = "path";
/** How many segments of a longer path are asked for. */
export const SEGMENTS_MAX = 4000;

/** What has a CPU, waits or is unknown. */
interface Deed {
	state: string;
	cause: string | null;
	syscall: string | null;
	by: string | null;
}

/** A part of the path, on one thread. */
export interface Segment extends Deed {
	/** In ns from the beginning of the recording. */
	begin: number;
	end: number;
	share: number;
	depth: number;
	tid: number;
	comm: string;
	/** The lane of the thread, if it has one. */
	lane: number | null;
	/** What the thread whose path it is waited for meanwhile. */
	wait: string | null;
}

/** All parts of a path with the same reason. */
export interface Cause extends Deed {
	count: number;
	total: number;
	share: number;
}

/** A thread on the path. */
export interface OnPath {
	tid: number;
	comm: string;
	lane: number | null;
	total: number;
	share: number;
}

export interface Path {
	causes: Cause[];
	threads: OnPath[];
	segments: Segment[];
	/** There are more segments, from here on. */
	cutAt: number | null;
	notes: string[];
}

/** What `piste --json analyze critical-path` prints. */
interface Answer {
	notes: string[];
	causes: (Deed & { count: number; total_ns: number; share_percent: number })[];
	threads: { tid: number; comm: string; total_ns: number; share_percent: number }[];
	path: (Deed & {
		begin_ns: string;
		duration_ns: number;
		share_percent: number;
		depth: number;
		tid: number;
		comm: string;
		wait: string | null;
		wait_syscall: string | null;
	})[];
}

/** From the answer of the command. One segment more than `most` was asked for. */
export function pathOf(answer: unknown, lanes: Lanes, origin: bigint, most: number): Path {
	const { notes, causes, threads, path } = answer as Answer;
	const lane = laneFinder(lanes);
	const segments = path.slice(0, most).map((row): Segment => {
		const begin = Number(BigInt(row.begin_ns) - origin);
		return {
			begin,
			end: begin + row.duration_ns,
			share: row.share_percent,
			depth: row.depth,
			tid: row.tid,
			comm: row.comm,
			lane: lane(row.tid, row.comm),
			state: row.state,
			cause: row.cause,
			syscall: row.syscall,
			by: row.by,
			wait: [row.wait, row.wait_syscall].filter(Boolean).join(" in ") || null,
		};
	});
	return {
		causes: causes.map(({ total_ns, share_percent, ...rest }) => ({ ...rest, total: total_ns, share: share_percent })),
		threads: threads.map(({ tid, comm, total_ns, share_percent }) => ({
			tid,
			comm,
			lane: lane(tid, comm),
			total: total_ns,
			share: share_percent,
		})),
		segments,
		cutAt: path.length > most ? segments.at(-1)!.end : null,
		notes: notes.filter((note) => !/more segments? (is|are) not shown/.test(note)),
	};
}

/** Lanes by the id of their thread, and of several threads that had it one after the other, by the name. */
function laneFinder(lanes: Lanes): (tid: number, comm: string) => number | null {
	const byTid = new Map<number, { id: number; name: string | undefined }[]>();
	for (const { kind, tid, id, name } of lanes.all) {
		if (kind !== "thread" || tid == null) continue;
		const same = byTid.get(tid);
		if (same) same.push({ id, name });
		else byTid.set(tid, [{ id, name }]);
	}
	return (tid, comm) => {
		const same = byTid.get(tid);
		return (same?.find(({ name }) => name === comm) ?? same?.[0])?.id ?? null;
	};
}

/** What is to be shown: whose path, and of which part of time. */
export interface Asked {
	/** The lane of the thread. */
	thread: number;
	/** Threads that could be meant: the one selected last, and pinned ones. */
	candidates: number[];
	span: Span;
}

/** What the tab and the picture need. */
export interface PathShown {
	/** Null while the selected piece is looked up, and where no thread or no part of time is chosen. */
	asked: Asked | null;
	isLookingUp: boolean;
	path: Path | null;
	problem: string | null;
}

/** Threads whose path can be asked for: those that are selected or were last, then pinned ones. */
export function candidates(shown: Shown, lanes: Lanes): number[] {
	const named = shown.selected ? [shown.selected.lane] : [shown.last ?? -1, ...shown.pinned];
	const threads = named.flatMap((id) => lanes.threadOf(id)?.id ?? []);
	return [...new Set(threads)];
}

/** The path that is shown: of the piece that is selected, or else of the range; null while its tab is closed. */
export function usePath(
	recording: number,
	origin: bigint,
	lanes: Lanes | null,
	shown: Shown,
	{ known, problem: notFound }: Selection,
): PathShown | null {
	const isOpen = shown.page === "timeline" && shown.tab === PATH_TAB && lanes?.hasKernel === true;
	const { selected, range } = shown;
	const span = selected ? (known?.span ?? null) : range;
	const asked = useMemo(() => {
		if (!isOpen || !lanes || !span) return null;
		const found = candidates(shown, lanes);
		return found.length > 0 ? { thread: found[0]!, candidates: found, span } : null;
	}, [isOpen, lanes, span, shown.selected, shown.last, shown.pinned]);
	const tid = asked ? (lanes?.get(asked.thread)?.tid ?? null) : null;
	// If you come back to a thread, you need not wait again.
	const kept = useRef(new Map<string, unknown>());
	const isLookingUp = isOpen && selected !== null && !known && !notFound;
	const { answer, problem } = useAnswer(
		asked && tid !== null ? [recording, tid, asked.span.begin, asked.span.end] : null,
		(signal) => {
			const begin = origin + BigInt(Math.floor(asked!.span.begin));
			const end = origin + BigInt(Math.ceil(asked!.span.end));
			return api.analysis(recording, "critical-path", begin, end, signal, SEGMENTS_MAX + 1, tid!);
		},
		{ restMs: REST_MS, kept: kept.current },
	);
	return useMemo(() => {
		if (!isOpen || !lanes) return null;
		const path = answer === undefined ? null : pathOf(answer, lanes, origin, SEGMENTS_MAX);
		return { asked, isLookingUp, path, problem: notFound ?? problem ?? null };
	}, [isOpen, lanes, origin, asked, isLookingUp, answer, notFound, problem]);
}

/** Pixels (CSS) from one connector to the next, at least. */
const CONNECTORS_APART = 6;

/** A row of lanes on the canvas: where its line is, in pixels. */
export type Heights = ReadonlyMap<number, number>;

interface Place {
	span: Span;
	/** Of the canvas, in pixels. */
	width: number;
	scale: number;
	theme: Theme;
}

/** A line, as SVG writes it. */
export interface Line {
	d: string;
	width: number;
	colour: string;
}

/** Lines along the lanes that are on the path, and connectors where it passes from one thread to another. Draw them one over the other. */
export function pathLines(segments: Segment[], heights: Heights, place: Place): Line[] {
	const { span, width, scale, theme } = place;
	const nsPerPixel = (span.end - span.begin) / width;
	const x = (ns: number) => Math.round(Math.min(width + 8, Math.max(-8, (ns - span.begin) / nsPerPixel)) * 100) / 100;
	let lines = "";
	let connectors = "";
	let before: { y: number | undefined; end: number } | null = null;
	let drawn = Number.NEGATIVE_INFINITY;
	for (const { lane, begin, end } of segments) {
		const y = lane === null ? undefined : heights.get(lane);
		if (end >= span.begin && begin <= span.end) {
			const [left, right] = [x(begin), x(end)];
			if (y !== undefined) lines += `M${left} ${y}H${Math.max(right, left + scale)}`;
			if (before?.y !== undefined && y !== undefined && before.y !== y && begin === before.end && begin >= span.begin) {
				// Connectors side by side would hide the lanes.
				if (left >= drawn + CONNECTORS_APART * scale) {
					connectors += `M${left} ${before.y}V${y}`;
					drawn = left;
				}
			}
		}
		before = { y, end };
	}
	// With a halo, the path is visible on every colour.
	return [
		{ colour: css(theme.background), more: 2 * scale },
		{ colour: theme.path, more: 0 },
	].flatMap(({ colour, more }) => [
		{ d: connectors, width: 1.5 * scale + more, colour },
		{ d: lines, width: 3.5 * scale + more, colour },
	]);
}
