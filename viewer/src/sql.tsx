// SPDX-License-Identifier: MIT OR Apache-2.0
// Queries over the trace: an editor, the list of tables, and the rows of the result.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { type Editor, EditorField } from "./editor";
import { opened, type PageProps, timeOf } from "./places";
import { EXAMPLES, forget, keep, kept } from "./queries";
import { Side, sqlLanguage, useTables } from "./side";
import { type Column, DataTable, type Key, measured, shownText } from "./tables";
import { duration } from "./time";

const ROWS_MAX = 1000;

/** A query and its result. */
interface Run {
	recording: number;
	sql: string;
	/** How long it took; absent: it is running. */
	tookMs?: number;
	answer?: api.Rows;
	problem?: string;
	isCancelled?: boolean;
}

/** The last result, kept so that coming back from the timeline does not run the query again. */
let last: Run | null = null;
/** Text typed since the query `after` was run, kept while another page is shown. */
let draft: { after: string; text: string } | null = null;

const begun = (sql: string) => (draft?.after === sql ? draft.text : sql);

export function SqlPage(props: PageProps) {
	const { recording, shown, show } = props;
	const begin = useMemo(() => begun(shown.sql), [shown.sql]);
	const [typed, setTyped] = useState(begin);
	const [run, setRun] = useState<Run | null>(null);
	const [history, setHistory] = useState(kept);
	const [runs, again] = useState(0);
	const running = useRef<AbortController | null>(null);
	const editor = useRef<Editor>(null);
	const { answer: tables, problem: unread } = useTables(recording);
	const language = useMemo(() => sqlLanguage(tables), [tables]);

	const type = (text: string) => {
		draft = { after: shown.sql, text };
		setTyped(text);
	};
	useEffect(() => setTyped(begin), [begin]);
	useEffect(() => editor.current?.focus(), []);
	useEffect(() => {
		const { sql } = shown;
		if (!sql) {
			setRun(null);
			return;
		}
		if (last?.recording === recording && last.sql === sql) {
			setRun(last);
			return;
		}
		const controller = new AbortController();
		running.current = controller;
		setRun({ recording, sql });
		const beginMs = performance.now();
		const end = (found: Partial<Run>) => {
			const ended = { recording, sql, tookMs: performance.now() - beginMs, ...found };
			if (!controller.signal.aborted) last = ended;
			setRun(ended);
		};
		api.query(recording, sql, ROWS_MAX, controller.signal).then(
			(answer) => end({ answer }),
			(error) => {
				// Another query has started, or the user has left the page.
				if (running.current !== controller) return;
				end(controller.signal.aborted ? { isCancelled: true } : { problem: String(error.message) });
			},
		);
		return () => {
			running.current = null;
			controller.abort();
		};
	}, [recording, shown.sql, runs]);

	const start = (sql: string) => {
		const meant = sql.trim();
		if (!meant) return;
		setHistory(keep(meant));
		editor.current?.replace(meant);
		last = null;
		draft = null;
		if (meant === shown.sql) again((count) => count + 1);
		else show({ sql: meant });
	};
	const isRunning = run !== null && run.tookMs === undefined;
	return (
		<section class="sql" aria-label="SQL" aria-busy={isRunning}>
			<Side
				{...{ tables, history, start }}
				problem={unread}
				insert={(text) => editor.current?.insert(text)}
				clear={() => setHistory(forget())}
			/>
			<div class="sheet">
				<EditorField
					editor={editor}
					label="SQL"
					placeholder="SELECT name, count(*) FROM events GROUP BY name ORDER BY 2 DESC"
					language={language}
					text={begin}
					type={type}
					submit={start}
				/>
				<div class="bar">
					{isRunning ? (
						<button type="button" class="main" onClick={() => running.current?.abort()}>
							Cancel
						</button>
					) : (
						<button type="button" class="main" disabled={!typed.trim()} onClick={() => start(typed)}>
							Run <kbd>Ctrl Enter</kbd>
						</button>
					)}
					<span class="faint" role="status">
						{isRunning ? <Running key={run.sql} /> : run && <Outcome run={run} />}
					</span>
				</div>
				<div class="scroll" key={run?.sql}>
					{run?.problem && (
						<pre role="alert" class="said">
							{run.problem}
						</pre>
					)}
					{run?.answer?.notes.map((note) => (
						<p key={note} class="faint">
							{note}
						</p>
					))}
					{run?.answer && <Result {...props} answer={run.answer} />}
					{!run && (
						<>
							<h3>Examples</h3>
							<ul class="examples">
								{EXAMPLES.map(([title, sql]) => (
									<li key={title}>
										<button type="button" class="card" onClick={() => start(sql)}>
											<strong>{title}</strong>
											<code>{sql}</code>
										</button>
									</li>
								))}
							</ul>
						</>
					)}
				</div>
			</div>
		</section>
	);
}

/** `running for 3 s` */
function Running() {
	const [seconds, setSeconds] = useState(0);
	useEffect(() => {
		const timer = setInterval(() => setSeconds((seconds) => seconds + 1), 1000);
		return () => clearInterval(timer);
	}, []);
	return <>{seconds === 0 ? "running" : `running for ${seconds} s`}</>;
}

function Outcome({ run }: { run: Run }) {
	const took = duration((run.tookMs ?? 0) * 1e6);
	if (run.isCancelled) return <>cancelled after {took}</>;
	if (!run.answer) return null;
	const { rows, has_more } = run.answer;
	const count = rows.length.toLocaleString("en-US");
	if (has_more) return <>{`The first ${count} rows in ${took}; there are more`}</>;
	return <>{`${count} ${rows.length === 1 ? "row" : "rows"} in ${took}`}</>;
}

const isNumeric = (text: string) => /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);

/** The rows of a result. A click on a time opens the timeline. */
function Result({ answer, origin, whole, lanes, shown, show }: PageProps & { answer: api.Rows }) {
	const columns = useMemo(() => {
		const place = (name: string) => answer.columns.indexOf(name);
		const number = (row: string[], column: number) =>
			column >= 0 && isNumeric(row[column]!) ? Number(row[column]) : undefined;
		const [tid, cpu, length] = [place("tid"), place("cpu"), place("duration_ns")];
		const end = origin + BigInt(Math.ceil(whole.end));
		/** A time within the recording. */
		const timeIn = (name: string, text: string): number | null => {
			if (/^\d+$/.test(text) && !/_ns\)*$/.test(name)) return null;
			const ns = timeOf(text);
			// If the clock does not count from 1970, a duration can look like a time.
			const isSure = origin > 10n ** 17n || TIMES.has(name);
			return ns !== null && isSure && ns >= origin && ns <= end ? Number(ns - origin) : null;
		};
		return answer.columns.map((name, index): Column<string[]> => {
			const isNumber = answer.rows.every((row) => !row[index] || isNumeric(row[index]));
			const key = (row: string[]): Key => {
				const text = row[index]!;
				if (!isNumber || !text) return text || null;
				return /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
			};
			const cell = (row: string[]) => {
				const text = row[index]!;
				const at = timeIn(name, text);
				if (at !== null) {
					const isBegin = name === "begin_ns" || name === "begin";
					const about = { tid: number(row, tid), cpu: number(row, cpu) };
					const to = { at, duration: isBegin ? number(row, length) : undefined, ...about };
					return (
						<button
							type="button"
							class="link"
							title="Show in the timeline"
							onClick={() => show(opened(to, shown, whole, lanes))}
						>
							{text}
						</button>
					);
				}
				return isNumber && /_ns\)*$/.test(name) && text ? measured(name, Number(text)) : shownText(text);
			};
			return { heading: name, isNumber, key, cell, title: (row) => shownText(row[index] ?? "") };
		});
	}, [answer, origin, whole, lanes, shown, show]);
	if (columns.length === 0) return <p class="faint">The statement has no rows.</p>;
	return <DataTable columns={columns} rows={answer.rows} most={ROWS_MAX} />;
}

/** Columns of times in the tables of `piste query`. */
const TIMES = new Set(["time_ns", "begin_ns", "end_ns", "queued_ns", "issued_ns", "completed_ns", "raised_ns"]);
