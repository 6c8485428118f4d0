// SPDX-License-Identifier: MIT OR Apache-2.0
// A flame graph: costs by call path, as `piste analyze flame` sums them up. Here are its frames, where they lie, and what a search finds among them;
// flametab.tsx asks for them and draws them.
import { css, hashOf, type Rgb } from "./colours";
import { duration } from "./time";

/** Of the paths, the most expensive ones are asked for. */
export const FRAMES_MAX = 4000;
/** Frames above each other that are drawn, from the enlarged one on. */
export const DEPTH_MAX = 200;
/** Callers of the enlarged frame that are drawn, besides the bar of all. */
const CALLERS_MAX = 6;
/** Narrower frames are not drawn, in CSS pixels. */
const WIDTH_MIN = 1;

/** The tables of the analysis that have paths. */
export const KINDS = {
	calls: { name: "Time in functions", isTime: true, times: ["call", "calls"] },
	off_cpu: { name: "Off-CPU time", isTime: true, times: ["off-CPU period", "off-CPU periods"] },
	events: { name: "Events", isTime: false, times: null },
} as const;
export type Kind = keyof typeof KINDS;

/** A row, as the command prints it: each below the path that it extends. */
interface Row {
	function: string;
	depth: number;
	share_percent: number;
	total_ns?: number;
	total?: number;
	self_ns?: number;
	self?: number;
	calls?: number;
	times?: number;
}

export interface Frame {
	name: string;
	/** -1: it is the root. */
	parent: number;
	depth: number;
	/** In nanoseconds or events: with all that it called, and alone. */
	total: number;
	own: number;
	/** How often, if that is another number. */
	times: number | null;
	children: number[];
	/** Where it begins, counted from the beginning of all. */
	begin: number;
	/** It stands for paths that are not listed. */
	isRest: boolean;
}

/** Frames: the first stands for all. */
export interface Graph {
	kind: Kind;
	frames: Frame[];
	/** There are more paths: the rest of each frame is a frame. */
	isCut: boolean;
}

/** Which kinds an answer of the command has. */
export const kindsOf = (answer: unknown): Kind[] =>
	(Object.keys(KINDS) as Kind[]).filter((kind) => Array.isArray((answer as Record<string, unknown>)[kind]));

/** From a table of the answer. One row more than `most` was asked for. */
export function graphOf(answer: unknown, kind: Kind, most: number): Graph {
	const rows = (answer as Record<Kind, Row[]>)[kind];
	const isCut = rows.length > most;
	const all = frame("all", -1, 0, 0, 0, null);
	const frames = [all];
	/** The last one at each depth. */
	const open = [0];
	for (const row of rows) {
		const depth = Math.min(row.depth + 1, open.length);
		const parent = open[depth - 1]!;
		open.length = depth;
		open.push(frames.length);
		frames[parent]!.children.push(frames.length);
		const times = row.calls ?? row.times ?? null;
		frames.push(
			frame(row.function, parent, depth, row.total_ns ?? row.total ?? 0, row.self_ns ?? row.self ?? 0, times),
		);
	}
	const sum = ({ children }: Frame) => children.reduce((sum, child) => sum + frames[child]!.total, 0);
	all.total = Math.max(sum(all), isCut ? totalOf(rows) : 0);
	const listed = frames.length;
	for (let index = 0; index < listed; index++) {
		const one = frames[index]!;
		const rest = isCut ? one.total - one.own - sum(one) : 0;
		if (rest > 0) {
			one.children.push(frames.length);
			frames.push({ ...frame("not listed", index, one.depth + 1, rest, 0, null), isRest: true });
		}
		let begin = one.begin;
		for (const child of one.children) {
			frames[child]!.begin = begin;
			begin += frames[child]!.total;
		}
	}
	return { kind, frames, isCut };
}

const frame = (
	name: string,
	parent: number,
	depth: number,
	total: number,
	own: number,
	times: number | null,
): Frame => ({
	name,
	parent,
	depth,
	total,
	own,
	times,
	children: [],
	begin: 0,
	isRest: false,
});

/** What all paths cost, from the share of the most expensive one, which has three decimals. */
function totalOf(rows: Row[]): number {
	const dearest = rows.reduce((one, other) => (other.share_percent > one.share_percent ? other : one));
	const total = dearest.total_ns ?? dearest.total ?? 0;
	return dearest.share_percent > 0 ? Math.round((total / dearest.share_percent) * 100) : 0;
}

/** A frame in the picture, in CSS pixels. */
export interface Box {
	index: number;
	row: number;
	x: number;
	width: number;
	/** It called the enlarged frame, or is all. */
	isCaller: boolean;
}

export interface Layout {
	boxes: Box[];
	rows: number;
	/** Frames that are too narrow to be drawn, and frames that are too deep. */
	narrow: number;
	deep: number;
	/** Callers of the enlarged frame that are not drawn. */
	callers: number;
}

/** Where frames lie if one of them is as wide as the picture: its callers above it, and what it called below. */
export function layoutOf({ frames }: Graph, enlarged: number, width: number): Layout {
	const callers = callersOf(frames, enlarged);
	const above = callers.length > CALLERS_MAX + 1 ? [0, ...callers.slice(-CALLERS_MAX)] : callers;
	const boxes: Box[] = above.map((index, row) => ({ index, row, x: 0, width, isCaller: true }));
	const first = frames[enlarged]!;
	const scale = width / Math.max(1, first.total);
	const found: Layout = { boxes, rows: above.length, narrow: 0, deep: 0, callers: callers.length - above.length };
	const open = [enlarged];
	for (let index = open.pop(); index !== undefined; index = open.pop()) {
		const one = frames[index]!;
		const below = one.depth - first.depth;
		const shown = one.total * scale;
		if (below >= DEPTH_MAX) found.deep++;
		else if (shown < WIDTH_MIN && index !== enlarged) found.narrow++;
		else {
			const row = above.length + below;
			const x = index === enlarged ? 0 : (one.begin - first.begin) * scale;
			boxes.push({ index, row, x, width: index === enlarged ? width : shown, isCaller: index === 0 });
			found.rows = Math.max(found.rows, row + 1);
		}
		// What is below a frame that is not drawn is not drawn, either, but counted.
		open.push(...one.children.toReversed());
	}
	return found;
}

/** From all to the one that called a frame. */
function callersOf(frames: Frame[], index: number): number[] {
	const callers = [];
	for (let at = frames[index]!.parent; at >= 0; at = frames[at]!.parent) callers.push(at);
	return callers.reverse();
}

const STEPS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home"] as const;

/** The box to which a key leads from the box of a frame; null: it is a key for something else. */
export function stepTo({ boxes }: Layout, { frames }: Graph, from: number, key: string): number | null {
	if (!(STEPS as readonly string[]).includes(key)) return null;
	const here = boxes.find(({ index }) => index === from) ?? boxes[0]!;
	const widest = (some: Box[]) =>
		some.reduce<Box | undefined>((one, other) => (one && one.width >= other.width ? one : other), undefined);
	const row = boxes.filter((box) => box.row === here.row).sort((one, other) => one.x - other.x);
	const at = row.indexOf(here);
	const to = {
		ArrowUp: boxes.findLast((box) => box.row === here.row - 1 && box.x <= here.x),
		ArrowDown: here.isCaller
			? widest(boxes.filter((box) => box.row === here.row + 1))
			: widest(boxes.filter(({ index }) => frames[index]!.parent === here.index)),
		ArrowLeft: row[at - 1],
		ArrowRight: row[at + 1],
		Home: boxes[0],
	}[key as (typeof STEPS)[number]];
	return (to ?? here).index;
}

/** Frames whose names contain a text. */
export interface Matches {
	frames: ReadonlySet<number>;
	/** What they cost together; one that was called by another is in that already. */
	total: number;
}

export function matchesOf({ frames }: Graph, text: string): Matches | null {
	const word = text.trim().toLowerCase();
	if (!word) return null;
	const found = new Set<number>();
	const within = new Set<number>();
	let total = 0;
	// A caller comes before what it called.
	frames.forEach(({ name, parent, isRest, total: cost }, index) => {
		const isMatch = index > 0 && !isRest && name.toLowerCase().includes(word);
		const isWithin = within.has(parent);
		if (isMatch) found.add(index);
		if (isMatch && !isWithin) total += cost;
		if (isMatch || isWithin) within.add(index);
	});
	return { frames: found, total };
}

/** `1.25 ms` or `12 events` */
export function costText(kind: Kind, cost: number): string {
	if (KINDS[kind].isTime) return duration(cost);
	return `${cost.toLocaleString("en-US")} ${cost === 1 ? "event" : "events"}`;
}

export function shareText(cost: number, all: number): string {
	const share = (cost / Math.max(1, all)) * 100;
	return share > 0 && share < 0.01 ? "<0.01 %" : `${share.toFixed(share < 10 ? 2 : 1)} %`;
}

/** What is said of a frame, line by line. */
export function linesOf({ kind, frames }: Graph, index: number, enlarged: number): string[] {
	const { total, own, times, isRest } = frames[index]!;
	const whole = frames[0]!.total;
	const lines = [`${costText(kind, total)}, ${shareText(total, whole)} of all`];
	if (enlarged !== 0 && index !== 0 && frames[enlarged]!.total >= total)
		lines.push(`${shareText(total, frames[enlarged]!.total)} of ${frames[enlarged]!.name}`);
	if (index !== 0 && !isRest) lines.push(`${costText(kind, own)} in the function itself`);
	const words = KINDS[kind].times;
	if (words && times) lines.push(`${times.toLocaleString("en-US")} ${words[times === 1 ? 0 : 1]}`);
	return lines;
}

/**
 * Blues, browns and a grey, of which the neighbours in this list differ in brightness, too: people with every kind of colour vision tell them apart.
 * White text is legible on all.
 */
export const FLAMES: readonly Rgb[] = [
	[31, 84, 148],
	[168, 90, 10],
	[44, 117, 178],
	[116, 62, 8],
	[92, 103, 120],
	[20, 58, 104],
];

/** The colour of a function: the same in every trace. */
export const flameColour = (name: string): string => css(FLAMES[hashOf(name) % FLAMES.length]!);
