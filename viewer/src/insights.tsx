// SPDX-License-Identifier: MIT OR Apache-2.0
// The first page: what stands out. Each card leads to its place in the timeline.
import type { Shown } from "./address";
import { useAnswer } from "./answers";
import * as api from "./api";
import { Prose } from "./prose";
import type { Lanes } from "./rows";
import { duration, lengthOf, moment } from "./time";
import type { Span } from "./timeline";
import { Waiting } from "./waiting";

interface Props {
	recording: number;
	origin: bigint;
	whole: Span;
	lanes: Lanes | null;
	show: (change: Partial<Shown>) => void;
}

/** The lanes that an insight is about: its command names the process or the thread. */
function meant(insight: api.Insight, lanes: Lanes | null): number[] {
	const number = (option: string) => {
		const found = new RegExp(`--${option} (\\d+)`).exec(insight.command);
		return found ? Number(found[1]) : null;
	};
	const [tid, pid] = [number("tid"), number("pid")];
	const thread = tid === null ? undefined : lanes?.ofThread(tid);
	if (thread) return [thread.id];
	return pid === null ? [] : (lanes?.ofProcess(pid) ?? []).slice(0, 8).map(({ id }) => id);
}

export function InsightsPage({ recording, origin, whole, lanes, show }: Props) {
	// Absent until the lanes are there.
	const hasKernel = lanes?.hasKernel;
	const { answer, problem } = useAnswer(hasKernel ? [recording] : null, (signal) => api.insights(recording, signal));

	const open = (insight: api.Insight) => {
		const begin = Number(BigInt(insight.begin_ns) - origin);
		const end = Math.max(begin + 1, Number(BigInt(insight.end_ns) - origin));
		const around = Math.max((end - begin) * 0.1, 1000);
		show({
			page: "timeline",
			span: { begin: Math.max(whole.begin, begin - around), end: Math.min(whole.end, end + around) },
			range: { begin, end },
			pinned: meant(insight, lanes),
			selected: null,
			filter: "",
		});
	};
	return (
		<section class="page" aria-busy={!answer && !problem && hasKernel !== false}>
			<h2>What stands out in {duration(whole.end - whole.begin)}</h2>
			{hasKernel === false && (
				<p>
					Insights need kernel events, and this trace contains only events of programs. The timeline shows them. To
					record both, run <code>piste record -o DIR -- COMMAND</code>.
				</p>
			)}
			{problem && <p role="alert">{problem}</p>}
			{!answer && !problem && hasKernel !== false && (
				<p>
					<Waiting path={`${recording}/insights`}>Looking through the whole trace…</Waiting>
				</p>
			)}
			{answer?.insights.length === 0 && <p>Nothing stands out.</p>}
			<ol class="cards">
				{answer?.insights.map((insight) => {
					const begin = Number(BigInt(insight.begin_ns) - origin);
					const length = lengthOf(insight);
					return (
						<li key={`${insight.kind} ${insight.what} ${insight.begin_ns}`}>
							<button type="button" class={`card ${insight.level}`} onClick={() => open(insight)}>
								<strong>{insight.kind}</strong>
								<span>{insight.what}</span>
								<small>{insight.how}</small>
								<small>
									{moment(begin, 1e6)}, {duration(length)}
								</small>
							</button>
							<code>{insight.command}</code>
						</li>
					);
				})}
			</ol>
			{answer && answer.notes.length > 0 && (
				<>
					<h3>What this trace does not show</h3>
					<ul>
						{answer.notes.map((note) => (
							<li key={note}>
								<Prose text={note} />
							</li>
						))}
					</ul>
				</>
			)}
			<p>
				<button type="button" class="wide" onClick={() => show({ page: "timeline" })}>
					Show the whole timeline
				</button>
			</p>
		</section>
	);
}
