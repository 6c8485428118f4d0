// SPDX-License-Identifier: MIT OR Apache-2.0
// What is shown, in the page's address: a link shows the same, and "back" undoes a move.

import type { Span } from "./timeline";

export const PAGES = ["insights", "timeline", "events", "statistics", "sql", "compare"] as const;

export const GROUPINGS = ["process", "tree", "cgroup", "user", "none"] as const;
export const ORDERS = ["busy", "name", "id", "first"] as const;
export const VIEWS = ["states", "flow"] as const;
export const RESULTS = ["table", "plot"] as const;
export const SUMS = ["", "per-second", "as-is"] as const;
export const HEIGHTS = ["compact", "normal", "tall"] as const;

/** What is chosen in one timeline: lanes and times of its recording. */
export interface Own {
	/** A lane, and a time in the piece that is selected. */
	selected: { lane: number; at: number } | null;
	/** The lane that was selected last, also when nothing is selected now. */
	last: number | null;
	/** The lane of the thread that the flame graph is of; absent: of all threads. */
	flameOf: number | null;
	pinned: number[];
	open: number[];
	/** Lanes and groups that are not shown, and groups of which only the heading is. */
	hidden: number[];
	hiddenGroups: string[];
	closed: string[];
	marks: number[];
}

export interface Shown extends Own {
	recording: number;
	page: (typeof PAGES)[number];
	/** Absent: all of it. */
	span: Span | null;
	range: Span | null;
	/** Of the details: what they are about. */
	tab: string;
	/** Of the flame graph: what it sums up. */
	flame: string;
	filter: string;
	/** Lanes as bars, or as lines between which control passes. */
	view: (typeof VIEWS)[number];
	/** How lanes are grouped, in which order they are, and how high. */
	group: (typeof GROUPINGS)[number];
	order: (typeof ORDERS)[number];
	height: (typeof HEIGHTS)[number];
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
	/** How its result is shown; of a plot: the column on the x axis, and those drawn. Empty: as the page chooses. */
	result: (typeof RESULTS)[number];
	plotX: string;
	plotted: string[];
	/** The recording that this one is compared with, */
	other: number | null;
	/** how much later its times are shown, in ns, */
	offset: number;
	/** how sums are compared; empty: as the command chooses, */
	sums: (typeof SUMS)[number];
	/** and what is chosen in its timeline. */
	second: Own;
}

export const NONE_OWN: Own = {
	selected: null,
	last: null,
	flameOf: null,
	pinned: [],
	open: [],
	hidden: [],
	hiddenGroups: [],
	closed: [],
	marks: [],
};

export const START: Shown = {
	...NONE_OWN,
	recording: 0,
	page: "insights",
	span: null,
	range: null,
	tab: "",
	flame: "",
	filter: "",
	view: "states",
	group: "process",
	order: "busy",
	height: "normal",
	follow: false,
	find: "",
	by: "names",
	where: "",
	at: null,
	analysis: "",
	sql: "",
	result: "table",
	plotX: "",
	plotted: [],
	other: null,
	offset: 0,
	sums: "",
	second: NONE_OWN,
};

const numbers = (text: string | null): number[] =>
	(text ?? "")
		.split(",")
		.filter(Boolean)
		.map(Number)
		.filter((number) => Math.abs(number) < 2 ** 63);

function span(text: string | null): Span | null {
	const [begin, end] = numbers(text);
	return begin !== undefined && end !== undefined && begin < end ? { begin, end } : null;
}

/** Names of groups and columns have any characters. */
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
	return {
		...readOwn(all, ""),
		recording: Math.max(0, Math.trunc(numbers(all.get("recording"))[0] ?? 0)),
		page: PAGES.find((page) => page === all.get("page")) ?? "insights",
		span: span(all.get("span")),
		range: span(all.get("range")),
		tab: all.get("tab") ?? "",
		flame: all.get("flame") ?? "",
		filter: all.get("filter") ?? "",
		view: VIEWS.find((view) => view === all.get("view")) ?? START.view,
		group: GROUPINGS.find((group) => group === all.get("group")) ?? START.group,
		order: ORDERS.find((order) => order === all.get("order")) ?? START.order,
		height: HEIGHTS.find((height) => height === all.get("height")) ?? START.height,
		follow: all.get("follow") === "1",
		find: all.get("find") ?? "",
		by: all.get("by") === "fields" ? "fields" : "names",
		where: all.get("where") ?? "",
		at: numbers(all.get("at"))[0] ?? null,
		analysis: all.get("analysis") ?? "",
		sql: all.get("sql") ?? "",
		result: RESULTS.find((result) => result === all.get("result")) ?? START.result,
		plotX: all.get("plot-x") ?? "",
		plotted: texts(all.get("plotted")),
		other: all.has("with") ? Math.max(0, Math.trunc(numbers(all.get("with"))[0] ?? 0)) : null,
		offset: numbers(all.get("offset"))[0] ?? 0,
		sums: SUMS.find((sums) => sums === all.get("sums")) ?? START.sums,
		second: readOwn(all, SECOND),
	};
}

/** What the second timeline has of its own, has names that begin so. */
const SECOND = "with-";

function readOwn(all: URLSearchParams, prefix: string): Own {
	const get = (name: string) => all.get(`${prefix}${name}`);
	const [lane, at] = numbers(get("selected"));
	return {
		selected: lane !== undefined && at !== undefined ? { lane, at } : null,
		last: numbers(get("last"))[0] ?? lane ?? null,
		flameOf: numbers(get("flame-of"))[0] ?? null,
		pinned: numbers(get("pinned")),
		open: numbers(get("open")),
		hidden: numbers(get("hidden")),
		hiddenGroups: texts(get("hidden-groups")),
		closed: texts(get("closed")),
		marks: numbers(get("marks")),
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
	writeOwn(add, shown);
	add("range", joined(shown.range));
	add("tab", shown.tab);
	add("flame", shown.flame);
	add("filter", shown.filter);
	add("view", shown.view === START.view ? "" : shown.view);
	add("group", shown.group === START.group ? "" : shown.group);
	add("order", shown.order === START.order ? "" : shown.order);
	add("height", shown.height === START.height ? "" : shown.height);
	add("follow", shown.follow ? "1" : "");
	add("find", shown.find);
	add("by", shown.by === START.by ? "" : shown.by);
	add("where", shown.where);
	add("at", shown.at === null ? "" : String(Math.round(shown.at)));
	add("analysis", shown.analysis);
	add("sql", shown.sql);
	add("result", shown.result === START.result ? "" : shown.result);
	add("plot-x", shown.plotX);
	add("plotted", listed(shown.plotted));
	add("with", shown.other === null ? "" : String(shown.other));
	add("offset", shown.offset ? String(Math.round(shown.offset)) : "");
	add("sums", shown.sums);
	writeOwn((name, value) => add(`${SECOND}${name}`, value), shown.second);
	return `#${all}`;
}

function writeOwn(add: (name: string, value: string) => void, own: Own): void {
	add("selected", own.selected ? `${own.selected.lane},${Math.round(own.selected.at)}` : "");
	add("last", own.selected || own.last === null ? "" : String(own.last));
	add("flame-of", own.flameOf === null ? "" : String(own.flameOf));
	add("pinned", own.pinned.join(","));
	add("open", own.open.join(","));
	add("hidden", own.hidden.join(","));
	add("hidden-groups", listed(own.hiddenGroups));
	add("closed", listed(own.closed));
	add("marks", own.marks.map(Math.round).join(","));
}
