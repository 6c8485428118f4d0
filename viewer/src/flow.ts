// SPDX-License-Identifier: MIT OR Apache-2.0
// The control-flow view: threads are lines in the colours of their states, and a vertical line is where a CPU goes from one of them to another, or
// to an interrupt and back. CPUs have what is needed for that; where their pieces are too many to be told apart, there are no such lines.

import type { Labels, Pieces } from "./api";
import { CLASSES } from "./colours";
import type { Names } from "./rows";
import type { Strip } from "./tiles";

const RUNNING = CLASSES.indexOf("running");
const INTERRUPTED = CLASSES.indexOf("interrupted");

/** More CPUs would not be told apart, either. */
export const CPUS_MAX = 512;

/** A CPU goes from one lane to another. */
export interface Handover {
	/** From the beginning of the tile. */
	ns: number;
	from: number;
	to: number;
}

/** What a CPU did last, and which thread had it then. */
interface Last {
	lane: number;
	thread: number | null;
	end: number;
}

/** Handovers on a CPU, in a tile of a length. After idle time, there is no handover. */
export function handovers(
	data: Pieces,
	labels: Labels,
	interrupts: ReadonlyMap<string, number>,
	tileNs: number,
): Handover[] {
	const found: Handover[] = [];
	let last = null as Last | null;
	for (let index = 0; index < data.begin.length; index++) {
		const begin = data.begin[index]!;
		const what = labels.get(data.what[index]!);
		const isThread = data.classes[index] === RUNNING;
		const isInterrupt = data.classes[index] === INTERRUPTED;
		const lane = isThread ? what?.lane : isInterrupt ? interrupts.get(what?.text ?? "") : null;
		if (lane == null) {
			last = null;
			continue;
		}
		if (last?.end !== begin) last = null;
		if (last && begin >= 0 && begin < tileNs) {
			if (lane !== last.lane) found.push({ ns: begin, from: last.lane, to: lane });
			// By way of an interrupt, whose lane may not be seen.
			const isOther = isThread && last.thread !== null && lane !== last.thread && last.thread !== last.lane;
			if (isOther) found.push({ ns: begin, from: last.thread!, to: lane });
		}
		const thread = isThread ? lane : (last?.thread ?? null);
		last = { lane, thread, end: begin + data.duration[index]! };
	}
	return found;
}

/** The same, computed when it is needed first. */
export function stripHandovers(strip: Strip, names: Names, tileNs: number): Handover[] {
	if (strip.data.kind !== "pieces") return [];
	strip.handovers ??= handovers(strip.data, strip.labels, names.interrupts, tileNs);
	return strip.handovers;
}
