// SPDX-License-Identifier: MIT OR Apache-2.0
// What is shown, in the page's address: a link shows the same, and "back" undoes a move.

import type { Span } from "./timeline";

export const PAGES = ["insights", "timeline", "events", "statistics", "sql"] as const;

export const GROUPINGS = ["process", "tree", "cgroup", "user", "none"] as const;
export const ORDERS = ["busy", "name", "id", "first"] as const;
export const VIEWS = ["states", "flow"] as const;
export const HEIGHTS = ["compact", "normal", "tall"] as const;

export interface Shown {
	recording: number;
	page: (typeof PAGES)[number];
	/** Absent: all of it. */
	span: Span | null;
	/** A lane, and a time in the piece that is selected. */
	selected: { lane: number; at: number } | null;
	/** The lane that was selected last, also when nothing is selected now. */
	last: number | null;
	range: Span | null;
	/** Of the details: what they are about. */
	tab: string;
	/** Of the flame graph: what it sums up, and the lane of its thread, or all threads. */
	flame: string;
	flameOf: number | null;
	pinned: number[];
	open: number[];
	filter: string;
	/** Lanes as bars, or as lines between which control passes. */
	view: (typeof VIEWS)[number];
	/** How lanes are grouped, in which order they are, and how high. */
	group: (typeof GROUPINGS)[number];
	order: (typeof ORDERS)[number];
	height: (typeof HEIGHTS)[number];
	/** Lanes and groups that are not shown, and groups of which only the heading is. */
	hidden: number[];
	hiddenGroups: string[];
	closed: string[];
	marks: number[];
	/** Of a recording that goes on: the span ends now. */
	follow: boolean;
	/** What is searched for: in names, or as a filter in the fields of events. */
	find: string;
	by: "names" | "fields";
	/** Events: the filter, and the time at which the page begins. */
	where: string;
	at: number | null;
	/** Statistics: the analysis. */
	analysis: string;
	/** The query that was run last. */
	sql: string;
}

export const START: Shown = {
	recording: 0,
	page: "insights",
	span: null,
	selected: null,
	last: null,
	range: null,
	tab: "",
	flame: "",
	flameOf: null,
	pinned: [],
	open: [],
	filter: "",
	view: "states",
	group: "process",
	order: "busy",
	height: "normal",
	hidden: [],
	hiddenGroups: [],
	closed: [],
	marks: [],
	follow: false,
	find: "",
	by: "names",
	where: "",
	at: null,
	analysis: "",
	sql: "",
};

const numbers = (text: string | null): number[] =>
	(text ?? "")
		.split(",")
		.filter(Boolean)
		.map(Number)
		.filter((number) => Math.abs(number) < 2 ** 53);

function span(text: string | null): Span | null {
	const [begin, end] = numbers(text);
	return begin !== undefined && end !== undefined && begin < end ? { begin, end } : null;
}

/** Names of groups have any characters. */
function texts(text: string | null): string[] {
	const read = (part: string) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return "";
		}
	};
	return (text ?? "").split(",").map(read).filter(Boolean);
}

const listed = (names: string[]): string => names.map(encodeURIComponent).join(",");

const joined = (span: Span | null): string => (span ? `${Math.round(span.begin)},${Math.round(span.end)}` : "");

/** Whatever is wrong in an address is left out. */
export function read(hash: string): Shown {
	const all = new URLSearchParams(hash.replace(/^#/, ""));
	const [lane, at] = numbers(all.get("selected"));
	return {
		recording: Math.max(0, Math.trunc(numbers(all.get("recording"))[0] ?? 0)),
		page: PAGES.find((page) => page === all.get("page")) ?? "insights",
		span: span(all.get("span")),
		selected: lane !== undefined && at !== undefined ? { lane, at } : null,
		last: numbers(all.get("last"))[0] ?? lane ?? null,
		range: span(all.get("range")),
		tab: all.get("tab") ?? "",
		flame: all.get("flame") ?? "",
		flameOf: numbers(all.get("flame-of"))[0] ?? null,
		pinned: numbers(all.get("pinned")),
		open: numbers(all.get("open")),
		filter: all.get("filter") ?? "",
		view: VIEWS.find((view) => view === all.get("view")) ?? START.view,
		group: GROUPINGS.find((group) => group === all.get("group")) ?? START.group,
		order: ORDERS.find((order) => order === all.get("order")) ?? START.order,
		height: HEIGHTS.find((height) => height === all.get("height")) ?? START.height,
		hidden: numbers(all.get("hidden")),
		hiddenGroups: texts(all.get("hidden-groups")),
		closed: texts(all.get("closed")),
		marks: numbers(all.get("marks")),
		follow: all.get("follow") === "1",
		find: all.get("find") ?? "",
		by: all.get("by") === "fields" ? "fields" : "names",
		where: all.get("where") ?? "",
		at: numbers(all.get("at"))[0] ?? null,
		analysis: all.get("analysis") ?? "",
		sql: all.get("sql") ?? "",
	};
}

export function write(shown: Shown): string {
	const all = new URLSearchParams();
	const add = (name: string, value: string) => {
		if (value) all.set(name, value);
	};
	add("recording", shown.recording ? String(shown.recording) : "");
	add("page", shown.page === START.page ? "" : shown.page);
	add("span", joined(shown.span));
	add("selected", shown.selected ? `${shown.selected.lane},${Math.round(shown.selected.at)}` : "");
	add("last", shown.selected || shown.last === null ? "" : String(shown.last));
	add("range", joined(shown.range));
	add("tab", shown.tab);
	add("flame", shown.flame);
	add("flame-of", shown.flameOf === null ? "" : String(shown.flameOf));
	add("pinned", shown.pinned.join(","));
	add("open", shown.open.join(","));
	add("filter", shown.filter);
	add("view", shown.view === START.view ? "" : shown.view);
	add("group", shown.group === START.group ? "" : shown.group);
	add("order", shown.order === START.order ? "" : shown.order);
	add("height", shown.height === START.height ? "" : shown.height);
	add("hidden", shown.hidden.join(","));
	add("hidden-groups", listed(shown.hiddenGroups));
	add("closed", listed(shown.closed));
	add("marks", shown.marks.map(Math.round).join(","));
	add("follow", shown.follow ? "1" : "");
	add("find", shown.find);
	add("by", shown.by === START.by ? "" : shown.by);
	add("where", shown.where);
	add("at", shown.at === null ? "" : String(Math.round(shown.at)));
	add("analysis", shown.analysis);
	add("sql", shown.sql);
	return `#${all}`;
}
