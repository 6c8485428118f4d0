// SPDX-License-Identifier: MIT OR Apache-2.0
// What `piste analyze` says about the whole trace.
import { useCallback, useEffect, useState } from "preact/hooks";
import * as api from "./api";
import { opened, type PageProps } from "./places";
import { type Table, TableView, tablesOf } from "./tables";
import { duration } from "./time";

export const ANALYSES = [
	["cputop", "Threads by CPU time"],
	["ltt", "Where time went"],
	["syscallstats", "System calls"],
	["blocked", "Blocked"],
	["schedstats", "Waits for a CPU"],
	["iotop", "I/O"],
	["iolatencystats", "I/O latency"],
	["irqstats", "Interrupts"],
	["nettop", "Network"],
	["memtop", "Memory"],
] as const;

const ROWS_MAX = 1000;

interface Answer {
	tables: Table[];
	notes: string[];
}

/** Answers for whole traces, kept because they do not change. */
const known = new Map<string, Answer>();

export function StatisticsPage({ recording, origin, whole, lanes, shown, show }: PageProps) {
	const [name] = ANALYSES.find(([name]) => name === shown.analysis) ?? ANALYSES[0];
	const [found, setFound] = useState<{ key: string; answer: Answer } | null>(null);
	const [problem, setProblem] = useState<string | null>(null);
	const key = `${recording} ${name} ${origin} ${whole.end}`;
	useEffect(() => {
		const controller = new AbortController();
		const answer = known.get(key);
		setProblem(null);
		if (answer) {
			setFound({ key, answer });
			return;
		}
		const end = origin + BigInt(Math.ceil(whole.end));
		api.analysis(recording, name, origin, end, controller.signal, ROWS_MAX + 1).then(
			(json) => {
				const answer = { tables: tablesOf(json), notes: (json as { notes?: string[] }).notes ?? [] };
				known.set(key, answer);
				setFound({ key, answer });
			},
			(error) => {
				if (!controller.signal.aborted) setProblem(String(error.message));
			},
		);
		return () => controller.abort();
	}, [recording, name, origin, whole.end, key]);
	const openThread = useCallback(
		(tid: number) => {
			const lane = tid === 0 ? undefined : lanes?.ofThread(tid);
			if (!lane) return null;
			return () => show({ ...opened({ at: 0, tid }, shown, whole, lanes), span: null, selected: null });
		},
		[lanes, shown, whole, show],
	);
	const answer = found?.key === key ? found.answer : null;
	return (
		<section class="sheet" aria-label="Statistics" aria-busy={!answer && !problem}>
			<div class="bar">
				<h2>Statistics</h2>
				<span class="faint">of the whole trace, {duration(whole.end - whole.begin)}</span>
			</div>
			<div role="tablist" class="bar tabs">
				{ANALYSES.map(([one, title]) => (
					<button
						key={one}
						type="button"
						role="tab"
						aria-selected={one === name}
						onClick={() => show({ analysis: one })}
					>
						{title}
					</button>
				))}
			</div>
			<div class="scroll">
				{problem && <p role="alert">{problem}</p>}
				{!answer && !problem && <p class="faint">Reading the trace…</p>}
				{answer?.tables.length === 0 && <p>The tables are empty for this trace.</p>}
				{answer?.tables.map((table) => (
					<TableView key={`${name} ${table.title}`} table={table} most={ROWS_MAX} openThread={openThread} />
				))}
				{answer?.notes.map((note) => (
					<p key={note} class="faint">
						{note}
					</p>
				))}
			</div>
		</section>
	);
}
