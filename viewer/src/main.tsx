// SPDX-License-Identifier: MIT OR Apache-2.0
import { render } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { PAGES, read, type Shown, START, write } from "./address";
import * as api from "./api";
import { DARK, LIGHT, type Theme } from "./colours";
import { press, useCommands } from "./commands";
import { ComparePage } from "./compare";
import { Details } from "./details";
import { EventsPage } from "./events";
import { followed, Header, type Show } from "./header";
import { Help } from "./help";
import { InsightsPage } from "./insights";
import { type Draft, NoteEditor, NoteList, noted, useNotes } from "./notes";
import { otherOf } from "./pair";
import { Palette } from "./palette";
import { type Segment, usePath } from "./path";
import { useRecording } from "./recording";
import { SearchBar } from "./search";
import { useSelected } from "./selected";
import { SqlPage } from "./sql";
import { Stage } from "./stage";
import { StatisticsPage } from "./statistics";
import { useWakes } from "./wakes";

const POLL_MS = 700;
/** At first: a timeline that was made before is there soon. */
const FIRST_POLL_MS = 20;
/** The same each time, so that nothing is drawn again for it. */
const NONE: Segment[] = [];

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
function useShown(): [Shown, Show] {
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
	const show = useCallback<Show>((to, kind = "step") => {
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
	/** Of the timeline, which says when it is over. */
	const [fault, setFault] = useState<string | null>(null);
	const number = Math.min(shown.recording, Math.max(0, (statuses?.length ?? 1) - 1));
	const status = statuses?.[number];
	const opened = useRecording(number, status, setProblem);
	const { origin, whole, lanes, progress } = opened;

	// A timeline that was damaged is made again.
	const [looks, look] = useState(0);
	const failed = useCallback((why: string | null) => {
		setFault(why);
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
		...(isTimeline && state === "live" && { now: () => show((now) => followed(now, whole)) }),
		...(isTimeline && { clear: () => show(shown.selected ? { selected: null } : { range: null }) }),
	});

	const [seen, setSeen] = useState<number[]>([]);

	// Only these pages show what is selected.
	const selected = isComparing || shown.page === "timeline" ? shown.selected : null;
	const selection = useSelected(number, origin, lanes, selected);
	const path = usePath(number, origin, lanes, shown, selection);
	const wakes = useWakes(number, origin, lanes, selected);

	// Not again whenever time moves.
	const hasLanes = shown.page === "timeline" || other !== null;
	const header = useMemo(
		() =>
			status && (
				<Header
					{...{ statuses: statuses!, number, whole, lanes, shown, show, theme, turnTheme, isBehind, hasLanes }}
					open={setDialog}
				/>
			),
		[statuses, number, whole, lanes, shown.page, shown.filter, shown.follow, show, theme, isBehind, hasLanes],
	);

	if (!statuses) return <p class="message">{problem ?? "Loading…"}</p>;
	if (statuses.length === 0) return <p class="message">There is no recording to show.</p>;
	return (
		<>
			{header}
			{(problem ?? fault) && (
				<p class="problem" role="alert">
					{problem ?? fault}
				</p>
			)}
			{state === "live" && status!.problem && (
				<p class="problem" role="status">
					{status!.problem}
				</p>
			)}
			{isComparing ? (
				<ComparePage
					{...{ statuses, theme, shown, show, failed }}
					recording={number}
					first={opened}
					notes={book.notes}
					write={setDraft}
					known={selection.known}
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
							known={selection.known}
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
							selection={selection}
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

render(<App />, document.getElementById("viewer")!);
