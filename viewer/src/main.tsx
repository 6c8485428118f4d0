// SPDX-License-Identifier: MIT OR Apache-2.0
import { render } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { PAGES, read, type Shown, START, write } from "./address";
import * as api from "./api";
import { DARK, LIGHT, type Theme } from "./colours";
import { actOf, press, useCommands } from "./commands";
import { ComparePage } from "./compare";
import { Details } from "./details";
import { EventsPage } from "./events";
import { Help } from "./help";
import { InsightsPage } from "./insights";
import { type Draft, NoteEditor, NoteList, noted, useNotes } from "./notes";
import { otherOf } from "./pair";
import { Palette } from "./palette";
import { type Segment, usePath } from "./path";
import { nameOf, useRecording } from "./recording";
import { SearchBar } from "./search";
import { SqlPage } from "./sql";
import { Stage } from "./stage";
import { StatisticsPage } from "./statistics";
import { duration } from "./time";
import type { Span } from "./timeline";
import { useWakes } from "./wakes";

const POLL_MS = 700;
/** At first: a timeline that was made before is there soon. */
const FIRST_POLL_MS = 20;
/** The same each time, so that nothing is drawn again for it. */
const NONE: Segment[] = [];
/** As long a part is seen when it begins to follow the end, unless one was chosen. */
const FOLLOWED_NS = 5e9;
const PAGE_NAMES = {
	insights: "Insights",
	timeline: "Timeline",
	events: "Events",
	statistics: "Statistics",
	sql: "SQL",
	compare: "Compare",
} as const;

function useTheme(): [Theme, () => void] {
	const dark = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
	const [chosen, choose] = useState<"light" | "dark" | null>(null);
	const [isDark, setDark] = useState(dark.matches);
	useEffect(() => {
		const changed = () => setDark(dark.matches);
		dark.addEventListener("change", changed);
		return () => dark.removeEventListener("change", changed);
	}, [dark]);
	const theme = (chosen ?? (isDark ? "dark" : "light")) === "dark" ? DARK : LIGHT;
	useEffect(() => {
		document.documentElement.dataset.theme = theme.name;
	}, [theme]);
	return [theme, () => choose(theme.name === "dark" ? "light" : "dark")];
}

/** What is shown, kept in the address. A step can be undone by "back"; a glide (zooming, panning) becomes one step when it ends. */
function useShown(): [
	Shown,
	(change: Partial<Shown> | ((now: Shown) => Partial<Shown>), kind?: "step" | "glide") => void,
] {
	const [shown, setShown] = useState<Shown>(() => ({ ...START, ...read(location.hash) }));
	const current = useRef(shown);
	const timer = useRef(0);
	useEffect(() => {
		const moved = () => {
			current.current = { ...START, ...read(location.hash) };
			setShown(current.current);
		};
		addEventListener("popstate", moved);
		return () => removeEventListener("popstate", moved);
	}, []);
	const show = useCallback<ReturnType<typeof useShown>[1]>((to, kind = "step") => {
		const change = typeof to === "function" ? to(current.current) : to;
		current.current = { ...current.current, ...change };
		if (change.selected) current.current.last = change.selected.lane;
		setShown(current.current);
		clearTimeout(timer.current);
		const keep = () => {
			const hash = write(current.current);
			if (hash !== location.hash) history.pushState(null, "", hash);
		};
		if (kind === "step") keep();
		else timer.current = setTimeout(keep, 400);
	}, []);
	return [shown, show];
}

function App() {
	const [theme, turnTheme] = useTheme();
	const [shown, show] = useShown();
	const [statuses, setStatuses] = useState<api.Status[] | null>(null);
	const [problem, setProblem] = useState<string | null>(null);
	const number = Math.min(shown.recording, Math.max(0, (statuses?.length ?? 1) - 1));
	const status = statuses?.[number];
	const opened = useRecording(number, status, setProblem);
	const { origin, whole, lanes, progress } = opened;

	// A timeline that was damaged is made again.
	const [looks, look] = useState(0);
	const failed = useCallback((why: string | null) => {
		setProblem(why);
		if (why) look((count) => count + 1);
	}, []);

	const state = status?.state;
	// A session may have recorded much before somebody looks at it.
	const isBehind = state === "growing" || (state === "live" && status!.share < 1);
	const isComparing = shown.page === "compare";
	const other = isComparing && statuses ? otherOf(shown, number, statuses.length) : null;
	// Until the timelines are there.
	const isThere = (of: api.Status | undefined) => of?.state === "whole" || of?.state === "failed";
	const isSettled = isThere(status) && (other === null || isThere(statuses?.[other]));
	useEffect(() => {
		if (isSettled && looks === 0) return;
		let isOver = false;
		let timer = 0;
		let pauseMs = FIRST_POLL_MS;
		const poll = async () => {
			try {
				const now = await api.recordings();
				if (isOver) return;
				setStatuses(now);
				setProblem(null);
			} catch {
				setProblem(api.NO_ANSWER);
			}
			if (!isOver && !isSettled) timer = setTimeout(poll, pauseMs);
			pauseMs = Math.min(POLL_MS, pauseMs * 2);
		};
		void poll();
		return () => {
			isOver = true;
			clearTimeout(timer);
		};
	}, [isSettled, looks]);

	const [dialog, setDialog] = useState<"help" | "palette" | "notes" | null>(null);
	const [draft, setDraft] = useState<Draft | null>(null);
	const [matches, setMatches] = useState<readonly number[]>([]);
	const book = useNotes(number, origin, status?.begin_ns != null);
	useEffect(() => {
		addEventListener("keydown", press);
		return () => removeEventListener("keydown", press);
	}, []);
	// A command of the palette may have opened another one.
	const leave = (which: typeof dialog) => setDialog((now) => (now === which ? null : now));
	const isTimeline = shown.page === "timeline" && lanes !== null;
	useCommands({
		palette: () => setDialog("palette"),
		help: () => setDialog("help"),
		theme: turnTheme,
		...(Object.fromEntries(PAGES.map((page) => [page, () => show({ page })])) as Record<Shown["page"], () => void>),
		...(lanes && { notes: () => setDialog("notes") }),
		...(isTimeline && state === "live" && { now: () => show(followed(shown, whole)) }),
		...(isTimeline && { clear: () => show(shown.selected ? { selected: null } : { range: null }) }),
	});

	const [seen, setSeen] = useState<number[]>([]);

	const path = usePath(number, origin, lanes, shown);
	const wakes = useWakes(number, origin, lanes, shown);

	if (!statuses) return <p class="message">{problem ?? "Loading…"}</p>;
	if (statuses.length === 0) return <p class="message">There is no recording to show.</p>;
	return (
		<>
			<header>
				<h1>Piste</h1>
				{isComparing ? null : statuses.length > 1 ? (
					<select
						aria-label="Recording"
						value={number}
						onChange={(event) => {
							show({ ...START, recording: Number(event.currentTarget.value) });
						}}
					>
						{statuses.map((one, index) => (
							<option key={one.path} value={index}>
								{one.path}
							</option>
						))}
					</select>
				) : (
					<span class="path" title={status!.path}>
						{nameOf(status!.path)}
					</span>
				)}
				<nav>
					{PAGES.filter((page) => page !== "compare" || statuses.length > 1).map((page) => (
						<button key={page} type="button" aria-pressed={shown.page === page} onClick={() => show({ page })}>
							{PAGE_NAMES[page]}
						</button>
					))}
				</nav>
				{isBehind && (
					<span class="progress" role="status">
						reading the trace: {Math.floor(status!.share * 100)} %
						<progress value={status!.share} max={1} />
					</span>
				)}
				{state === "live" && !isBehind && (
					<span class="progress" role="status">
						● recording, {duration(whole.end)}
					</span>
				)}
				<span class="room" />
				{state === "live" && shown.page === "timeline" && (
					<button
						type="button"
						aria-pressed={shown.follow}
						title="Keep the present at the right edge (L)"
						onClick={() => show(followed(shown, whole))}
					>
						Now
					</button>
				)}
				{(shown.page === "timeline" || other !== null) && (
					<input
						id="search"
						type="search"
						placeholder="Filter lanes ( / )"
						aria-label="Filter lanes"
						value={shown.filter}
						onInput={(event) => show({ filter: event.currentTarget.value }, "glide")}
						onKeyDown={(event) => {
							if (event.key !== "Escape") return;
							// The browser would empty the field, and the lanes would stay filtered.
							event.preventDefault();
							event.currentTarget.blur();
						}}
					/>
				)}
				<button type="button" onClick={turnTheme} title="Dark or light">
					{theme.name === "dark" ? "Light" : "Dark"}
				</button>
				{lanes && (
					<button type="button" onClick={() => setDialog("notes")} title="Notes (Shift-C)">
						Notes
					</button>
				)}
				{(isTimeline || other !== null) && (
					<button type="button" onClick={() => actOf("export")?.()} title="Export the view or the range (X)">
						Export
					</button>
				)}
				<button type="button" onClick={() => setDialog("palette")} title="All commands (Ctrl-Shift-P)">
					Commands
				</button>
				<button type="button" onClick={() => setDialog("help")} title="Keys and colours (?)">
					Help
				</button>
			</header>
			{problem && (
				<p class="problem" role="alert">
					{problem}
				</p>
			)}
			{isComparing ? (
				<ComparePage
					{...{ statuses, theme, shown, show, failed }}
					recording={number}
					first={opened}
					notes={book.notes}
					write={setDraft}
					wakes={wakes?.wait ?? null}
					fail={setProblem}
				/>
			) : status!.state === "failed" ? (
				<p class="message" role="alert">
					{status!.problem}
				</p>
			) : status!.state === "waiting" ? (
				<p class="message">Opening the trace…</p>
			) : shown.page === "insights" ? (
				<InsightsPage recording={number} origin={origin} whole={whole} lanes={lanes} show={show} />
			) : shown.page === "events" ? (
				<EventsPage key={number} {...{ recording: number, origin, whole, lanes, shown, show }} />
			) : shown.page === "statistics" ? (
				<StatisticsPage key={number} {...{ recording: number, origin, whole, lanes, shown, show }} />
			) : shown.page === "sql" ? (
				<SqlPage key={number} {...{ recording: number, origin, whole, lanes, shown, show, theme }} />
			) : (
				lanes && (
					<main>
						<SearchBar
							key={number}
							{...{ recording: number, origin, whole, lanes, shown, show }}
							grown={String(progress)}
							mark={setMatches}
						/>
						<Stage
							key={`${number}/${origin}`}
							recording={number}
							origin={origin}
							whole={whole}
							lanes={lanes}
							theme={theme}
							shown={shown}
							show={show}
							isLive={state === "live"}
							isWhole={state === "whole"}
							grown={`${progress} ${whole.end}`}
							failed={failed}
							path={path?.path?.segments ?? NONE}
							wakes={wakes?.wait ?? null}
							sees={path ? setSeen : undefined}
							matches={matches}
							notes={book.notes}
							write={setDraft}
						/>
						<Details
							recording={number}
							origin={origin}
							lanes={lanes}
							whole={whole}
							shown={shown}
							theme={theme}
							show={show}
							path={path}
							wakes={wakes}
							seen={seen}
						/>
					</main>
				)
			)}
			{dialog === "help" && <Help theme={theme} close={() => leave("help")} />}
			{dialog === "palette" && <Palette close={() => leave("palette")} />}
			{dialog === "notes" && lanes && (
				<NoteList
					book={book}
					lanes={lanes}
					jump={(note) => show(noted(note, shown, lanes))}
					edit={(index) => setDraft({ ...book.notes[index]!, index })}
					close={() => leave("notes")}
				/>
			)}
			{draft && lanes && <NoteEditor draft={draft} book={book} lanes={lanes} close={() => setDraft(null)} />}
		</>
	);
}

/** Follows the end of a recording that goes on, or stays where it is. */
function followed({ follow, span }: Shown, whole: Span): Partial<Shown> {
	const length = span ? span.end - span.begin : Math.min(FOLLOWED_NS, whole.end);
	return { follow: !follow, span: { begin: whole.end - length, end: whole.end } };
}

render(<App />, document.getElementById("viewer")!);
