// SPDX-License-Identifier: MIT OR Apache-2.0
// Above every page: which recording and page is shown, how far it was read, and what can be done everywhere.
import { PAGES, type Shown, START } from "./address";
import type { Status } from "./api";
import type { Theme } from "./colours";
import { actOf } from "./commands";
import { nameOf } from "./recording";
import type { Lanes } from "./rows";
import { duration } from "./time";
import type { Span } from "./timeline";

const PAGE_NAMES = {
	insights: "Insights",
	timeline: "Timeline",
	events: "Events",
	statistics: "Statistics",
	sql: "SQL",
	compare: "Compare",
} as const;
/** As long a part is seen when it begins to follow the end, unless one was chosen. */
const FOLLOWED_NS = 5e9;

export type Show = (change: Partial<Shown> | ((now: Shown) => Partial<Shown>), kind?: "step" | "glide") => void;

interface Props {
	statuses: Status[];
	/** The recording that is shown. */
	number: number;
	whole: Span;
	lanes: Lanes | null;
	shown: Pick<Shown, "page" | "filter" | "follow">;
	show: Show;
	theme: Theme;
	turnTheme: () => void;
	/** More was recorded than was read. */
	isBehind: boolean;
	/** The page shows lanes. */
	hasLanes: boolean;
	open: (dialog: "help" | "palette" | "notes") => void;
}

export function Header(props: Props) {
	const { statuses, number, whole, lanes, shown, show, theme, turnTheme, isBehind, hasLanes, open } = props;
	const status = statuses[number]!;
	const { state } = status;
	return (
		<header>
			<h1>Piste</h1>
			{shown.page === "compare" ? null : statuses.length > 1 ? (
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
				<span class="path" title={status.path}>
					{nameOf(status.path)}
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
					reading the trace: {Math.floor(status.share * 100)} %
					<progress value={status.share} max={1} />
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
					onClick={() => show((now) => followed(now, whole))}
				>
					Now
				</button>
			)}
			{hasLanes && (
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
			<button type="button" onClick={turnTheme} title="Switch between dark and light">
				{theme.name === "dark" ? "Light" : "Dark"}
			</button>
			{lanes && (
				<button type="button" onClick={() => open("notes")} title="Notes (Shift-C)">
					Notes
				</button>
			)}
			{lanes && hasLanes && (
				<button type="button" onClick={() => actOf("export")?.()} title="Export the view or the range (X)">
					Export
				</button>
			)}
			<button type="button" onClick={() => open("palette")} title="All commands (Ctrl-Shift-P)">
				Commands
			</button>
			<button type="button" onClick={() => open("help")} title="Keys and colours (?)">
				Help
			</button>
		</header>
	);
}

/** Follows the end of a recording that goes on, or stays where it is. */
export function followed({ follow, span }: Shown, whole: Span): Partial<Shown> {
	const length = span ? span.end - span.begin : Math.min(FOLLOWED_NS, whole.end);
	return { follow: !follow, span: { begin: whole.end - length, end: whole.end } };
}
