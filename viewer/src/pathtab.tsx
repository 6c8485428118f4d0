// SPDX-License-Identifier: MIT OR Apache-2.0
// The critical path of a thread in the details: what it consists of, for how long, and where. path.ts asks for it and draws it.
import { useMemo } from "preact/hooks";
import type { Props } from "./details";
import { type Cause, type OnPath, type Path, SEGMENTS_MAX, type Segment } from "./path";
import { around } from "./places";
import { type Column, DataTable } from "./tables";
import { duration, moment } from "./time";
import { Waiting } from "./waiting";

const NO_DATA = "There is no data about this thread at the selected time.";
const NO_THREAD = "Choose a thread to see its critical path: click the name of its lane, or pin the lane (P).";

/** Of the segments, so many are listed. */
const ROWS_MAX = 200;
/** So many lanes are pinned at once: more do not fit the screen. */
const PINNED_MAX = 20;
/** What is seen around a short segment, in ns. */
const AROUND = 2000;

export function PathTab(props: Props) {
	const { recording, lanes, shown, show, path: asked } = props;
	if (!asked?.asked) {
		if (asked?.problem) return <p role="alert">{asked.problem}</p>;
		return <p class="faint">{!asked || asked.isLookingUp ? "Loading…" : shown.selected ? NO_DATA : NO_THREAD}</p>;
	}
	const { thread, candidates, span } = asked.asked;
	const { path, problem } = asked;
	const name = (id: number) => `${lanes.name(id)} (${lanes.get(id)?.tid})`;
	return (
		<>
			<p class="buttons">
				<span>
					What{" "}
					{candidates.length > 1 ? (
						<select
							aria-label="Thread"
							value={thread}
							onChange={(event) => show({ last: Number(event.currentTarget.value) })}
						>
							{candidates.map((id) => (
								<option key={id} value={id}>
									{name(id)}
								</option>
							))}
						</select>
					) : (
						<strong>{name(thread)}</strong>
					)}{" "}
					depended on for {duration(span.end - span.begin)}
				</span>
			</p>
			{problem && <p role="alert">{problem}</p>}
			{!path && !problem && (
				<p>
					<Waiting path={`${recording}/analysis/critical-path`}>Reading the trace…</Waiting>
				</p>
			)}
			{path && <Found {...props} path={path} />}
		</>
	);
}

function Found({ whole, shown, show, seen, path }: Omit<Props, "path"> & { path: Path }) {
	const jump = useMemo(() => (segment: Segment) => show({ span: around(segment, whole, AROUND) }), [show, whole]);
	const longest = useMemo(() => longestOf(path), [path]);
	const causes = useMemo(
		(): Column<Cause>[] => [
			text("what", (row) => row.state + (row.cause ? ` for ${row.cause}` : "")),
			text("in", (row) => row.syscall),
			text("by", (row) => row.by),
			number("count", (row) => row.count, String),
			number("time", (row) => row.total, duration),
			share(),
			{
				...number<Cause>("longest", (row) => length(longest.get(keyOf(row))), duration),
				cell: (row) => (
					<Jump segment={longest.get(keyOf(row))} jump={jump} label={(segment) => duration(length(segment) ?? 0)} />
				),
			},
		],
		[longest, jump],
	);
	const threads = useMemo(
		(): Column<OnPath>[] => [
			text("thread", (row) => row.comm),
			number("tid", (row) => row.tid, String),
			number("time", (row) => row.total, duration),
			share(),
		],
		[],
	);
	const segments = useMemo(
		(): Column<Segment>[] => [
			{
				...number<Segment>("begin", (row) => row.begin, String),
				cell: (row) => <Jump segment={row} jump={jump} label={({ begin }) => moment(begin, 1e3)} />,
			},
			number("duration", (row) => row.end - row.begin, duration),
			share(),
			text("thread", (row) => `${row.comm} (${row.tid})`),
			text("what", (row) => row.state + (row.cause ? ` for ${row.cause}` : "")),
			text("in", (row) => row.syscall),
			text("by", (row) => row.by),
			text("during the wait for", (row) => row.wait),
		],
		[jump],
	);
	const byLength = useMemo(
		() => [...path.segments].sort((one, other) => other.end - other.begin - (one.end - one.begin)),
		[path],
	);
	if (path.segments.length === 0) return <p>The trace contains nothing about this thread in this period.</p>;
	const hidden = path.threads.filter(({ lane }) => lane !== null && !seen.includes(lane));
	const isCut = path.cutAt !== null;
	return (
		<>
			{hidden.length > 0 && (
				<p class="hidden-threads">
					Not visible:{" "}
					{hidden
						.slice(0, 5)
						.map(({ comm, tid }) => `${comm} (${tid})`)
						.join(", ")}
					{hidden.length > 5 && ` and ${hidden.length - 5} more`}{" "}
					<button
						type="button"
						onClick={() => {
							const lanesOfPath = path.threads.flatMap(({ lane }) => lane ?? []).slice(0, PINNED_MAX);
							show({ pinned: [...new Set([...lanesOfPath, ...shown.pinned])] });
						}}
					>
						Pin the threads of the path
					</button>
				</p>
			)}
			{isCut && (
				<p>
					The path has more than {SEGMENTS_MAX.toLocaleString("en-US")} segments. It is drawn and listed only up to{" "}
					{moment(path.cutAt!, 1e3)}; the sums cover the whole path.{" "}
					{shown.range && !shown.selected && (
						<button type="button" onClick={() => show({ range: { begin: path.cutAt!, end: shown.range!.end } })}>
							Select the rest
						</button>
					)}
				</p>
			)}
			<div class="beside">
				<DataTable columns={causes} rows={path.causes} caption="By cause" most={ROWS_MAX} />
				<DataTable columns={threads} rows={path.threads} caption="By thread" most={ROWS_MAX} />
			</div>
			<DataTable
				columns={segments}
				rows={byLength}
				caption={
					<>
						Segments
						{byLength.length > ROWS_MAX && (
							<small>
								, the {ROWS_MAX} longest of {byLength.length.toLocaleString("en-US")}
							</small>
						)}
					</>
				}
				most={ROWS_MAX}
			/>
			{path.notes.map((note) => (
				<p key={note} class="faint">
					{note}
				</p>
			))}
		</>
	);
}

const length = (segment: Segment | undefined): number | null => (segment ? segment.end - segment.begin : null);

/** Waits for a CPU have one sum, whichever thread had the CPU. */
const keyOf = ({ state, cause, syscall, by }: Pick<Cause, "state" | "cause" | "syscall" | "by">): string =>
	JSON.stringify([state, cause, syscall, state === "runnable" || state === "preempted" ? null : by]);

/** The longest segment of each cause. */
function longestOf({ segments }: Path): ReadonlyMap<string, Segment> {
	const found = new Map<string, Segment>();
	for (const segment of segments) {
		const key = keyOf(segment);
		if ((length(segment) ?? 0) > (length(found.get(key)) ?? -1)) found.set(key, segment);
	}
	return found;
}

function text<Row>(heading: string, of: (row: Row) => string | null): Column<Row> {
	return { heading, isNumber: false, key: of, cell: of, title: (row) => of(row) ?? "" };
}

function number<Row>(heading: string, of: (row: Row) => number | null, said: (value: number) => string): Column<Row> {
	const cell = (row: Row) => {
		const value = of(row);
		return value === null ? "" : said(value);
	};
	return { heading, isNumber: true, key: of, cell };
}

function share<Row extends { share: number }>(): Column<Row> {
	const cell = ({ share }: Row) => (
		<>
			<svg class="share" width="50" height="8" aria-hidden="true">
				<rect width="50" height="8" rx="2" class="room-of-share" />
				<rect width={share / 2} height="8" rx="2" class="part" />
			</svg>{" "}
			{share.toFixed(1)} %
		</>
	);
	return { heading: "share", isNumber: true, key: ({ share }) => share, cell };
}

interface JumpProps {
	segment: Segment | undefined;
	jump: (segment: Segment) => void;
	label: (segment: Segment) => string;
}

function Jump({ segment, jump, label }: JumpProps) {
	if (!segment) return null;
	return (
		<button type="button" class="link" title="Show in the timeline" onClick={() => jump(segment)}>
			{label(segment)}
		</button>
	);
}
