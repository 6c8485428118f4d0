// SPDX-License-Identifier: MIT OR Apache-2.0
// What `piste diff` says of two recordings; a row leads to both timelines.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Shown } from "./address";
import { useAnswer } from "./answers";
import * as api from "./api";
import { aboutOf, meantBy, measureName } from "./changes";
import { Prose } from "./prose";
import type { Lanes } from "./rows";
import { ANALYSES } from "./statistics";
import { type Column, DataTable, measured } from "./tables";
import { duration } from "./time";
import { Waiting } from "./waiting";

/** Of times, and as many of counts. */
const CHANGES_MAX = 200;

/** Answers about whole traces. */
const known = new Map<string, api.Diff>();

interface Props {
	recordings: [number, number];
	/** Neither is being recorded: what is different stays so. */
	isFinal: boolean;
	lanes: [Lanes | null, Lanes | null];
	shown: Pick<Shown, "analysis" | "sums">;
	show: (change: Partial<Shown>) => void;
	open: (change: api.Change) => void;
}

export function DiffTable({ recordings: [before, after], isFinal, lanes, shown, show, open }: Props) {
	const { sums } = shown;
	const [name] = ANALYSES.find(([name]) => name === shown.analysis) ?? [""];
	const [opened, setOpened] = useState<api.Change | null>(null);
	const [filter, setFilter] = useState("");
	const of = [before, after, name, sums];
	const { answer: diff, problem } = useAnswer(
		of,
		(signal) => api.diff(before, after, { name, limit: CHANGES_MAX, sums }, signal),
		{ kept: isFinal ? known : undefined },
	);
	useEffect(() => setOpened(null), of);
	const [first, second] = lanes;
	const columns = useMemo((): Column<api.Change>[] => {
		const isShown = (change: api.Change) =>
			[first, second].some((lanes) => lanes !== null && meantBy(change, lanes) !== null);
		const shown = new Set(diff?.changes.filter(isShown));
		const amount = (change: api.Change, value: number | null) =>
			value === null ? "–" : `${rounded(change.measure, value)}${change.is_rate ? "/s" : ""}`;
		const number = (heading: string, key: (change: api.Change) => number | null): Column<api.Change> => ({
			heading,
			isNumber: true,
			key,
			cell: (change) => amount(change, key(change)),
		});
		return [
			{
				...number("Change", ({ change }) => change),
				cell: (change) => signed(change.change, (value) => amount(change, value)),
			},
			{
				...number("%", ({ change_percent }) => change_percent),
				cell: ({ change_percent }) => signed(change_percent, (percent) => `${whole(percent)} %`),
			},
			number("Before", ({ before }) => before),
			number("After", ({ after }) => after),
			{
				heading: "Measure",
				isNumber: false,
				key: ({ measure }) => measureName(measure),
				cell: ({ measure }) => measureName(measure),
			},
			{
				heading: "Name",
				isNumber: false,
				key: aboutOf,
				title: aboutOf,
				cell: (change) =>
					shown.has(change) ? (
						<button
							type="button"
							class="link"
							title="Show in both timelines"
							aria-current={change === opened}
							onClick={() => {
								setOpened(change);
								open(change);
							}}
						>
							{aboutOf(change)}
						</button>
					) : (
						aboutOf(change) || <span class="faint">all</span>
					),
			},
			{
				heading: "Analysis",
				isNumber: false,
				key: ({ analysis, table }) => `${analysis} ${table}`,
				cell: ({ analysis, table }) => (
					<span class="faint">
						{analysis} {table.replaceAll("_", " ")}
					</span>
				),
			},
		];
	}, [diff, first, second, opened, open]);
	const rows = useMemo(() => {
		const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
		const text = (change: api.Change) =>
			[aboutOf(change), measureName(change.measure), change.analysis, change.table].join(" ").toLowerCase();
		return diff?.changes.filter((change) => words.every((word) => text(change).includes(word))) ?? [];
	}, [diff, filter]);
	return (
		<section class="differences" aria-label="Differences" aria-busy={!diff && !problem}>
			<div class="bar">
				<h2>Differences</h2>
				<select aria-label="Analysis" value={name} onChange={(event) => show({ analysis: event.currentTarget.value })}>
					<option value="">The largest changes of all analyses</option>
					{ANALYSES.map(([one, title]) => (
						<option key={one} value={one}>
							{title}
						</option>
					))}
				</select>
				<input
					type="search"
					placeholder="Filter rows"
					aria-label="Filter differences"
					value={filter}
					onInput={(event) => setFilter(event.currentTarget.value)}
				/>
				<span class="faint" role="status">
					{diff
						? `${duration(diff.before_duration_ns)} before, ${duration(diff.after_duration_ns)} after; sums are`
						: !problem && <Waiting path={`${before}/diff/${after}`}>Reading both traces…</Waiting>}
				</span>
				{(diff || sums) && (
					<select
						aria-label="Sums"
						value={diff ? (diff.is_per_second ? "per-second" : "as-is") : sums}
						onChange={(event) => show({ sums: event.currentTarget.value as Shown["sums"] })}
					>
						<option value="as-is">of whole traces</option>
						<option value="per-second">per second of trace</option>
					</select>
				)}
			</div>
			<div class="scroll">
				{problem && <p role="alert">{problem}</p>}
				{diff && rows.length === 0 && <p>{filter ? "No row contains this text." : "There are no differences."}</p>}
				{rows.length > 0 && <DataTable columns={columns} rows={rows} most={rows.length} />}
				{[...new Set([...(diff?.notes ?? []), ...(diff?.findings ?? []).map(({ what }) => what)])].map((note) => (
					<p key={note} class="faint">
						<Prose text={note} />
					</p>
				))}
			</div>
		</section>
	);
}

const whole = (value: number): string => Math.round(value).toLocaleString("en-US");

/** Counts have fractions if they are rates. */
function rounded(measure: string, value: number): string {
	if (measure.endsWith("_ns")) return duration(value);
	if (measure.endsWith("_bytes")) return measured(measure, Math.round(value));
	return Math.abs(value) < 100 ? String(Math.round(value * 10) / 10) : whole(value);
}

const signed = (value: number | null, said: (value: number) => string): string =>
	value === null ? "" : `${value < 0 ? "−" : "+"}${said(Math.abs(value))}`;
