// SPDX-License-Identifier: MIT OR Apache-2.0
// From a row of `piste diff` to its place in a timeline: the lanes that it names, and the kind of pieces that it counts.
import type { Change, Lane, LongestWanted } from "./api";
import type { Class } from "./colours";
import { busiest, type Lanes } from "./rows";
import { heading } from "./tables";

/** Lanes at the top: the busiest. */
const PINNED_MAX = 6;
/** As many as the server looks at. */
const LANES_MAX = 20_000;

export interface Meant {
	/** The busiest first. */
	lanes: number[];
	/** Lanes of threads whose system calls are meant. */
	open: number[];
	/** Any of the lanes may have the piece: only that one is shown. */
	isAny: boolean;
	/** Absent: no piece stands for the row. */
	pieces: LongestWanted | null;
}

/** What threads and CPUs are while a measure counts. The timeline does not tell waits for a timer from others. */
const CLASSES_OF: Record<string, Class[]> = {
	on_cpu_ns: ["running", "user", "kernel"],
	running_ns: ["running", "user", "kernel"],
	user_ns: ["user"],
	kernel_ns: ["kernel"],
	interrupted_ns: ["interrupted"],
	runnable_ns: ["runnable"],
	preempted_ns: ["runnable"],
	blocked_ns: ["blocked"],
	idle_ns: ["idle"],
	unknown_ns: ["unknown"],
};

/** Absent: a measure counts something else. */
function classesOf({ analysis, measure }: Change): Class[] | null {
	if (analysis === "blocked") return ["blocked"];
	return analysis === "schedstats" ? ["runnable"] : (CLASSES_OF[measure] ?? null);
}

/** What a row is about in a recording; null: nothing in its timeline. */
export function meantBy(change: Change, lanes: Lanes): Meant | null {
	const { comm, syscall, interrupt, cpu, device, interface: network } = change.of;
	const classes = classesOf(change);
	const all = (found: { id: number }[], pieces: Omit<LongestWanted, "lanes"> | null): Meant | null => {
		const ids = found.slice(0, LANES_MAX).map(({ id }) => id);
		if (ids.length === 0) return null;
		return { lanes: ids, open: [], isAny: false, pieces: pieces && { lanes: ids, ...pieces } };
	};
	const called = (name: string, kind: string) => lanes.all.filter((lane) => lane.kind === kind && lane.name === name);
	if (interrupt) return all(called(interrupt, "interrupt"), {});
	if (device) return all(called(device, "device"), {});
	if (network) return all(called(network, "counter"), null);
	if (cpu) {
		const own = lanes.ofCpu(Number(cpu.replace(/^CPU /, "")));
		return own ? all([own], classes && { classes }) : null;
	}
	const call = syscall === "-" ? undefined : syscall;
	const threads = comm ? named(comm, change.table === "processes", lanes) : call ? threadsOf(lanes, () => true) : [];
	if (!call) return all(threads, classes && { classes });
	if (classes) return all(threads, { classes, name: call });
	// Their system calls have lanes of their own.
	const open = threads.filter(({ id }) => lanes.hasCalls(id)).slice(0, LANES_MAX);
	if (open.length === 0) return null;
	const calls = open.map(({ id }) => lanes.callsOf(id)!);
	return {
		lanes: open.map(({ id }) => id),
		open: open.map(({ id }) => id),
		isAny: !comm,
		pieces: { lanes: calls, name: call },
	};
}

const threadsOf = (lanes: Lanes, isMeant: (lane: Lane) => boolean): Lane[] =>
	lanes.all.filter((lane) => lane.kind === "thread" && isMeant(lane)).sort(busiest);

/** Threads with a name, or all threads of processes with that name. */
function named(name: string, isOfProcess: boolean, lanes: Lanes): Lane[] {
	const isMain = ({ tid, pid }: Lane) => (pid ?? tid) === tid;
	const own = threadsOf(lanes, (lane) => lane.name === name && (!isOfProcess || isMain(lane)));
	const processes = new Set(own.map(({ process }) => process));
	return isOfProcess ? threadsOf(lanes, ({ process }) => processes.has(process)) : own;
}

const MEASURE_NAMES: Record<string, string> = {
	on_cpu_ns: "on CPU",
	sampled_ns: "on CPU, by ticks",
	runnable_ns: "wait for a CPU",
	io_ns: "wait for I/O",
	network_ns: "wait for the network",
	timer_ns: "wait for a timer",
	lock_ns: "wait for a lock",
	thread_ns: "wait for a thread",
	other_ns: "other waits",
};

/** What a measure counts. */
export const measureName = (measure: string): string => MEASURE_NAMES[measure] ?? heading(measure);

/** What a row is about. Columns that are empty are `-`. */
export const aboutOf = ({ about }: Change): string => about.replace(/( -)+$/, "");

/** Those at the top, that of a piece first. */
export function pinnedOf(lanes: number[], first: number | null): number[] {
	return [...(first === null ? [] : [first]), ...lanes.filter((lane) => lane !== first)].slice(0, PINNED_MAX);
}
