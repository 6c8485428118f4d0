// SPDX-License-Identifier: MIT OR Apache-2.0
// Which lanes belong together, and what comes first.

import type { Shown } from "./address";
import type { Lane } from "./api";

/** Lanes below one heading. */
export interface Group {
	/** As the address has it. */
	key: string;
	title: string;
	note: string;
	/** What orders groups and single lanes: the kind of thing, then one of the others. */
	place: Place;
	/** For how long its threads or interrupts had a CPU. */
	cpuNs: number;
	/** How many lanes it has that are shown if nothing is hidden. */
	count: number;
	/** In the tree of processes: below which group this one is, and in how many; and whether there is one below it that is shown. */
	parent: Group | null;
	depth: number;
	hasChildren: boolean;
}

export interface Place {
	rank: number;
	busyNs: number;
	name: string;
	/** Of a CPU, a thread or a process. */
	number: number;
	firstNs: number;
}

export type Order = Shown["order"];
export type Grouping = Shown["group"];

const byName = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** How to sort two things: negative if the first comes first, 0 if the caller decides. */
export function before(order: Order, one: Place, other: Place): number {
	if (one.rank !== other.rank) return one.rank - other.rank;
	switch (order) {
		case "busy":
			return other.busyNs - one.busyNs;
		case "name":
			return byName.compare(one.name, other.name);
		case "id":
			return one.number - other.number;
		case "first":
			return one.firstNs - other.firstNs;
	}
}

/** Groups are processes. */
export const isByProcess = (grouping: Grouping): boolean => grouping === "process" || grouping === "tree";

/** The heading below which a lane is; null: none. */
export function headingOf(lane: Lane, grouping: Grouping): Pick<Group, "key" | "title"> | null {
	if (grouping === "none" || lane.kind === "cpu") return null;
	if (lane.kind === "interrupt") return { key: "interrupts", title: "Interrupts" };
	if (lane.kind === "device") return { key: "devices", title: "Block devices" };
	if (lane.kind === "counter") return { key: "network", title: "Network" };
	const isThread = lane.kind === "thread";
	if (isByProcess(grouping)) {
		if (lane.is_kernel) return { key: "kernel", title: "Kernel threads" };
		// The lanes of a program in a container belong to no process that the kernel recorded.
		const key = isThread ? `p${lane.process}` : `r${lane.pid ?? ""}`;
		const pid = lane.pid ?? lane.tid;
		return { key, title: pid == null ? "Unknown process" : `Process ${pid}` };
	}
	if (grouping === "user") {
		if (!isThread || lane.uid == null) return { key: "u", title: "Unknown user" };
		return { key: `u${lane.uid}`, title: lane.uid === 0 ? "root" : `User ${lane.uid}` };
	}
	if (!isThread || !lane.cgroup) return { key: "c", title: "Unknown control group" };
	return { key: `c${lane.cgroup}`, title: lane.cgroup };
}
