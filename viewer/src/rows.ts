// SPDX-License-Identifier: MIT OR Apache-2.0
// Which lanes are shown, in which order, and what they are called.

import type { Shown } from "./address";
import type { Label, Lane } from "./api";
import { before, type Group, type Grouping, headingOf, isByProcess, type Place } from "./groups";
import { linkProcesses } from "./processes";

export type Row = LaneRow | Heading;

interface Shape {
	title: string;
	/** Behind the title, less important. */
	note: string;
	height: number;
	/** Below how many headings it is. */
	level: number;
}

export interface LaneRow extends Shape {
	lane: Lane;
	/** It belongs to the row above it. */
	isInner: boolean;
}

/** Above the lanes of a group. */
export interface Heading extends Shape {
	lane: null;
	key: string;
	isClosed: boolean;
	/** For how long its threads or interrupts had a CPU, and what is below it. */
	cpuNs: number;
	count: number;
}

/** A group, or a lane that has none, among those below the same heading. */
interface Item {
	place: Place;
	id: number;
	of: Group | Lane;
}

/** How far to the right names begin, in CSS pixels: below one heading, and a little more below each further one, as long as there is room. */
const INDENT = 12;
const INDENT_FURTHER = 6;
const LEVELS_MAX = 16;
const INDENT_INNER = 18;

export function indentOf(row: Row): number {
	const level = Math.min(row.level, LEVELS_MAX);
	const outer = level === 0 ? 0 : INDENT + INDENT_FURTHER * (level - 1);
	return outer + (row.lane !== null && row.isInner ? INDENT_INNER : 0);
}

/** The rows that are visible in an area of a height, and how far below its top they are. `scroll`: how much of the rows is above it (CSS pixels). */
export function seenOf(
	{ rows, scroll }: { rows: readonly Row[]; scroll: number },
	height: number,
): { row: Row; top: number }[] {
	const seen = [];
	let top = -scroll;
	for (const row of rows) {
		if (top > height) break;
		if (top + row.height > 0) seen.push({ row, top });
		top += row.height;
	}
	return seen;
}

const LANE_HEIGHTS: Record<Lane["kind"], number> = {
	cpu: 22,
	thread: 18,
	calls: 16,
	interrupt: 16,
	device: 18,
	spans: 18,
	events: 14,
	counter: 34,
};
const HEADING_HEIGHT = 20;
/** Lower ones have no room for their names. */
const HEIGHT_MIN = 14;
const FACTORS: Record<Shown["height"], number> = { compact: 0.72, normal: 1, tall: 1.8 };

export type Choice = Pick<Shown, "filter" | "group" | "order" | "height"> & {
	pinned: ReadonlySet<number>;
	/** Threads whose system calls are shown. */
	open: ReadonlySet<number>;
	hidden: ReadonlySet<number>;
	hiddenGroups: ReadonlySet<string>;
	closed: ReadonlySet<string>;
};

export const choiceOf = (shown: Shown): Choice => ({
	filter: shown.filter,
	group: shown.group,
	order: shown.order,
	height: shown.height,
	pinned: new Set(shown.pinned),
	open: new Set(shown.open),
	hidden: new Set(shown.hidden),
	hiddenGroups: new Set(shown.hiddenGroups),
	closed: new Set(shown.closed),
});

/** What pictures need of lanes. */
export interface Names {
	/** Lanes of CPUs. */
	readonly cpus: readonly number[];
	/** Lanes of interrupts, by name. */
	readonly interrupts: ReadonlyMap<string, number>;
	/** What a number in a piece stands for. */
	said(label: Label | undefined): string;
}

/** The same, as it is handed to another thread. */
export type NamesData = Pick<Names, "cpus" | "interrupts"> & { titles: Map<number, string> };

export const namesOf = ({ cpus, interrupts, titles }: NamesData): Names => ({
	cpus,
	interrupts,
	said: (label) => (label ? ((label.lane === null ? undefined : titles.get(label.lane)) ?? label.text) : ""),
});

/** The lanes of a recording. */
export class Lanes implements Names {
	private readonly byId = new Map<number, Lane>();
	private readonly calls = new Map<number, Lane>();
	/** What programs recorded of a thread: spans by their depth, then events. By the thread's lane, or else by the first of themselves. */
	private readonly programs = new Map<number, Lane[]>();
	/** Numbers of a CPU or a device, by its lane. */
	private readonly counters = new Map<number, Lane[]>();
	/** By name. */
	readonly interrupts = new Map<string, number>();
	/** Lanes of CPUs. */
	readonly cpus: number[] = [];
	/** Those that are within the rows of others. */
	private readonly ofOthers = new Set<number>();
	private readonly places = new Map<number, Place>();
	/** By how lanes are grouped: the group of each lane that has one. */
	private readonly grouped = new Map<Grouping, Map<number, Group>>();
	/** In the tree of processes, lanes without a heading of their own: the group below whose heading they are. */
	private readonly bare = new Map<number, Group>();

	constructor(
		readonly all: Lane[],
		/** Lanes that did less than these, and are not listed. */
		readonly leftOut: number,
		/** The kernel was recorded, not only programs. */
		readonly hasKernel: boolean,
	) {
		for (const lane of all) {
			this.byId.set(lane.id, lane);
			if (lane.kind === "cpu") this.cpus.push(lane.id);
			if (lane.kind === "interrupt") this.interrupts.set(lane.name ?? "", lane.id);
			if (lane.kind === "calls" && lane.of != null) this.calls.set(lane.of, lane);
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
		const cpus = new Map(all.filter(({ kind }) => kind === "cpu").map((lane) => [lane.cpu, lane.id]));
		for (const lane of all.filter(({ kind }) => kind === "counter")) {
			const owner = lane.of ?? cpus.get(lane.cpu ?? -1);
			if (owner === undefined || !this.byId.has(owner)) continue;
			this.counters.set(owner, [...(this.counters.get(owner) ?? []), lane]);
			this.ofOthers.add(lane.id);
		}
		const origin = BigInt(all.find(({ first_ns }) => first_ns)?.first_ns ?? 0);
		for (const lane of all) {
			this.places.set(lane.id, {
				// You most likely look for threads whose programs record something.
				rank: RANKS[lane.kind] - (this.programs.has(lane.id) ? 0.5 : 0),
				busyNs: Number(lane.busy_ns),
				name: title(lane, this),
				number: lane.cpu ?? lane.tid ?? lane.id,
				firstNs: lane.first_ns ? Number(BigInt(lane.first_ns) - origin) : Number.POSITIVE_INFINITY,
			});
		}
	}

	get(id: number): Lane | undefined {
		return this.byId.get(id);
	}

	hasCalls(id: number): boolean {
		return this.calls.has(id);
	}

	/** The lane of a thread's system calls. */
	callsOf(id: number): number | undefined {
		return this.calls.get(id)?.id;
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

	said(label: Label | undefined): string {
		if (!label) return "";
		const lane = label.lane === null ? undefined : this.byId.get(label.lane);
		return lane ? title(lane, this) : label.text;
	}

	/** For another thread. */
	get names(): NamesData {
		const titles = new Map(this.all.map(({ id }) => [id, this.places.get(id)!.name]));
		return { cpus: this.cpus, interrupts: this.interrupts, titles };
	}

	/** How many threads are shown only if a filter finds them. */
	get unknown(): number {
		return this.all.filter((lane) => lane.is_unknown && !this.programs.has(lane.id)).length;
	}

	/** It has a row of its own, if it is not hidden. */
	private isOwn(lane: Lane): boolean {
		return lane.kind !== "calls" && !this.ofOthers.has(lane.id) && (!isOfProgram(lane) || this.programs.has(lane.id));
	}

	private isWorthIt(lane: Lane): boolean {
		return !lane.is_unknown || this.programs.has(lane.id);
	}

	/** The group of each lane. */
	groups(grouping: Grouping): Map<number, Group> {
		const known = this.grouped.get(grouping);
		if (known) return known;
		const groups = new Map<string, Group>();
		const found = new Map<number, Group>();
		for (const lane of this.all) {
			if (!this.isOwn(lane)) continue;
			const heading = headingOf(lane, grouping);
			if (!heading) continue;
			const place = this.places.get(lane.id)!;
			let group = groups.get(heading.key);
			if (!group) {
				group = {
					...heading,
					note: "",
					place: { ...place, busyNs: 0, name: heading.title, number: lane.pid ?? place.number },
					cpuNs: 0,
					count: 0,
					parent: null,
					depth: 0,
					hasChildren: false,
				};
				groups.set(heading.key, group);
			}
			// A process is called like its main thread, or else like any of its threads.
			const isMain = lane.tid != null && lane.tid === (lane.pid ?? lane.tid);
			if (
				isByProcess(grouping) &&
				lane.name &&
				/^[pr]/.test(group.key) &&
				(isMain || group.title.startsWith("Process "))
			) {
				group.title = lane.name;
				// Without a name, the title has the number.
				group.note = String(lane.pid ?? lane.tid);
				group.place.name = lane.name;
			}
			group.place.rank = Math.min(group.place.rank, place.rank);
			group.place.busyNs += place.busyNs;
			if (lane.kind === "thread" || lane.kind === "interrupt") group.cpuNs += place.busyNs;
			group.place.firstNs = Math.min(group.place.firstNs, place.firstNs);
			if (this.isWorthIt(lane)) group.count++;
			found.set(lane.id, group);
		}
		if (grouping === "tree") linkProcesses(this.all, groups);
		// A process with a single thread needs no heading.
		for (const [id, group] of found) {
			if (!/^[pr]/.test(group.key) || group.count > 1 || group.hasChildren) continue;
			found.delete(id);
			if (group.parent) this.bare.set(id, group.parent);
		}
		this.grouped.set(grouping, found);
		return found;
	}

	/** The groups that a lane is in, the innermost first. */
	groupsOf(id: number, grouping: Grouping): Group[] {
		const found = [];
		let at = this.groups(grouping).get(id) ?? this.bareOf(id, grouping);
		for (; at; at = at.parent ?? undefined) found.push(at);
		return found;
	}

	private bareOf(id: number, grouping: Grouping): Group | undefined {
		return grouping === "tree" ? this.bare.get(id) : undefined;
	}

	/** CPUs, threads, devices, interrupts, by groups; pinned lanes before all others. */
	rows({ filter, pinned, open, group, order, height, hidden, hiddenGroups, closed }: Choice): Row[] {
		const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
		const isMeant = (lane: Lane) => {
			if (words.length === 0) return true;
			const text = `${title(lane, this)} ${note(lane)}`.toLowerCase();
			return words.every((word) => text.includes(word));
		};
		const rows: Row[] = [];
		const high = (normal: number) => Math.max(HEIGHT_MIN, Math.round(normal * FACTORS[height]));
		const groups = this.groups(group);
		const put = (lane: Lane, isInner: boolean, level: number) => {
			const shown = isInner ? inner(lane) : title(lane, this);
			// The heading has the process.
			const isShort = level > 0 && isByProcess(group) && lane.kind === "thread" && groups.has(lane.id);
			const beside = isInner ? "" : isShort ? (lane.name ? String(lane.tid) : "") : note(lane);
			rows.push({ lane, title: shown, note: beside, height: high(LANE_HEIGHTS[lane.kind]), isInner, level });
		};
		const add = (lane: Lane, level: number) => {
			put(lane, false, level);
			const calls = open.has(lane.id) ? this.calls.get(lane.id) : undefined;
			const own = [
				...(calls ? [calls] : []),
				...(this.counters.get(lane.id) ?? []),
				...(this.programs.get(lane.id) ?? []),
			];
			for (const one of own) if (one !== lane && !hidden.has(one.id)) put(one, true, level);
		};
		for (const id of pinned) {
			const lane = this.byId.get(id);
			if (lane) add(lane, 0);
		}
		const isListed = (lane: Lane) =>
			this.isOwn(lane) && (this.isWorthIt(lane) || words.length > 0) && !pinned.has(lane.id) && !hidden.has(lane.id);
		const members = new Map<Group, Lane[]>();
		/** What is below the heading of each group, or below none. */
		const below = new Map<Group | null, Item[]>();
		const place = (item: Item, parent: Group | null) => {
			const same = below.get(parent);
			if (same) same.push(item);
			else below.set(parent, [item]);
		};
		for (const lane of this.all) {
			if (!isListed(lane) || !isMeant(lane)) continue;
			const own = groups.get(lane.id);
			const parent = own ?? this.bareOf(lane.id, group) ?? null;
			// With the headings above it.
			for (let at = parent; at && !members.has(at); at = at.parent) {
				members.set(at, []);
				place({ place: at.place, id: lane.id, of: at }, at.parent);
			}
			if (own) members.get(own)!.push(lane);
			else place({ place: this.places.get(lane.id)!, id: lane.id, of: lane }, parent);
		}
		/** With those of the groups below. */
		const counts = new Map<Group, number>();
		for (const one of [...members.keys()].sort((one, other) => other.depth - one.depth)) {
			const lanes = (below.get(one) ?? []).map(({ of }) => ("kind" in of ? 1 : counts.get(of)!));
			counts.set(
				one,
				lanes.reduce((sum, count) => sum + count, members.get(one)!.length),
			);
		}
		// CPUs are in their order, whatever is asked for.
		const compare = (one: Place, other: Place) => before(one.rank === RANKS.cpu ? "id" : order, one, other);
		const sorted = (items: Item[] = []) =>
			items.sort((one, other) => compare(one.place, other.place) || one.id - other.id);
		const left = sorted(below.get(null)).map((item) => ({ item, level: 0 }));
		left.reverse();
		for (let next = left.pop(); next; next = left.pop()) {
			const { item, level } = next;
			if ("kind" in item.of) {
				add(item.of, level);
				continue;
			}
			const { key, title, note, cpuNs } = item.of;
			if (hiddenGroups.has(key)) continue;
			const isClosed = closed.has(key);
			const shape = { title, note, height: high(HEADING_HEIGHT), level };
			rows.push({ ...shape, lane: null, key, isClosed, cpuNs, count: counts.get(item.of)! });
			if (isClosed) continue;
			const at = (lane: Lane) => this.places.get(lane.id)!;
			const own = members.get(item.of)!.sort((one, other) => compare(at(one), at(other)) || one.id - other.id);
			for (const lane of own) add(lane, level + 1);
			for (const inner of sorted(below.get(item.of)).reverse()) left.push({ item: inner, level: level + 1 });
		}
		return rows;
	}
}

/** Whether the kernel's lane belongs to the thread of a program's lane. A container's IDs may be those of other threads, so names must match, too. */
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
	interrupt: 4,
	device: 2,
	counter: 3,
};

export function busiest(one: Lane, other: Lane): number {
	const difference = BigInt(other.busy_ns) - BigInt(one.busy_ns);
	return difference > 0n ? 1 : difference < 0n ? -1 : one.id - other.id;
}

export function title(lane: Lane, lanes: Lanes): string {
	switch (lane.kind) {
		case "cpu":
			return `CPU ${lane.cpu}`;
		case "thread":
			return lane.name || `Thread ${lane.tid}`;
		case "calls":
			return `System calls of ${lanes.name(lane.of ?? -1)}`;
		case "spans":
		case "events":
			return lane.name || (lane.tid == null ? "Unknown thread" : `Thread ${lane.tid}`);
		case "counter":
			return `${counted(lane, lanes)} ${QUANTITY_NAMES[lane.quantity!].toLowerCase()}`;
		default:
			return lane.name ?? "";
	}
}

const QUANTITY_NAMES: Record<NonNullable<Lane["quantity"]>, string> = {
	frequency: "Frequency",
	received: "Received",
	queued: "Queued to send",
	sent: "Sent",
	read: "Read",
	written: "Written",
};

/** Whose number it is. */
function counted(lane: Lane, lanes: Lanes): string {
	if (lane.cpu != null) return `CPU ${lane.cpu}`;
	return lane.of == null ? (lane.name ?? "") : lanes.name(lane.of);
}

/** The title of a lane below that of its thread, CPU or device. */
function inner(lane: Lane): string {
	if (lane.kind === "counter") return QUANTITY_NAMES[lane.quantity!];
	if (lane.kind === "calls") return "System calls";
	if (lane.kind === "events") return "Events";
	return lane.depth ? `Spans, depth ${lane.depth}` : "Spans";
}

export function note(lane: Lane): string {
	if (lane.kind !== "thread" && !isOfProgram(lane)) return "";
	// A thread without a name is called by its number.
	const thread = lane.name ? lane.tid : null;
	const process = lane.pid != null && lane.pid !== lane.tid ? `of ${lane.pid}` : "";
	const ids = [thread, process].filter((part) => part != null && part !== "").join(" ");
	const what = lane.is_kernel ? "kernel" : lane.kind === "thread" ? "" : inner(lane).toLowerCase();
	return [ids, what].filter(Boolean).join(", ");
}
