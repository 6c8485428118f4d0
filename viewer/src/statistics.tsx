// SPDX-License-Identifier: MIT OR Apache-2.0
// What `piste analyze` says about the whole trace.
import { useCallback } from "preact/hooks";
import { useAnswer } from "./answers";
import * as api from "./api";
import { opened, type PageProps } from "./places";
import { type Analysis, AnalysisView, analysisOf } from "./tables";
import { duration } from "./time";
import { Waiting } from "./waiting";

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

/** Answers for whole traces. */
const known = new Map<string, Analysis>();

export function StatisticsPage({ recording, origin, whole, lanes, shown, show }: PageProps) {
	const [name] = ANALYSES.find(([name]) => name === shown.analysis) ?? ANALYSES[0];
	const { answer, problem } = useAnswer(
		[recording, name, origin, whole.end],
		async (signal) => {
			const end = origin + BigInt(Math.ceil(whole.end));
			return analysisOf(await api.analysis(recording, name, origin, end, signal, ROWS_MAX + 1));
		},
		{ kept: known },
	);
	const openThread = useCallback(
		(tid: number) => {
			const lane = tid === 0 ? undefined : lanes?.ofThread(tid);
			if (!lane) return null;
			return () => show({ ...opened({ at: 0, tid }, shown, whole, lanes), span: null, selected: null });
		},
		[lanes, shown, whole, show],
	);
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
				{!answer && !problem && (
					<p>
						<Waiting path={`${recording}/analysis/${name}`}>Reading the trace…</Waiting>
					</p>
				)}
				{answer && <AnalysisView key={name} analysis={answer} of="trace" most={ROWS_MAX} openThread={openThread} />}
			</div>
		</section>
	);
}
