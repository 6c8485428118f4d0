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

const HEIGHTS: Record<Lane["kind"], number> = { cpu: 22, thread: 18, calls: 16, interrupt: 16, device: 18 };

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

	constructor(
		readonly all: Lane[],
		/** Lanes that did less than these, and are not listed. */
		readonly leftOut: number,
	) {
		for (const lane of all) {
			this.byId.set(lane.id, lane);
			if (lane.kind === "calls" && lane.of !== undefined) this.calls.set(lane.of, lane);
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

	/** CPUs, threads by process, interrupts, devices; pinned lanes before all others. */
	rows({ filter, pinned, open }: Choice): Row[] {
		const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
		const isMeant = (lane: Lane) => {
			const text = `${title(lane, this)} ${note(lane)}`.toLowerCase();
			return words.every((word) => text.includes(word));
		};
		const rows: Row[] = [];
		const add = (lane: Lane) => {
			rows.push({ lane, title: title(lane, this), note: note(lane), height: HEIGHTS[lane.kind], isInner: false });
			const calls = open.has(lane.id) ? this.calls.get(lane.id) : undefined;
			if (calls) rows.push({ lane: calls, title: "system calls", note: "", height: HEIGHTS.calls, isInner: true });
		};
		for (const id of pinned) {
			const lane = this.byId.get(id);
			if (lane) add(lane);
		}
		const shown = this.all.filter((lane) => lane.kind !== "calls" && !pinned.has(lane.id) && isMeant(lane));
		for (const lane of shown.sort((one, other) => rank(one) - rank(other) || order(one, other))) add(lane);
		return rows;
	}
}

const RANKS: Record<Lane["kind"], number> = { cpu: 0, thread: 1, calls: 1, interrupt: 3, device: 2 };
const rank = (lane: Lane) => RANKS[lane.kind];

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
		default:
			return lane.name ?? "";
	}
}

export function note(lane: Lane): string {
	if (lane.kind !== "thread") return "";
	const process = lane.pid != null && lane.pid !== lane.tid ? ` of ${lane.pid}` : "";
	return `${lane.tid}${process}${lane.is_kernel ? ", kernel" : ""}`;
}
