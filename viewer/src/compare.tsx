// SPDX-License-Identifier: MIT OR Apache-2.0
// Two recordings: their timelines with a common axis, and what is different between them.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Own, type Shown, START } from "./address";
import * as api from "./api";
import { aboutOf, meantBy, pinnedOf } from "./changes";
import { CLASS_NAMES, type Class, type Theme } from "./colours";
import { useCommands } from "./commands";
import { DiffTable } from "./difftable";
import { type Draft, type Note, NoteEditor, useNotes } from "./notes";
import { aligned, exchanged, nsOf, ofSecond, otherOf, type Place, placed, reachOf, secondOf } from "./pair";
import type { Segment } from "./path";
import { nameOf, type Opened, useRecording } from "./recording";
import { note, title } from "./rows";
import { type Known, useSelected } from "./selected";
import { type Pair, Stage } from "./stage";
import { duration, moment } from "./time";
import { useWakes, type Wait } from "./wakes";

type Show = (change: Partial<Shown> | ((now: Shown) => Partial<Shown>), kind?: "step" | "glide") => void;
type Side = 0 | 1;

const NAMES = ["Before", "After"] as const;
/** The same each time, so that nothing is drawn again for it. */
const NO_PATH: Segment[] = [];
const NO_MATCHES: number[] = [];

interface Props {
	statuses: api.Status[];
	recording: number;
	/** The first recording, */
	first: Opened;
	/** its notes, and how one is written. */
	notes: readonly Note[];
	write: (note: Draft) => void;
	/** What is selected in it; null: it is not known yet. */
	known: Known | null;
	/** The next wait that its selected thread ended. */
	wakes: Wait | null;
	theme: Theme;
	shown: Shown;
	show: Show;
	/** Told why a recording cannot be opened, */
	fail: (why: string) => void;
	/** or why a timeline does not answer. */
	failed: (why: string | null) => void;
}

export function ComparePage(props: Props) {
	const other = otherOf(props.shown, props.recording, props.statuses.length);
	if (other === null) return <Choose {...props} />;
	return <Comparison key={`${props.recording} ${other}`} {...props} other={other} />;
}

interface RecordingProps {
	label: string;
	statuses: api.Status[];
	value: number;
	choose: (recording: number) => void;
}

function RecordingChoice({ label, statuses, value, choose }: RecordingProps) {
	return (
		<label class="recording">
			{label}
			<select
				value={value}
				title={statuses[value]?.path}
				onChange={(event) => choose(Number(event.currentTarget.value))}
			>
				{statuses.map(({ path }, index) => (
					<option key={path} value={index}>
						{path}
					</option>
				))}
			</select>
		</label>
	);
}

function Choose({ statuses, recording, show }: Props) {
	const others = statuses.map(({ path }, index) => ({ path, index })).filter(({ index }) => index !== recording);
	return (
		<section class="page" aria-label="Compare">
			<h2>Compare two traces</h2>
			{others.length === 0 ? (
				<p>
					Only one trace is open. To compare it with another one, run <code>piste web BEFORE AFTER</code>.
				</p>
			) : (
				<>
					<p>
						<RecordingChoice
							label="Before"
							statuses={statuses}
							value={recording}
							choose={(recording) => show({ ...START, page: "compare", recording })}
						/>
					</p>
					<h3>After</h3>
					<ol class="cards">
						{others.map(({ path, index }) => (
							<li key={path}>
								<button type="button" class="card plain" onClick={() => show({ other: index })}>
									<strong>{nameOf(path)}</strong>
									<small>{path}</small>
								</button>
							</li>
						))}
					</ol>
				</>
			)}
		</section>
	);
}

function Comparison(props: Props & { other: number }) {
	const { statuses, recording, other, first, notes, write, known, wakes, theme, shown, show, fail, failed } = props;
	const second = useRecording(other, statuses[other], fail);
	const ofOther = useMemo(() => secondOf(shown), [shown]);
	const showOther = useCallback(
		(change: Partial<Shown>, kind?: "step" | "glide") => show((now) => ofSecond(change, now), kind),
		[show],
	);
	const reach = useMemo(
		() => reachOf(first.whole, second.whole, shown.offset),
		[first.whole, second.whole, shown.offset],
	);
	const reachOfOther = useMemo(
		() => ({ begin: reach.begin - shown.offset, end: reach.end - shown.offset }),
		[reach, shown.offset],
	);
	const book = useNotes(other, second.origin, statuses[other]?.begin_ns != null);
	const [draft, setDraft] = useState<Draft | null>(null);
	const wakesOfOther = useWakes(other, second.origin, second.lanes, ofOther.selected);
	const pieces = [known, useSelected(other, second.origin, second.lanes, ofOther.selected).known] as const;

	const [active, activate] = useState<Side>(0);
	/** Where the pointer is, in times of the first recording. */
	const [pointed, point] = useState<{ side: Side; at: number } | null>(null);
	const [home, goHome] = useState(0);
	const points = useMemo(() => {
		const of = (side: Side, later: number) => (at: number | null) =>
			point((now) => (at !== null ? { side, at: at + later } : now?.side === side ? null : now));
		return [of(0, 0), of(1, shown.offset)] as const;
	}, [shown.offset]);

	// The begin of the piece, once it is known.
	const anchor = (known: Known | null, { selected, marks }: Own) => known?.span?.begin ?? selected?.at ?? marks.at(-1);
	const anchors = [anchor(pieces[0], shown), anchor(pieces[1], shown.second)] as const;
	const canAlign = anchors[0] !== undefined && anchors[1] !== undefined;
	const align = () => canAlign && show((now) => aligned(anchors[0]!, anchors[1]!, now, reach));
	useCommands({
		other: () => activate(active === 0 ? 1 : 0),
		...(canAlign && { align }),
		clear: () => {
			const hasSelection = shown.selected ?? shown.second.selected;
			if (hasSelection) show((now) => ({ selected: null, second: { ...now.second, selected: null } }));
			else show({ range: null });
		},
	});

	const looking = useRef(new AbortController());
	useEffect(() => () => looking.current.abort(), []);
	/** What is to be known about the row that was opened. */
	const [remark, setRemark] = useState<string | null>(null);
	const open = useCallback(
		async (change: api.Change) => {
			looking.current.abort();
			const controller = new AbortController();
			looking.current = controller;
			let isPart = false;
			const find = async (recording: number, { origin, lanes }: Opened): Promise<Place> => {
				const meant = lanes && meantBy(change, lanes);
				if (!meant) return { pinned: [], open: [], piece: null };
				const answer = meant.pieces && (await api.longest(recording, meant.pieces, controller.signal));
				const found = answer?.piece ?? null;
				isPart ||= answer?.is_part === true;
				const thread = found && lanes.threadOf(found.lane)?.id;
				const pinned = pinnedOf(meant.isAny ? [] : meant.lanes, thread ?? found?.lane ?? null);
				const ns = (text: string) => Number(BigInt(text) - origin);
				return {
					pinned,
					open: pinned.filter((id) => meant.open.includes(id)),
					piece: found && { lane: found.lane, begin: ns(found.begin_ns), end: ns(found.end_ns) },
				};
			};
			try {
				const places = await Promise.all([find(recording, first), find(other, second)]);
				const without = NAMES.filter((_, side) => places[side]!.pinned.length === 0);
				const missing = without.length === 1 ? `${without[0]}: nothing found for ${aboutOf(change)}.` : null;
				setRemark(isPart ? "There are too many pieces to examine all of them; others may be longer." : missing);
				show((now) => placed(places, now, [first.whole, second.whole]));
				goHome((count) => count + 1);
			} catch (error) {
				if (!controller.signal.aborted) fail(String((error as Error).message));
			}
		},
		[recording, other, first, second, show, fail],
	);

	const states = [statuses[recording]!, statuses[other]!] as const;
	const { analysis, sums } = shown;
	const isFinal = states.every(({ state }) => state === "whole" || state === "growing");
	// Not again whenever the pointer moves.
	const table = useMemo(
		() => (
			<DiffTable
				recordings={[recording, other]}
				isFinal={isFinal}
				lanes={[first.lanes, second.lanes]}
				shown={{ analysis, sums }}
				show={show}
				open={open}
			/>
		),
		[recording, other, isFinal, first.lanes, second.lanes, analysis, sums, show, open],
	);
	const side = (index: Side) => {
		const isFirst = index === 0;
		const opened = isFirst ? first : second;
		const own = isFirst ? shown : ofOther;
		const status = states[index];
		const alone = () => {
			const { selected, pinned, open, marks, range, span } = own;
			const of = { recording: isFirst ? recording : other, selected, pinned, open, marks, range, span };
			show({ ...START, ...of, page: "timeline" });
		};
		const pair: Pair = {
			name: NAMES[index],
			heading: (
				<span class="whose">
					<strong>{NAMES[index]}</strong>
					<button type="button" class="link" title={`Open ${status.path} alone`} onClick={alone}>
						{nameOf(status.path)}
					</button>
				</span>
			),
			reach: isFirst ? reach : reachOfOther,
			isActive: active === index,
			isPointed: (pointed?.side ?? active) === index,
			cursor: pointed && pointed.side !== index ? pointed.at - (isFirst ? 0 : shown.offset) : null,
			points: points[index],
			home,
		};
		return (
			<section
				key={index}
				class={`one ${active === index ? "active" : ""}`}
				aria-label={NAMES[index]}
				aria-current={active === index}
				onPointerDownCapture={() => activate(index)}
				onFocusCapture={() => activate(index)}
			>
				{opened.lanes ? (
					<Stage
						key={`${isFirst ? recording : other} ${opened.origin}`}
						recording={isFirst ? recording : other}
						origin={opened.origin}
						whole={opened.whole}
						lanes={opened.lanes}
						theme={theme}
						shown={own}
						show={isFirst ? show : showOther}
						isLive={false}
						isWhole={status.state === "whole"}
						grown={`${opened.progress} ${opened.whole.end}`}
						failed={failed}
						known={pieces[index]}
						path={NO_PATH}
						wakes={isFirst ? wakes : (wakesOfOther?.wait ?? null)}
						matches={NO_MATCHES}
						notes={isFirst ? notes : book.notes}
						write={isFirst ? write : setDraft}
						pair={pair}
					/>
				) : (
					<p class="message" role={status.problem ? "alert" : "status"}>
						{status.problem ? `${nameOf(status.path)}: ${status.problem}` : `Opening ${nameOf(status.path)}…`}
					</p>
				)}
			</section>
		);
	};
	const said = ([0, 1] as const).map((index) => {
		const { lanes } = index === 0 ? first : second;
		const { found, span } = pieces[index] ?? {};
		const piece = found?.piece;
		const selected = index === 0 ? shown.selected : ofOther.selected;
		const lane = selected && lanes?.get(selected.lane);
		if (!piece || !span || !lane || !lanes) return null;
		const what = piece.what ? lanes.said(piece.what) : CLASS_NAMES[piece.class as Class];
		return `${what}, ${duration(span.end - span.begin)}, ${title(lane, lanes)} ${note(lane)} at ${moment(span.begin, 1e3)}`;
	});
	const lengths = pieces.map((known) => known?.span && known.span.end - known.span.begin);
	return (
		<section class="sheet compare" aria-label="Compare">
			<div class="bar">
				<RecordingChoice
					label="Before"
					statuses={statuses}
					value={recording}
					choose={(recording) => show({ ...START, page: "compare", analysis, sums, recording, other })}
				/>
				<button
					type="button"
					title="Exchange the two traces"
					aria-label="Exchange the two traces"
					onClick={() => show(exchanged({ ...shown, recording }, other))}
				>
					⇄
				</button>
				<RecordingChoice
					label="After"
					statuses={statuses}
					value={other}
					choose={(other) => show({ ...START, page: "compare", analysis, sums, recording, other })}
				/>
				<span class="room" />
				<Offset offset={shown.offset} shift={(offset) => show({ offset })} />
				<button
					type="button"
					disabled={!canAlign}
					title="Shift the second trace so that the selected pieces, or else the last marks, are aligned (Y)"
					onClick={align}
				>
					Align
				</button>
				<button type="button" disabled={shown.offset === 0} onClick={() => show({ offset: 0 })}>
					Align starts
				</button>
			</div>
			<div class="both">{([0, 1] as const).map(side)}</div>
			<p class="bar chosen" role="status">
				{said.map(
					(text, index) =>
						text && (
							<span key={NAMES[index]}>
								<b>{NAMES[index]}</b> {text}
							</span>
						),
				)}
				{lengths[0] != null && lengths[1] != null && <strong>{compared(lengths[0], lengths[1])}</strong>}
				{remark && <span>{remark}</span>}
				{!said.some(Boolean) && !remark && (
					<span class="faint">Click a name in the table to see its longest piece in both traces.</span>
				)}
			</p>
			{table}
			{draft && second.lanes && (
				<NoteEditor draft={draft} book={book} lanes={second.lanes} close={() => setDraft(null)} />
			)}
		</section>
	);
}

/** How much longer the second of two pieces is. */
function compared(first: number, second: number): string {
	if (first === second) return "Both take the same time";
	const by = `After takes ${duration(Math.abs(second - first))} ${second > first ? "longer" : "less"}`;
	const ratio = first > 0 ? second / first : 0;
	const times = ratio >= 10 ? Math.round(ratio).toLocaleString("en-US") : ratio.toPrecision(2);
	return ratio < 0.01 ? by : `${by} (${times} times as long)`;
}

/** How much later the second recording is shown. */
function Offset({ offset, shift }: { offset: number; shift: (offset: number) => void }) {
	const [typed, type] = useState<string | null>(null);
	const isWrong = typed !== null && nsOf(typed) === null;
	return (
		<form
			class="offset"
			onSubmit={(event) => {
				event.preventDefault();
				const ns = typed === null ? null : nsOf(typed);
				if (ns === null) return;
				type(null);
				shift(ns);
			}}
		>
			<label title="Time by which the second trace is shown later, such as -1.5 ms or 0.25 s. Press Enter to apply it.">
				Shift{" "}
				<input
					type="text"
					spellcheck={false}
					autocomplete="off"
					aria-label="Shift of the second trace"
					aria-invalid={isWrong}
					value={typed ?? moment(offset, 1)}
					onInput={(event) => type(event.currentTarget.value)}
					onBlur={() => type(null)}
				/>
			</label>
		</form>
	);
}
