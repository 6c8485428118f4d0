// SPDX-License-Identifier: MIT OR Apache-2.0
// Queries over the trace: an editor, the list of tables, and the rows of the result.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { RESULTS } from "./address";
import * as api from "./api";
import type { Theme } from "./colours";
import { type Editor, EditorField } from "./editor";
import { opened, type PageProps, placeIn } from "./places";
import { Plot } from "./plot";
import { EXAMPLES, forget, keep, kept } from "./queries";
import { Side, sqlLanguage, useTables } from "./side";
import { type Column, DataTable, isNumeric, type Key, measured, shownText, unitOf } from "./tables";
import { duration } from "./time";
import { Waiting } from "./waiting";

const ROWS_MAX = 1000;
const RESULT_NAMES = { table: "Table", plot: "Plot" } as const;

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

export function SqlPage(props: PageProps & { theme: Theme }) {
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
							Run <kbd>Ctrl-Enter</kbd>
						</button>
					)}
					<span class="faint" role="status">
						{isRunning ? <Running key={run.sql} recording={recording} /> : run && <Outcome run={run} />}
					</span>
					{run?.answer && run.answer.columns.length > 0 && (
						<div role="tablist" class="tabs" aria-label="Show the result as">
							{RESULTS.map((one) => (
								<button
									key={one}
									type="button"
									role="tab"
									aria-selected={shown.result === one}
									onClick={() => show({ result: one })}
								>
									{RESULT_NAMES[one]}
								</button>
							))}
						</div>
					)}
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
function Running({ recording }: { recording: number }) {
	const [seconds, setSeconds] = useState(0);
	useEffect(() => {
		const timer = setInterval(() => setSeconds((seconds) => seconds + 1), 1000);
		return () => clearInterval(timer);
	}, []);
	return (
		<>
			{seconds === 0 ? "running" : `running for ${seconds} s`} <Waiting path={`${recording}/query`}>{""}</Waiting>
		</>
	);
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

/** The rows of a result, or a plot of them. A click on a time opens the timeline. */
function Result({ answer, ...page }: PageProps & { answer: api.Rows; theme: Theme }) {
	const { origin, whole, lanes, shown, show } = page;
	/** Opens the timeline at the time in a cell, if there is one. */
	const opener = useCallback(
		(row: string[], index: number) => {
			const to = placeIn(answer.columns, row, index, origin, whole);
			return to && (() => show(opened(to, shown, whole, lanes)));
		},
		[answer, origin, whole, lanes, shown, show],
	);
	const columns = useMemo(
		() =>
			answer.columns.map((name, index): Column<string[]> => {
				const isNumber = answer.rows.every((row) => !row[index] || isNumeric(row[index]));
				const key = (row: string[]): Key => {
					const text = row[index]!;
					if (!isNumber || !text) return text || null;
					return /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
				};
				const cell = (row: string[]) => {
					const text = row[index]!;
					const open = opener(row, index);
					if (!open) return isNumber && unitOf(name) === "ns" && text ? measured(name, Number(text)) : shownText(text);
					return (
						<button type="button" class="link" title="Show in the timeline" onClick={open}>
							{text}
						</button>
					);
				};
				return { heading: name, isNumber, key, cell, title: (row) => shownText(row[index] ?? "") };
			}),
		[answer, opener],
	);
	if (columns.length === 0) return <p class="faint">The statement returned no rows.</p>;
	if (shown.result === "plot") return <Plot {...page} answer={answer} opener={opener} />;
	return <DataTable columns={columns} rows={answer.rows} most={ROWS_MAX} />;
}
