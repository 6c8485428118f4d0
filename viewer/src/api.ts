// SPDX-License-Identifier: MIT OR Apache-2.0
// What the server is asked. Times are nanoseconds; the server has them since 1970, which a number cannot hold, so everything here counts from the
// begin of the recording.

/** A recording, as the server describes it. */
export interface Status {
	path: string;
	state: "waiting" | "growing" | "live" | "whole" | "failed";
	begin_ns: string | null;
	end_ns: string | null;
	share: number;
	problem: string | null;
}

/** A lane of the timeline. */
export interface Lane {
	id: number;
	kind: "cpu" | "thread" | "calls" | "interrupt" | "device" | "spans" | "events" | "counter";
	cpu?: number;
	tid?: number | null;
	pid?: number | null;
	name?: string;
	is_kernel?: boolean;
	/** Threads with the same number are of one process. */
	process?: number;
	uid?: number | null;
	cgroup?: string;
	/** Of a thread: the process that its process comes from. */
	parent_pid?: number | null;
	/** The lane of the thread that created this one, and when. */
	created_by?: number | null;
	created_ns?: string | null;
	/** Of a counter: what it counts. */
	quantity?: "frequency" | "received" | "queued" | "sent" | "read" | "written";
	/** Of calls: the lane of their thread; of a counter: that of its device. */
	of?: number | null;
	/** Of spans: in how many others they lie. */
	depth?: number;
	pieces: number;
	busy_ns: string;
	/** When there is something first. */
	first_ns: string | null;
	/** It is a thread, and what it did is never known. */
	is_unknown: boolean;
}

/** What a lane shows, in parts of the same width. */
export interface Columns {
	kind: "columns";
	/** For each column, a bit for each class. */
	masks: Uint16Array;
	/** Shares of the classes of all columns, 0 to 255, one after the other. */
	shares: Uint8Array;
	/** Of the longest piece: its class, */
	longestClass: Uint8Array;
	/** and what it is: a label. */
	longest: Uint32Array;
	/** By column: the numbers there, of a lane that has any. */
	numbers: Map<number, Numbers>;
}

/** Numbers together. */
export interface Numbers {
	/** How many amounts there are. */
	amounts: number;
	least: number;
	most: number;
	/** The sum of amounts, or the mean of levels. */
	total: number;
}

/** What a lane shows, piece by piece. */
export interface Pieces {
	kind: "pieces";
	begin: Float64Array;
	duration: Float64Array;
	classes: Uint8Array;
	what: Uint32Array;
	by: Uint32Array;
	/** Of those that have a number. */
	values: Float64Array;
}

/** What a number in lanes stands for: a name, and of a thread its lane. */
export interface Label {
	text: string;
	lane: number | null;
}

export interface Labels {
	get(number: number): Label | undefined;
}

export interface Part {
	lanes: Map<number, Columns | Pieces>;
	labels: Labels;
}

export interface Named {
	begin_ns: string;
	end_ns: string;
	class: string;
	what: Label | null;
	by: Label | null;
	/** Of a lane of numbers. */
	value?: string;
}

export interface Found {
	piece: Named | null;
	previous: Named | null;
	next: Named | null;
}

export interface Insight {
	kind: string;
	level: string;
	what: string;
	begin_ns: string;
	end_ns: string;
	/** what was measured. */
	how: string;
	command: string;
}

export interface Insights {
	insights: Insight[];
	notes: string[];
}

export const NO_ANSWER = "The server is not responding. Is `piste web` still running?";

/** The server says why there is no answer. */
export class Refused extends Error {}

export async function ask(path: string, options: RequestInit = {}): Promise<Response> {
	const response = await fetch(`api/${path}`, options);
	if (response.ok) return response;
	const body = await response.json().catch(() => null);
	throw new Refused(body?.error?.message ?? `the server answered with status ${response.status}`);
}

/** Characters that turn the direction of text would make names and numbers look like others. */
export const plain = (text: string): string => text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

async function jsonOf<T>(response: Response): Promise<T> {
	return JSON.parse(plain(await response.text())) as T;
}

async function json<T>(path: string, signal?: AbortSignal): Promise<T> {
	return jsonOf(await ask(path, signal ? { signal } : {}));
}

export const recordings = () => json<Status[]>("recordings");
/** Somebody looks at it: its timeline is made. */
export const open = (recording: number) => ask(`${recording}/open`, { method: "POST" });
export const lanes = (recording: number) =>
	json<{ lanes: Lane[]; left_out: number; has_kernel: boolean }>(`${recording}/lanes`);
export const insights = (recording: number, signal: AbortSignal) => json<Insights>(`${recording}/insights`, signal);

/** The piece of a lane at a time, and its neighbours. */
export const piece = (recording: number, lane: number, at: bigint, signal: AbortSignal) =>
	json<Found>(`${recording}/piece?lane=${lane}&at=${at}`, signal);

/** For how long lanes were what in a range, by class, in ns. */
export interface Sum {
	lane: number;
	pieces: number;
	ns: Record<string, number>;
	/** Of a lane of numbers, as text. */
	values?: { amounts: number; least: string; most: string; total: string };
}

export async function sums(
	recording: number,
	lanes: number[],
	begin: bigint,
	end: bigint,
	signal: AbortSignal,
): Promise<Sum[]> {
	const body = JSON.stringify({ begin_ns: String(begin), end_ns: String(end), lanes });
	const response = await ask(`${recording}/sums`, { method: "POST", body, signal });
	return jsonOf(response);
}

/** Durations of pieces with the same name: crates/web/src/alike.rs. */
export interface Alike {
	count: number;
	/** Of them, those that took less time than the piece that was asked about. */
	shorter: number;
	total_ns: number;
	/** In so many lanes. */
	lanes: number;
	bars: Bar[];
	/** There were too many to look at all. */
	is_part: boolean;
}

/** The pieces whose durations lie between two. */
export interface Bar {
	from_ns: number;
	to_ns: number;
	count: number;
	slowest: { lane: number; begin_ns: string; duration_ns: number }[];
}

/** Looks in the lane of the piece at a time, or in all lanes of its kind. */
export const alike = (recording: number, lane: number, at: bigint, among: "lane" | "kind", signal: AbortSignal) =>
	json<Alike>(`${recording}/alike?lane=${lane}&at=${at}&among=${among}`, signal);

/** Spans with the same name in a range: crates/web/src/spans.rs. */
export interface SpanRow {
	name: string;
	/** That begin and end in it; without any, there are no times. */
	count: number;
	total_ns?: number;
	p50_ns?: number;
	p99_ns?: number;
	max_ns?: number;
	slowest_lane?: number;
	slowest_begin_ns?: string;
	/** That were open where the range begins or ends. */
	beyond: number;
	/** Whose begin or end is missing in the trace. */
	incomplete: number;
	threads: number;
}

export interface Spans {
	spans: SpanRow[];
	/** So many further spans have other names. */
	left_out: number;
	has_losses: boolean;
	/** There were too many to look at all. */
	is_part: boolean;
}

export const spans = (recording: number, begin: bigint, end: bigint, signal: AbortSignal) =>
	json<Spans>(`${recording}/spans?begin=${begin}&end=${end}`, signal);

/** What a filter can name: crates/web/src/classes.rs. */
export interface Classes {
	/** Names of events, with their fields. */
	events: Record<string, string[]>;
	/** Fields of all events of a stream. */
	contexts: string[];
}

export const classes = (recording: number, signal: AbortSignal) => json<Classes>(`${recording}/classes`, signal);

/** The next wait that a thread ended. */
export interface Wakes {
	wait: (Named & { lane: number }) | null;
	/** The search ended before the trace did. */
	until_ns: string | null;
}

export const wakes = (recording: number, lane: number, at: bigint, signal: AbortSignal) =>
	json<Wakes>(`${recording}/wakes?lane=${lane}&at=${at}`, signal);

/** The tables of `piste analyze`, as its JSON, with at most `limit` rows each; of one thread, or of all. */
export const analysis = (
	recording: number,
	name: string,
	begin: bigint,
	end: bigint,
	signal: AbortSignal,
	limit: number,
	tid?: number,
) => {
	const whose = tid === undefined ? "" : `&tid=${tid}`;
	return json<unknown>(`${recording}/analysis/${name}?begin=${begin}&end=${end}&limit=${limit}${whose}`, signal);
};

/** How far the command is that answers a question. */
export interface Way {
	what: string;
	done_bytes: number;
	total_bytes: number;
}

/** How far the answer to a path, such as `0/diff/1`, is; null while that is not known. */
export const progress = (path: string, signal: AbortSignal) => json<Way | null>(`progress/${path}`, signal);

/** What `piste diff` says of two recordings. */
export interface Diff {
	before_duration_ns: number;
	after_duration_ns: number;
	is_per_second: boolean;
	changes: Change[];
	notes: string[];
	findings: { what: string }[];
}

export interface Change {
	analysis: string;
	table: string;
	about: string;
	/** The same by the columns that have it. */
	of: Record<string, string>;
	/** The key of a column. */
	measure: string;
	/** Per second of its trace. */
	is_rate: boolean;
	before: number | null;
	after: number | null;
	change: number | null;
	change_percent: number | null;
}

export interface DiffWanted {
	/** An analysis; empty: all. */
	name: string;
	/** As many changes of times, and as many of counts. */
	limit: number;
	/** `per-second` or `as-is`; empty: as the command chooses. */
	sums: string;
}

export function diff(before: number, after: number, wanted: DiffWanted, signal: AbortSignal): Promise<Diff> {
	const { name, limit, sums } = wanted;
	const query = new URLSearchParams({ limit: `${limit}`, ...(name && { name }), ...(sums && { sums }) });
	return json<Diff>(`${before}/diff/${after}?${query}`, signal);
}

/** Which pieces are looked at: of some classes, or of all; with a name, or with any. */
export interface LongestWanted {
	lanes: number[];
	classes?: string[];
	name?: string;
}

export interface Longest {
	piece: { lane: number; begin_ns: string; end_ns: string } | null;
	/** There were too many to look at all. */
	is_part: boolean;
}

export async function longest(recording: number, wanted: LongestWanted, signal: AbortSignal): Promise<Longest> {
	const response = await ask(`${recording}/longest`, { method: "POST", body: JSON.stringify(wanted), signal });
	return jsonOf(response);
}

/** An event, as `piste view --json` prints it. */
export interface Event {
	time_ns: string;
	name: string;
	cpu?: number;
	packet_context?: Record<string, unknown>;
	event_context?: Record<string, unknown>;
	payload?: Record<string, unknown>;
}

export interface EventPage {
	events: Event[];
	/** Where the next page begins. */
	next: string | null;
	left_out: boolean;
	notes: string[];
}

export interface EventsWanted {
	begin: bigint;
	end: bigint;
	filter: string;
	limit: number;
	/** The last events of the range, not the first. */
	last?: boolean;
}

export function events(recording: number, wanted: EventsWanted, signal: AbortSignal): Promise<EventPage> {
	const { begin, end, filter, limit, last = false } = wanted;
	const query = new URLSearchParams({ begin: `${begin}`, end: `${end}`, filter, limit: `${limit}`, last: `${last}` });
	return json<EventPage>(`${recording}/events?${query}`, signal);
}

/** What a search has found: how many pieces begin in each column, and the first and the last of them. */
export interface Search {
	count: number;
	/** There was too much to read. */
	is_cut: boolean;
	columns: number[];
	first: { begin_ns: string; lane: number } | null;
	last: { begin_ns: string; lane: number } | null;
}

export interface SearchWanted {
	text: string;
	begin: bigint;
	end: bigint;
	columns: number;
	/** At the begin, only lanes after this one; at the end, also lanes before this one. */
	after?: number | null;
	before?: number | null;
}

export function search(recording: number, wanted: SearchWanted, signal: AbortSignal): Promise<Search> {
	const { text, begin, end, columns, after = null, before = null } = wanted;
	const query = new URLSearchParams({ text, begin: `${begin}`, end: `${end}`, columns: `${columns}` });
	if (after !== null) query.set("after_lane", `${after}`);
	if (before !== null) query.set("before_lane", `${before}`);
	return json<Search>(`${recording}/search?${query}`, signal);
}

/** A note, as the file beside the trace has it. */
export interface Note {
	begin_ns: string;
	end_ns: string;
	text: string;
	/** As laneKey names it (notes.tsx). */
	lane?: string;
}

export interface Notes {
	version: string;
	notes: Note[];
	/** Why there can be no new ones. */
	unwritable: string | null;
}

export const notes = (recording: number) => json<Notes>(`${recording}/notes`);

/** Replaces the notes; refused if somebody else has done so since `version`. */
export async function replaceNotes(recording: number, version: string, notes: Note[]): Promise<Notes> {
	const response = await ask(`${recording}/notes`, { method: "POST", body: JSON.stringify({ version, notes }) });
	return (await response.json()) as Notes;
}

/** Writes a range as a trace beside this one. */
export async function trim(recording: number, begin: bigint, end: bigint): Promise<string> {
	const response = await ask(`${recording}/trim?begin=${begin}&end=${end}`, { method: "POST" });
	return ((await response.json()) as { path: string }).path;
}

export const perfettoAddress = (recording: number, begin: bigint, end: bigint) =>
	`api/${recording}/perfetto?begin=${begin}&end=${end}`;

/** More does not fit into a page of Perfetto, nor well into this one. */
const PERFETTO_BYTES_MAX = 2 ** 30;

/** A range in the form of Perfetto. `came` is told how many bytes are there. */
export async function perfetto(
	recording: number,
	begin: bigint,
	end: bigint,
	signal: AbortSignal,
	came: (bytes: number) => void,
): Promise<ArrayBuffer> {
	const response = await ask(`${recording}/perfetto?begin=${begin}&end=${end}`, { signal });
	const parts: Uint8Array<ArrayBuffer>[] = [];
	let bytes = 0;
	const reader = response.body!.getReader();
	for (let part = await reader.read(); !part.done; part = await reader.read()) {
		parts.push(part.value);
		bytes += part.value.length;
		// Leaving the loop does not end the request.
		if (bytes > PERFETTO_BYTES_MAX) {
			await reader.cancel();
			throw new Error("the data is larger than 1 GiB; select a smaller range");
		}
		came(bytes);
	}
	return new Blob(parts).arrayBuffer();
}

/** Rows of a query, as text. */
export interface Rows {
	columns: string[];
	rows: string[][];
	has_more: boolean;
	notes: string[];
}

export async function query(recording: number, sql: string, limit: number, signal: AbortSignal): Promise<Rows> {
	const response = await ask(`${recording}/query?limit=${limit}`, { method: "POST", body: sql, signal });
	return jsonOf(response);
}
