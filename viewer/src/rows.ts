// SPDX-License-Identifier: MIT OR Apache-2.0
// Which lanes are shown, in which order, and what they are called.

import type { Label, Lane } from "./api";

export interface Row {
	lane: Lane;
	title: string;
	/** Behind the title, less important. */
	note: string;
	height: number;
	/** It belongs to the row above it. */
	isInner: boolean;
}

const HEIGHTS: Record<Lane["kind"], number> = {
	cpu: 22,
	thread: 18,
	calls: 16,
	interrupt: 16,
	device: 18,
	spans: 18,
	events: 14,
};

export interface Choice {
	filter: string;
	pinned: ReadonlySet<number>;
	/** Threads whose system calls are shown. */
	open: ReadonlySet<number>;
}

/** The lanes of a recording. */
export class Lanes {
	private readonly byId = new Map<number, Lane>();
	private readonly calls = new Map<number, Lane>();
	/** What programs recorded of a thread: spans by their depth, then events. By the thread's lane, or else by the first of themselves. */
	private readonly programs = new Map<number, Lane[]>();

	constructor(
		readonly all: Lane[],
		/** Lanes that did less than these, and are not listed. */
		readonly leftOut: number,
		/** The kernel was recorded, not only programs. */
		readonly hasKernel: boolean,
	) {
		for (const lane of all) {
			this.byId.set(lane.id, lane);
			if (lane.kind === "calls" && lane.of !== undefined) this.calls.set(lane.of, lane);
		}
		const threads = new Map<number, Lane[]>();
		for (const lane of all) {
			if (lane.kind !== "thread" || lane.tid == null) continue;
			const same = threads.get(lane.tid);
			if (same) same.push(lane);
			else threads.set(lane.tid, [lane]);
		}
		for (const own of groups(all.filter(isOfProgram))) {
			const thread = threads.get(own[0]!.tid ?? -1)?.find((lane) => isOf(own[0]!, lane));
			this.programs.set(thread?.id ?? own[0]!.id, [...(this.programs.get(thread?.id ?? -1) ?? []), ...own]);
		}
	}

	get(id: number): Lane | undefined {
		return this.byId.get(id);
	}

	hasCalls(id: number): boolean {
		return this.calls.has(id);
	}

	/** The lane of a thread. */
	ofThread(tid: number): Lane | undefined {
		return this.all.find((lane) => lane.kind === "thread" && lane.tid === tid);
	}

	/** The lane of the thread that a lane belongs to: its own, or that of its system calls or its program. */
	threadOf(id: number): Lane | undefined {
		const lane = this.byId.get(id);
		if (lane?.kind === "thread") return lane;
		if (lane?.kind === "calls") return this.byId.get(lane.of ?? -1);
		if (!lane || !isOfProgram(lane)) return undefined;
		return this.all.find((thread) => thread.kind === "thread" && isOf(lane, thread));
	}

	ofCpu(cpu: number | undefined): Lane | undefined {
		return this.all.find((lane) => lane.kind === "cpu" && lane.cpu === cpu);
	}

	/** The lanes of a process: its main thread first, then the busiest. */
	ofProcess(pid: number): Lane[] {
		return this.all.filter((lane) => lane.kind === "thread" && (lane.pid === pid || lane.tid === pid)).sort(busiest);
	}

	name(id: number): string {
		const lane = this.byId.get(id);
		return lane ? title(lane, this) : "";
	}

	/** What a number in a piece stands for. */
	said(label: Label | undefined): string {
		if (!label) return "";
		const lane = label.lane === null ? undefined : this.byId.get(label.lane);
		return lane ? title(lane, this) : label.text;
	}

	/** Threads that are shown only if somebody looks for them. */
	get unknown(): number {
		return this.all.filter((lane) => lane.is_unknown && !this.programs.has(lane.id)).length;
	}

	/** CPUs, threads by process, interrupts, devices; pinned lanes before all others. */
	rows({ filter, pinned, open }: Choice): Row[] {
		const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
		const isMeant = (lane: Lane) => {
			const text = `${title(lane, this)} ${note(lane)}`.toLowerCase();
			return words.every((word) => text.includes(word));
		};
		const rows: Row[] = [];
		const put = (lane: Lane, isInner: boolean) => {
			const shown = isInner ? inner(lane) : title(lane, this);
			rows.push({ lane, title: shown, note: isInner ? "" : note(lane), height: HEIGHTS[lane.kind], isInner });
		};
		const add = (lane: Lane) => {
			put(lane, false);
			const calls = open.has(lane.id) ? this.calls.get(lane.id) : undefined;
			if (calls) put(calls, true);
			for (const own of this.programs.get(lane.id) ?? []) if (own !== lane) put(own, true);
		};
		for (const id of pinned) {
			const lane = this.byId.get(id);
			if (lane) add(lane);
		}
		const isOwn = (lane: Lane) => lane.kind !== "calls" && (!isOfProgram(lane) || this.programs.has(lane.id));
		const isWorthIt = (lane: Lane) => !lane.is_unknown || words.length > 0 || this.programs.has(lane.id);
		const shown = this.all.filter((lane) => isOwn(lane) && isWorthIt(lane) && !pinned.has(lane.id) && isMeant(lane));
		// Threads whose programs record something are what somebody looks for.
		const place = (lane: Lane) => RANKS[lane.kind] - (this.programs.has(lane.id) ? 0.5 : 0);
		for (const lane of shown.sort((one, other) => place(one) - place(other) || order(one, other))) add(lane);
		return rows;
	}
}

/** Whether a lane of the kernel is that of a program's thread. In a container, ids are other ones than the kernel's: then the name is, too. */
const isOf = ({ tid, pid, name }: Lane, lane: Lane): boolean =>
	lane.tid === tid && (lane.pid ?? pid) === pid && (!name || lane.name === name);

const isOfProgram = ({ kind }: Lane): boolean => kind === "spans" || kind === "events";

/** Lanes by the thread that they are of, each with spans first, by their depth. */
function groups(lanes: Lane[]): Lane[][] {
	const found = new Map<string, Lane[]>();
	for (const lane of lanes) {
		const thread = JSON.stringify([lane.pid, lane.tid, lane.name]);
		found.set(thread, [...(found.get(thread) ?? []), lane]);
	}
	const depth = (lane: Lane) => lane.depth ?? Number.MAX_SAFE_INTEGER;
	return [...found.values()].map((own) => own.sort((one, other) => depth(one) - depth(other) || one.id - other.id));
}

const RANKS: Record<Lane["kind"], number> = {
	cpu: 0,
	thread: 1,
	calls: 1,
	spans: 1,
	events: 1,
	interrupt: 3,
	device: 2,
};

function busiest(one: Lane, other: Lane): number {
	const difference = BigInt(other.busy_ns) - BigInt(one.busy_ns);
	return difference > 0n ? 1 : difference < 0n ? -1 : one.id - other.id;
}

function order(one: Lane, other: Lane): number {
	return one.kind === "cpu" ? (one.cpu ?? 0) - (other.cpu ?? 0) : busiest(one, other);
}

export function title(lane: Lane, lanes: Lanes): string {
	switch (lane.kind) {
		case "cpu":
			return `CPU ${lane.cpu}`;
		case "thread":
			return lane.name || `thread ${lane.tid}`;
		case "calls":
			return `system calls of ${lanes.name(lane.of ?? -1)}`;
		case "spans":
		case "events":
			return lane.name || (lane.tid == null ? "unknown thread" : `thread ${lane.tid}`);
		default:
			return lane.name ?? "";
	}
}

/** Below the lane of its thread. */
function inner(lane: Lane): string {
	if (lane.kind === "calls") return "system calls";
	return lane.kind === "spans" && lane.depth ? `spans, depth ${lane.depth}` : lane.kind;
}

export function note(lane: Lane): string {
	if (lane.kind !== "thread" && !isOfProgram(lane)) return "";
	// A thread without a name is called by its number.
	const thread = lane.name ? lane.tid : null;
	const process = lane.pid != null && lane.pid !== lane.tid ? `of ${lane.pid}` : "";
	const ids = [thread, process].filter((part) => part != null && part !== "").join(" ");
	const what = lane.is_kernel ? "kernel" : lane.kind === "thread" ? "" : inner(lane);
	return [ids, what].filter(Boolean).join(", ");
}
