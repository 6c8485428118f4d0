// SPDX-License-Identifier: MIT OR Apache-2.0
// Below the timeline: the piece that is selected, or what `piste analyze` says about the range.
import { useMemo } from "preact/hooks";
import type { Shown } from "./address";
import { AlikeView } from "./alike";
import { REST_MS, useAnswer } from "./answers";
import * as api from "./api";
import { CLASS_NAMES, type Class, css, type Theme } from "./colours";
import { actOf } from "./commands";
import { MEANINGS, sumRow, valueText } from "./counters";
import { FLAME_TAB, FlameTab } from "./flametab";
import { candidates, PATH_TAB, type PathShown } from "./path";
import { PathTab } from "./pathtab";
import { ofRange } from "./queries";
import type { Lanes } from "./rows";
import { note, title } from "./rows";
import type { Selection } from "./selected";
import { SPANS_TAB, SpansTab } from "./spanstab";
import { AnalysisView, analysisOf } from "./tables";
import { duration, lengthOf, moment } from "./time";
import type { Span } from "./timeline";
import { Waiting } from "./waiting";
import type { Woken } from "./wakes";

export interface Props {
	recording: number;
	origin: bigint;
	whole: Span;
	lanes: Lanes;
	shown: Shown;
	theme: Theme;
	show: (change: Partial<Shown>) => void;
	selection: Selection;
	/** Null while its tab is closed. */
	path: PathShown | null;
	/** What the selected thread woke. */
	wakes: Woken | null;
	/** The lanes that are seen. */
	seen: number[];
}

export function Details(props: Props) {
	const { selected, range } = props.shown;
	if (selected) return <Selected {...props} selected={selected} />;
	if (range) return <Range {...props} range={range} />;
	return null;
}

/** The label of `by` of a piece, where it is not the thread that ended a wait. */
const BY: Record<string, string> = {
	device: "Requested by",
	read: "Requested by",
	written: "Requested by",
	received: "Handled by",
	queued: "Sent by",
	sent: "Sent by",
};

function Selected(props: Props & { selected: NonNullable<Shown["selected"]> }) {
	const { origin, lanes, shown, selected, theme, show, wakes } = props;
	const { last, problem } = props.selection;
	const found = last?.found;
	const lane = lanes.get(selected.lane);
	if (!lane) return null;
	const ns = (text: string) => Number(BigInt(text) - origin);
	const named = (name: api.Label | null) => (name ? lanes.said(name) : "");
	const piece = found?.piece;
	const go = (to: api.Named | null | undefined) =>
		to && show({ selected: { lane: selected.lane, at: ns(to.begin_ns) } });
	const neighbour = (label: string, to: api.Named | null | undefined) => (
		<button type="button" disabled={!to} onClick={() => go(to)}>
			{label}
			{to && (
				<small>
					{" "}
					{meaning && to.value !== undefined
						? valueText(Number(to.value), meaning)
						: named(to.what) || CLASS_NAMES[to.class as Class]}
					{lengthOf(to) > 0 && `, ${duration(lengthOf(to))}`}
				</small>
			)}
		</button>
	);
	const state = piece ? (piece.class as Class) : null;
	const meaning = lane.quantity ? MEANINGS[lane.quantity] : null;
	const isAmount = meaning !== null && !meaning.isLevel;
	const creator = lanes.get(last?.creator ?? -1);
	const hasPath = lanes.hasKernel && candidates(shown, lanes).length > 0;
	const isPath = hasPath && shown.tab === PATH_TAB;
	const isThread = lane.kind === "thread";
	const about = (
		<>
			{problem && <p role="alert">{problem}</p>}
			{found && !piece && (
				<p>
					{isAmount
						? `There is no ${meaning.one} at ${moment(selected.at, 1)}.`
						: `The trace has no data for this lane at ${moment(selected.at, 1)}.`}
				</p>
			)}
			<div class="about">
				<div>
					{piece && state && (
						<dl>
							{meaning && piece.value !== undefined && (
								<>
									<dt>{isAmount ? "Size" : "Frequency"}</dt>
									<dd>{valueText(Number(piece.value), meaning)}</dd>
								</>
							)}
							{state !== "other" && state !== "value" && (
								<>
									<dt>State</dt>
									<dd>
										<svg width="12" height="12" aria-hidden="true">
											<rect width="12" height="12" rx="2" fill={css(theme.classes[state])} />
										</svg>{" "}
										{CLASS_NAMES[state]}
									</dd>
								</>
							)}
							{piece.what && (
								<>
									<dt>
										{state === "interrupted"
											? "Interrupt"
											: lane.kind === "cpu"
												? "Thread"
												: lane.kind === "spans" || lane.kind === "events"
													? "Name"
													: "System call"}
									</dt>
									<dd>
										<Name name={piece.what} lanes={lanes} at={selected.at} show={show} />
									</dd>
								</>
							)}
							{piece.by && (
								<>
									<dt>
										{state === "interrupted" || lane.kind === "interrupt"
											? "Interrupts"
											: (BY[lane.quantity ?? lane.kind] ?? "Ended by")}
									</dt>
									<dd>
										<Name name={piece.by} lanes={lanes} at={ns(piece.end_ns)} show={show} />
									</dd>
								</>
							)}
							{creator && (
								<>
									<dt>Created by</dt>
									<dd>
										<Name
											name={{ text: `${creator.name} (${creator.tid})`, lane: creator.id }}
											{...{ lanes, show }}
											at={ns(lane.created_ns ?? piece.begin_ns)}
										/>
									</dd>
								</>
							)}
							{lengthOf(piece) === 0 ? (
								<>
									<dt>At</dt>
									<dd>{moment(ns(piece.begin_ns), 1)}</dd>
								</>
							) : (
								<>
									<dt>Duration</dt>
									<dd>{duration(lengthOf(piece))}</dd>
									<dt>From</dt>
									<dd>{moment(ns(piece.begin_ns), 1)}</dd>
									<dt>To</dt>
									<dd>{moment(ns(piece.end_ns), 1)}</dd>
								</>
							)}
							{state === "other" && lengthOf(piece) > 0 && <CpuTime {...props} piece={piece} />}
							{isThread && wakes && (
								<>
									<dt>Wakes next</dt>
									<dd>
										<Wakes woken={wakes} lanes={lanes} show={show} />
									</dd>
								</>
							)}
						</dl>
					)}
					<p class="buttons">
						{neighbour("◂ Previous", found?.previous)}
						{neighbour("Next ▸", found?.next)}
						<button type="button" title="Write a note on this piece (C)" onClick={() => actOf("note")?.()}>
							Note
						</button>
					</p>
				</div>
				{piece && state !== "unknown" && !meaning && lengthOf(piece) > 0 && <AlikeView {...props} piece={piece} />}
			</div>
		</>
	);
	return (
		<section class="details" aria-label="Selection" aria-live="polite">
			<div class="headed">
				<h2>
					{title(lane, lanes)} <small>{note(lane)}</small>
				</h2>
				{hasPath && (
					<div role="tablist" class="tabs">
						<button type="button" role="tab" aria-selected={!isPath} onClick={() => show({ tab: "" })}>
							Details
						</button>
						<button type="button" role="tab" aria-selected={isPath} onClick={() => show({ tab: PATH_TAB })}>
							Critical path
						</button>
					</div>
				)}
			</div>
			{isPath ? <PathTab {...props} /> : about}
		</section>
	);
}

function Name({ name, lanes, at, show }: { name: api.Label; lanes: Lanes; at: number; show: Props["show"] }) {
	const { lane } = name;
	if (lane === null || !lanes.get(lane)) return <>{name.text}</>;
	return (
		<button type="button" class="link" onClick={() => show({ selected: { lane, at } })}>
			{name.text}
		</button>
	);
}

/** The thread that the selected one wakes next. */
function Wakes({ woken: { wait, searchedUntil }, lanes, show }: { woken: Woken; lanes: Lanes; show: Props["show"] }) {
	if (!wait)
		return (
			<>
				{searchedUntil === null
					? "no thread"
					: `no thread up to ${moment(searchedUntil, 1e3)}, where the search stopped`}
			</>
		);
	return (
		<>
			<button
				type="button"
				class="link"
				title="Show the wait that it ends ( ] )"
				onClick={() => show({ selected: { lane: wait.lane, at: wait.at - 1 } })}
			>
				{lanes.name(wait.lane)} ({lanes.get(wait.lane)?.tid})
			</button>{" "}
			at {moment(wait.at, 1)}, after a wait of {duration(wait.length)}
		</>
	);
}

/** For how much of a system call or a span its thread had a CPU. */
function CpuTime({ recording, lanes, shown, piece }: Props & { piece: api.Named }) {
	const thread = shown.selected ? lanes.threadOf(shown.selected.lane) : undefined;
	const { answer } = useAnswer(thread ? [recording, thread.id, piece.begin_ns, piece.end_ns] : null, (signal) =>
		api.sums(recording, [thread!.id], BigInt(piece.begin_ns), BigInt(piece.end_ns), signal),
	);
	const sum = answer?.[0];
	if (!sum) return null;
	const of = (...names: string[]) => names.reduce((all, name) => all + (sum.ns[name] ?? 0), 0);
	const length = lengthOf(piece);
	const said = (ns: number) => `${duration(ns)} (${Math.round((ns / length) * 100)} %)`;
	const others = [
		["waiting for a CPU", of("runnable")],
		["blocked", of("blocked", "stopped")],
		["unknown", of("unknown")],
	] as const;
	return (
		<>
			<dt>CPU time</dt>
			<dd>{said(of("running", "user", "kernel", "interrupted"))}</dd>
			<dt>Other time</dt>
			<dd>
				{others
					.filter(([, ns]) => ns > 0)
					.map(([name, ns]) => `${name} ${said(ns)}`)
					.join(", ") || "none"}
			</dd>
		</>
	);
}

/** The names of the tabs, and what a trace must contain for them. */
const TABS = [
	["states", "States by thread", "kernel"],
	["numbers", "Numbers", "kernel"],
	["cputop", "CPU time by thread", "kernel"],
	["schedstats", "Waits for a CPU", "kernel"],
	["blocked", "Blocked", "kernel"],
	["syscallstats", "System calls", "kernel"],
	["iotop", "I/O", "kernel"],
	["irqstats", "Interrupts", "kernel"],
	[PATH_TAB, "Critical path", "kernel"],
	[SPANS_TAB, "Spans", "spans"],
	[FLAME_TAB, "Flame graph", null],
] as const;

/** The tabs that can say something about a trace. */
function tabsOf(lanes: Lanes) {
	const hasSpans = lanes.all.some(({ kind }) => kind === "spans");
	return TABS.filter(([, , needs]) => needs === null || (needs === "kernel" ? lanes.hasKernel : hasSpans));
}

/** These tabs send their own requests. */
const OWN_TABS: readonly string[] = [PATH_TAB, SPANS_TAB, FLAME_TAB];

/** How many rows of a table are shown. */
const ROWS_MAX = 100;

/** How long each thread was in each state, the busiest threads first. */
async function states(recording: number, lanes: Lanes, begin: bigint, end: bigint, signal: AbortSignal) {
	const threads = lanes.all.filter((lane) => lane.kind === "thread").map((lane) => lane.id);
	const sums = await api.sums(recording, threads, begin, end, signal);
	const ran = ({ ns }: api.Sum) =>
		["running", "user", "kernel", "interrupted", "runnable"].reduce((sum, name) => sum + (ns[name] ?? 0), 0);
	const rows = sums
		.filter(({ ns }) => Object.keys(ns).length > 0)
		.sort((one, other) => ran(other) - ran(one))
		.map(({ lane, ns }) => {
			const row: Record<string, unknown> = { thread: lanes.name(lane), tid: lanes.get(lane)?.tid };
			for (const name of ["user", "kernel", "interrupted", "running", "runnable", "blocked", "stopped", "unknown"]) {
				row[`${name}_ns`] = ns[name] ?? null;
			}
			return row;
		});
	return { threads: rows };
}

/** How much data passed through interfaces and devices, and how fast CPUs were. */
async function numbers(recording: number, lanes: Lanes, begin: bigint, end: bigint, signal: AbortSignal) {
	const counters = lanes.all.filter((lane) => lane.kind === "counter");
	const sums = await api.sums(
		recording,
		counters.map(({ id }) => id),
		begin,
		end,
		signal,
	);
	const row = (lane: api.Lane, place: number) =>
		sumRow(title(lane, lanes), sums[place]!, MEANINGS[lane.quantity!], Number(end - begin));
	return { numbers: counters.map(row).filter((row) => row !== null) };
}

/** A range in the time of the trace. */
const between = (origin: bigint, { begin, end }: Span): [bigint, bigint] => [
	origin + BigInt(Math.floor(begin)),
	origin + BigInt(Math.ceil(end)),
];

function Range(props: Props & { range: Span }) {
	const { recording, origin, lanes, shown, range, show } = props;
	const tabs = useMemo(() => tabsOf(lanes), [lanes]);
	const [tab] = tabs.find(([name]) => name === shown.tab) ?? tabs[0]!;
	const isOwn = OWN_TABS.includes(tab);
	const { answer, problem } = useAnswer(
		isOwn ? null : [recording, origin, range, tab],
		async (signal) => {
			const [begin, end] = between(origin, range);
			if (tab === "states") return analysisOf(await states(recording, lanes, begin, end, signal));
			if (tab === "numbers") return analysisOf(await numbers(recording, lanes, begin, end, signal));
			return analysisOf(await api.analysis(recording, tab, begin, end, signal, ROWS_MAX + 1));
		},
		{ restMs: REST_MS, again: [lanes] },
	);
	return (
		<section class="details" aria-label="Range">
			<h2>
				{duration(range.end - range.begin)} from {moment(range.begin, 1e3)}{" "}
				<button type="button" onClick={() => show({ page: "events", at: null })}>
					Events
				</button>{" "}
				{lanes.hasKernel && (
					<>
						<button type="button" onClick={() => show({ page: "sql", sql: ofRange(...between(origin, range)) })}>
							SQL
						</button>{" "}
					</>
				)}
				<button type="button" title="Write a note on this range (C)" onClick={() => actOf("note")?.()}>
					Note
				</button>{" "}
				<button type="button" onClick={() => show({ range: null })}>
					Close
				</button>
			</h2>
			<div role="tablist" class="tabs">
				{tabs.map(([name, heading]) => (
					<button key={name} type="button" role="tab" aria-selected={name === tab} onClick={() => show({ tab: name })}>
						{heading}
					</button>
				))}
			</div>
			{!lanes.hasKernel && (
				<p class="faint">
					This trace contains only events of programs; states of threads, waits and system calls need kernel events.
				</p>
			)}
			{tab === PATH_TAB && <PathTab {...props} />}
			{tab === SPANS_TAB && <SpansTab {...props} />}
			{tab === FLAME_TAB && <FlameTab {...props} />}
			{problem && <p role="alert">{problem}</p>}
			{!answer && !problem && !isOwn && (
				<p>
					<Waiting path={`${recording}/analysis/${tab}`}>Reading the trace…</Waiting>
				</p>
			)}
			{answer && <AnalysisView key={tab} analysis={answer} of="range" most={ROWS_MAX} />}
		</section>
	);
}
