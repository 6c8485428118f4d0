// SPDX-License-Identifier: MIT OR Apache-2.0
// The tree of processes: below which process another one is shown.
import type { Lane } from "./api";
import type { Group } from "./groups";

/**
 * Links each process to the one that it comes from, and adds up what is below each. Which thread created a process is certain if the trace has it;
 * the id of a parent may have been used by several processes: it is the last of them that was there before.
 */
export function linkProcesses(lanes: readonly Lane[], groups: ReadonlyMap<string, Group>): void {
	const byLane = new Map(lanes.map((lane) => [lane.id, lane]));
	const groupOf = (lane: Lane | undefined) => (lane?.kind === "thread" ? groups.get(`p${lane.process}`) : undefined);
	const byPid = new Map<number, Group[]>();
	for (const [key, group] of groups) {
		if (!key.startsWith("p")) continue;
		const same = byPid.get(group.place.number);
		if (same) same.push(group);
		else byPid.set(group.place.number, [group]);
	}
	for (const same of byPid.values()) same.sort((one, other) => one.place.firstNs - other.place.firstNs);
	for (const lane of lanes) {
		const group = groupOf(lane);
		// The parent of a process is that of its first thread.
		if (!group || lane.tid !== (lane.pid ?? lane.tid)) continue;
		const creator = lane.created_by == null ? undefined : groupOf(byLane.get(lane.created_by));
		const same = lane.parent_pid == null ? [] : (byPid.get(lane.parent_pid) ?? []);
		const earlier = same.findLast(({ place }) => place.firstNs <= group.place.firstNs);
		const parent = creator ?? earlier ?? same[0];
		if (parent && parent !== group) group.parent = parent;
	}
	for (const group of settle(groups.values()).reverse()) {
		const { parent, place, cpuNs, count, hasChildren } = group;
		if (!parent) continue;
		parent.hasChildren ||= count > 0 || hasChildren;
		parent.cpuNs += cpuNs;
		parent.place.busyNs += place.busyNs;
		parent.place.rank = Math.min(parent.place.rank, place.rank);
		parent.place.firstNs = Math.min(parent.place.firstNs, place.firstNs);
	}
}

/** All groups, parents before children. Ids in a damaged trace may say that a process comes from itself: it then comes from nowhere. */
function settle(groups: Iterable<Group>): Group[] {
	const settled = new Set<Group>();
	for (const group of groups) {
		const path = new Set<Group>();
		for (let at: Group | null = group; at && !settled.has(at); at = at.parent) {
			path.add(at);
			if (at.parent && path.has(at.parent)) at.parent = null;
		}
		for (const one of [...path].reverse()) {
			one.depth = one.parent ? one.parent.depth + 1 : 0;
			settled.add(one);
		}
	}
	return [...settled];
}
